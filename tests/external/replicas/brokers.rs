//! Real nats-servers, one or three, which tests stop, pause and damage.

use std::fmt::Write as _;
use std::fs::DirEntry;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_nats::Client;
use async_nats::jetstream::stream::Stream;
use evenkeel::log::nats::{Access, ConnectError, FleetName, Keeping, Nats};
use futures::TryStreamExt;

use crate::replicas::links::Links;
use crate::replicas::machines::Machines;
use crate::replicas::ports::free_ports;
use crate::replicas::process::DEADLINE;
use crate::tool;

/// Nats-servers that form a cluster, or one alone. Dropping this ends them.
pub(crate) struct Brokers {
    directory: PathBuf,
    pub(crate) servers: Vec<Broker>,
    setup: Setup,
    /// The links between the servers, if they pass through this process.
    pub(crate) links: Option<Links>,
    /// Clusters take turns, because several at once are too slow to elect leaders in time on two
    /// processors and one disk.
    _turn: Option<MutexGuard<'static, ()>>,
}

/// The setup of the servers.
#[derive(Default)]
pub(crate) struct Setup {
    /// Further lines of the configuration of each server.
    pub(crate) more: String,
    /// If this is not empty, each server runs with the configuration of `deploy/nats` and this
    /// environment.
    pub(crate) deployed: Vec<(&'static str, String)>,
    /// True if the links between the servers pass through this process, and so does the connection
    /// of the first server of the fleet to them.
    pub(crate) is_linked: bool,
    /// The machines on which the servers run, one on each. Without machines all run on this host.
    pub(crate) machines: Option<Machines>,
    /// The further flags that a program needs to connect to the servers.
    pub(crate) access: Vec<String>,
}

/// The lock that a cluster holds while it runs.
static TURN: Mutex<()> = Mutex::new(());

pub(crate) struct Broker {
    pub(crate) name: String,
    pub(crate) client: u16,
    cluster: u16,
    process: Option<Child>,
}

impl Brokers {
    /// Starts one or three servers, and waits until they keep streams.
    pub(crate) fn start(count: usize) -> Self {
        Self::start_with(count, Setup::default())
    }

    /// As [`Self::start`], with another setup.
    pub(crate) fn start_with(count: usize, setup: Setup) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("brokers-{}-{number}", std::process::id()));
        // An earlier process with this id may have left the directory.
        let _ = std::fs::remove_dir_all(&directory);
        let port = |fixed| match setup.machines {
            Some(_) => fixed,
            None => free_ports(1),
        };
        let servers = (1..=count).map(|number| Broker {
            name: format!("n{number}"),
            client: port(4222),
            cluster: port(6222),
            process: None,
        });
        let servers: Vec<_> = servers.collect();
        let links = setup.is_linked.then(|| {
            let ports = servers.iter().map(|it| (it.client, it.cluster));
            Links::of(&ports.collect::<Vec<_>>())
        });
        let mut brokers = Self {
            directory,
            servers,
            links,
            setup,
            // A failed test poisons the lock, but leaves no servers behind.
            _turn: (count > 1).then(|| TURN.lock().unwrap_or_else(PoisonError::into_inner)),
        };
        for number in 0..count {
            brokers.run(number);
        }
        brokers
    }

    /// Starts a server that does not run.
    pub(crate) fn run(&mut self, number: usize) {
        let directory = self.directory(number);
        std::fs::create_dir_all(&directory).expect("a directory");
        let path = match self.setup.deployed.is_empty() {
            true => {
                let path = directory.join("nats.conf");
                std::fs::write(&path, self.config(number)).expect("it is written");
                path
            }
            false => Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/nats/nats.conf"),
        };
        let log = directory.join("log");
        let log = std::fs::File::options().create(true).append(true).open(log);
        let program = Command::new(tool("find_nats"));
        let process = self
            .on_machine(number, program)
            .arg("-c")
            .arg(&path)
            .envs(self.setup.deployed.iter().cloned())
            .envs(self.environment(number))
            .stdout(Stdio::null())
            .stderr(log.expect("a file"))
            .spawn()
            .expect("nats-server starts");
        self.servers[number].process = Some(process);
    }

    fn config(&self, number: usize) -> String {
        let Broker {
            name,
            client,
            cluster,
            ..
        } = &self.servers[number];
        let (store, host) = (self.store(number), self.host(number));
        let mut config = format!(
            "server_name: {name}\nlisten: {host}:{client}\n\
             jetstream {{ store_dir: {store:?}, sync_interval: always }}\n{}\n",
            self.setup.more
        );
        if self.servers.len() > 1 {
            let (routes, more) = match &self.links {
                // Servers do not advertise addresses that bypass the links.
                Some(links) => (
                    links.routes(number),
                    "no_advertise: true, advertise: \"127.0.0.1:1\"",
                ),
                None => (self.servers.iter().map(|it| it.cluster).collect(), ""),
            };
            let routes = (0..).zip(&routes);
            let routes = routes.map(|(other, port)| format!("nats://{}:{port}", self.host(other)));
            let routes: Vec<_> = routes.collect();
            writeln!(
                config,
                "cluster {{ name: test, listen: {host}:{cluster}, routes: {routes:?}, {more} }}"
            )
            .expect("a string takes all");
            if let Some(links) = &self.links {
                writeln!(
                    config,
                    "client_advertise: \"127.0.0.1:{}\"",
                    links.way_port()
                )
                .expect("a string takes all");
            }
        }
        config
    }

    /// Returns the variables that differ between servers with the configuration of `deploy/nats`.
    fn environment(&self, number: usize) -> [(&'static str, String); 5] {
        let server = &self.servers[number];
        let routes = self.servers.iter().map(|server| server.cluster);
        let routes: Vec<_> = routes
            .map(|port| format!("nats://localhost:{port}"))
            .collect();
        [
            ("NATS_NAME", server.name.clone()),
            ("NATS_LISTEN", format!("127.0.0.1:{}", server.client)),
            ("NATS_CLUSTER", format!("127.0.0.1:{}", server.cluster)),
            ("NATS_ROUTES", format!("[{}]", routes.join(", "))),
            ("NATS_STORE", self.store(number).display().to_string()),
        ]
    }

    fn directory(&self, number: usize) -> PathBuf {
        self.directory.join(&self.servers[number].name)
    }

    /// Returns the directory in which a server keeps its streams.
    pub(crate) fn store(&self, number: usize) -> PathBuf {
        self.directory(number).join("store")
    }

    /// Returns what a server has logged.
    pub(crate) fn logged(&self, number: usize) -> String {
        let log = std::fs::read(self.directory(number).join("log"));
        String::from_utf8_lossy(&log.expect("a log")).into_owned()
    }

    /// Sends a signal to a server. `KILL` and `TERM` end it, which this waits for.
    pub(crate) fn signal(&mut self, number: usize, signal: &str) {
        let Some(process) = &mut self.servers[number].process else {
            return;
        };
        let kill = format!("kill -{signal} {}", process.id());
        let sent = Command::new("sh").args(["-c", &kill]).status();
        assert!(sent.expect("there is a shell").success(), "{kill}");
        if ["KILL", "TERM"].contains(&signal) {
            process.wait().expect("it ends");
            self.servers[number].process = None;
        }
    }

    /// The machines on which the servers run, if each has one.
    pub(crate) fn machines(&self) -> Option<&Machines> {
        self.setup.machines.as_ref()
    }

    /// The address at which a server is reached.
    fn host(&self, number: usize) -> String {
        self.machines()
            .map_or("127.0.0.1".to_owned(), |_| Machines::host(number))
    }

    /// Returns the command that runs a program on a machine, if there are machines.
    pub(crate) fn on_machine(&self, number: usize, program: Command) -> Command {
        match self.machines() {
            Some(machines) => machines.on(number, &program),
            None => program,
        }
    }

    /// Returns how many servers there are.
    pub(crate) fn count(&self) -> usize {
        self.servers.len()
    }

    /// Waits until each server has all messages of each stream. Until then a server that was away
    /// does not count in the election of a leader, so failing another one means failing two.
    pub(crate) async fn settle(&self) {
        let start = Instant::now();
        while let Err(why) = self.are_settled().await {
            assert!(start.elapsed() < 5 * DEADLINE, "{why}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn are_settled(&self) -> anyhow::Result<()> {
        let client = async_nats::connect(self.urls()).await?;
        let streams = async_nats::jetstream::new(client);
        for name in streams.stream_names().try_collect::<Vec<_>>().await? {
            let stream = streams.get_stream(&name).await?;
            let cluster = stream.cached_info().cluster.as_ref();
            let others = cluster.map(|cluster| &*cluster.replicas);
            for peer in others.unwrap_or_default() {
                let is_whole = peer.current && !peer.offline;
                anyhow::ensure!(is_whole, "a copy of {name} is not whole: {peer:?}");
            }
        }
        Ok(())
    }

    /// The stream of a snapshot of the fleet `test`.
    pub(crate) async fn stream(&self, snapshot: &str) -> Stream {
        let client = async_nats::connect(self.urls()).await.expect("it runs");
        stream_of(client, snapshot).await.expect("it is there")
    }

    /// The addresses of all servers.
    pub(crate) fn urls(&self) -> Vec<String> {
        let servers = (0..).zip(&self.servers);
        let url = |(number, server): (usize, &Broker)| match self.setup.deployed.is_empty() {
            true => format!("nats://{}:{}", self.host(number), server.client),
            // The certificate of the server names localhost.
            false => format!("tls://localhost:{}", server.client),
        };
        servers.map(url).collect()
    }

    /// The flags of programs that connect to the servers.
    pub(crate) fn flags(&self) -> Vec<String> {
        let flags = [
            ("--log", self.urls().join(",")),
            ("--log-replicas", self.count().to_string()),
        ];
        let flags = flags.map(|(name, value)| [name.to_owned(), value]);
        flags
            .into_iter()
            .flatten()
            .chain(self.setup.access.clone())
            .collect()
    }

    /// Returns the settings of streams: a copy on each of these servers.
    pub(crate) fn keeping(&self) -> Keeping {
        Keeping {
            replicas: self.servers.len(),
        }
    }

    /// Connects, once the servers are ready.
    pub(crate) async fn connect(&self, fleet: &str) -> Nats {
        let connected = self.connect_with(fleet, self.keeping()).await;
        connected.unwrap_or_else(|error| panic!("no connection: {error}; {}", self.logged(0)))
    }

    /// As [`Self::connect`], with other settings of streams. The servers may refuse them.
    pub(crate) async fn connect_with(
        &self,
        fleet: &str,
        keeping: Keeping,
    ) -> Result<Nats, ConnectError> {
        let access = Access {
            servers: self.urls(),
            ..Access::default()
        };
        let fleet: FleetName = fleet.parse().expect("a name of a fleet");
        let start = Instant::now();
        loop {
            match Nats::connect(access.clone(), fleet.clone(), keeping, "test").await {
                Err(error) if error.is_temporary() && start.elapsed() < DEADLINE => {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
                connected => return connected,
            }
        }
    }
}

impl Drop for Brokers {
    fn drop(&mut self) {
        for number in 0..self.servers.len() {
            // KILL ends a paused process too.
            self.signal(number, "KILL");
        }
        if !std::thread::panicking() {
            // The next run removes what is left.
            let _ = std::fs::remove_dir_all(&self.directory);
        }
    }
}

/// The stream of a snapshot of the fleet `test`, as the server of a connection has it.
pub(crate) async fn stream_of(client: Client, snapshot: &str) -> Option<Stream> {
    let streams = async_nats::jetstream::new(client);
    let subject = format!("evk.test.log.{snapshot}");
    let name = streams.stream_by_subject(subject).await.ok()?;
    streams.get_stream(name).await.ok()
}

/// The directory with the messages of a stream, by the beginning of the stream's name, in the store
/// of a server.
pub(crate) fn messages_of(store: &Path, stream: &str) -> PathBuf {
    let streams = std::fs::read_dir(store.join("jetstream/$G/streams"));
    let mut streams = streams
        .expect("it has streams")
        .map(|it| it.expect("it has a name"));
    let is_it = |it: &DirEntry| it.file_name().to_string_lossy().starts_with(stream);
    let stream = streams.find(is_it).expect("it is there");
    stream.path().join("msgs")
}

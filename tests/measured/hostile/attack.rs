//! An attack on the memory of a server, and the memory that is then given out and resident.

use evenkeel::proto::v1::stream_snapshot_request::Step;
use evenkeel::proto::v1::{
    BeginReplace, Change, FilterRequest, StreamSnapshotRequest, StreamSnapshotResponse,
    UpdateSnapshotRequest,
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming};

use crate::hostile::metrics::Page;
use crate::hostile::process::{Server, command};
use crate::hostile::world::{Client, assert_answered, assert_healthy, fill, limit_of};

/// The memory that the process may take beside what its allocator has given out: stacks of more
/// threads, and messages of up to 2 MiB that are being decoded, whose objects take several times
/// that.
const SPARE: usize = 24 << 20;

/// The allowed ratio of resident memory to what was given out, because allocators lose memory
/// between blocks.
const SHARE: (usize, usize) = (6, 5);

/// A limit that no attack can stay within.
const SMALL: usize = 24 << 20;

/// One step of an attack.
pub(crate) enum AttackStep {
    Update(UpdateSnapshotRequest),
    Filter(FilterRequest),
    /// A change in a replace that is never committed.
    Stage(Change),
}

/// A server and its attacker.
pub(crate) struct Scene {
    server: Server,
    admin: String,
    pub(crate) client: Client,
    pub(crate) feeds: Vec<Feed>,
    staged: usize,
    /// The resident memory before the attack.
    fresh: usize,
}

type Feed = (
    mpsc::Sender<StreamSnapshotRequest>,
    Streaming<StreamSnapshotResponse>,
);

impl Scene {
    pub(crate) async fn start(flags: &[&str]) -> Self {
        let flags = [&["--admin-listen", "127.0.0.1:0"], flags].concat();
        let mut server = Server::spawn(command(&["serve"]).args(&flags));
        let admin = server.logged("admin listening", "address");
        let mut client = Client::new(server.channel());
        fill(&mut client, 20).await;
        for _ in 0..20 {
            assert_answered(&mut client).await;
        }
        let mut scene = Self {
            server,
            admin,
            client,
            feeds: Vec::new(),
            staged: 0,
            fresh: 0,
        };
        scene.accounted();
        scene.fresh = scene.resident();
        scene
    }

    pub(crate) async fn deal(&mut self, step: AttackStep) -> Result<(), Status> {
        match step {
            AttackStep::Update(update) => self.client.update_snapshot(update).await.map(drop),
            AttackStep::Filter(filter) => self.client.filter(filter).await.map(drop),
            AttackStep::Stage(change) => self.stage(change).await,
        }
    }

    /// Begins one more replace, up to four on a stream, and puts a change into it.
    async fn stage(&mut self, change: Change) -> Result<(), Status> {
        let snapshot = format!("staged-{}", self.staged);
        if self.staged.is_multiple_of(4) {
            let (sender, requests) = mpsc::channel(1);
            let answers = self.client.stream_snapshot(ReceiverStream::new(requests));
            self.feeds.push((sender, answers.await?.into_inner()));
        }
        self.staged += 1;
        let (sender, answers) = self.feeds.last_mut().expect("one was just pushed");
        let begin = Step::BeginReplace(BeginReplace {
            snapshot: snapshot.clone(),
        });
        let update = Step::Update(UpdateSnapshotRequest {
            snapshot,
            changes: vec![change],
            ..UpdateSnapshotRequest::default()
        });
        for step in [begin, update] {
            // A stream on which something was refused before has ended.
            let sent = sender.send(StreamSnapshotRequest { step: Some(step) });
            if sent.await.is_err() {
                self.staged = self.staged.next_multiple_of(4);
                return Ok(());
            }
            if let Err(status) = answers.message().await {
                self.staged = self.staged.next_multiple_of(4);
                return Err(status);
            }
        }
        Ok(())
    }

    /// Returns the bytes that the allocator has given out.
    pub(crate) fn accounted(&self) -> usize {
        let page = Page::of(&self.admin);
        page.value("evenkeel_accounted_memory_bytes", &["part=\"allocated\""]) as usize
    }

    /// Returns the resident memory without the program's own pages, whose number is up to the
    /// system.
    fn resident(&self) -> usize {
        self.proc("status", "RssAnon:")
    }

    /// Reads a number of bytes from a file of Linux about the server.
    fn proc(&self, file: &str, name: &str) -> usize {
        let path = format!("/proc/{}/{file}", self.server.id());
        let text = std::fs::read_to_string(path).expect("it runs");
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<usize>().ok());
        kilobytes.expect("Linux says so") * 1024
    }

    /// Waits until no more is resident than is allowed, because allocators give memory back a
    /// little later.
    fn assert_resident(&self, of: impl Fn() -> usize) {
        let mut seen = (0, 0);
        let within = until_or_give_up(|| {
            seen = (self.resident(), of());
            seen.0 <= self.fresh + SPARE + seen.1 / SHARE.1 * SHARE.0
        });
        let [resident, accounted, fresh] = [seen.0, seen.1, self.fresh].map(|bytes| bytes >> 20);
        let told =
            format!("{resident} MiB are resident, {accounted} MiB accounted, {fresh} MiB at first");
        eprintln!("{told}");
        assert!(within, "{told}");
    }
}

/// Returns whether something came true in ten seconds.
fn until_or_give_up(mut holds: impl FnMut() -> bool) -> bool {
    let start = std::time::Instant::now();
    while !holds() {
        if start.elapsed().as_secs() >= 10 {
            return false;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    true
}

/// Attacks a server that has little memory and these flags. Checks that refusals are counted, and that
/// decisions are still made.
pub(crate) async fn attack(flags: &[&str], steps: usize, step_of: fn(usize) -> AttackStep) {
    let small = SMALL.to_string();
    let flags = [flags, &["--max-memory-bytes", &small]].concat();
    let mut scene = Scene::start(&flags).await;
    let mut refused = 0;
    for step in 0..steps {
        let step = step_of(step);
        let decides = matches!(step, AttackStep::Filter(_));
        if let Err(status) = scene.deal(step).await {
            assert!(!decides, "decisions are made still: {status}");
            assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
            assert_eq!(limit_of(&status).as_deref(), Some("max-memory-bytes"));
            refused += 1;
        }
    }
    let accounted = scene.accounted();
    assert!(accounted <= SMALL + SMALL / 10, "{accounted} are held");
    scene.assert_resident(|| SMALL);
    assert_healthy(scene.server.channel()).await;
    assert_answered(&mut scene.client).await;
    let page = Page::of(&scene.admin);
    let label = ["limit=\"max-memory-bytes\""];
    let counted = page.value("evenkeel_limit_refusals_total", &label) as usize;
    // A feed that is refused has ended: what follows on it is not counted.
    assert!(counted >= refused.min(1), "{counted} of {refused}");
    if scene.feeds.is_empty() {
        assert_eq!(counted, refused);
    }
}

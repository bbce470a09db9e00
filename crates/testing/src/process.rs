//! The real binary as a child process: `evenkeel serve` on a free port.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::ops::Deref;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};

use crate::caller::Caller;
use crate::fixed;

/// The time after which a test fails that waits for something.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// Calls `probe` until it gives a value.
///
/// # Panics
/// When it gives none within [`DEADLINE`].
pub fn until<T>(what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = probe() {
            return value;
        }
        assert!(start.elapsed() < DEADLINE, "timed out: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// As [`until`], for a probe that asks a server.
///
/// # Panics
/// When it gives none within [`DEADLINE`].
pub async fn eventually<T>(what: &str, mut probe: impl AsyncFnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = probe().await {
            return value;
        }
        assert!(start.elapsed() < DEADLINE, "timed out: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The binary, without settings from the environment of the tests.
pub fn command(args: &[&str]) -> Command {
    // Cargo sets this variable when it runs a test.
    let program = std::env::var_os("CARGO_BIN_EXE_evenkeel").expect("cargo runs the tests");
    command_of(&program, args)
}

/// As [`command`], with the binary of another version.
pub fn command_of(program: &OsStr, args: &[&str]) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        if name.starts_with("EVENKEEL_") || ["RUST_LOG", "COLUMNS"].contains(&&*name) {
            command.env_remove(name);
        }
    }
    // The contexts of whoever runs the tests are none of theirs.
    command.env("XDG_CONFIG_HOME", "/nowhere");
    command.args(args);
    command
}

/// `evenkeel serve`, run by a shell after `before`. When its files may not grow any more, it gets
/// an error as on a full disk, and is not killed.
pub fn serve_on_a_full_disk(before: &str) -> Command {
    let serve = command(&["serve"]);
    let mut shell = Command::new("sh");
    let script = format!("trap '' XFSZ; {before} exec \"$0\" serve \"$@\"");
    shell.args(["-c", &script]).arg(serve.get_program());
    shell
}

/// The outcome of a run.
#[derive(Debug)]
pub struct Outcome {
    /// Exit code.
    pub code: i32,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Outcome {
    /// Returns the outcome of a run that ended.
    pub fn of(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("the output is UTF-8");
        Self {
            code: output.status.code().expect("no signal ended it"),
            out: text(output.stdout),
            err: text(output.stderr),
        }
    }

    /// Fails unless the run ended with `code`.
    pub fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, code, "out:\n{}\nerr:\n{}", self.out, self.err);
        self
    }

    /// Fails unless standard error says this.
    #[track_caller]
    pub fn complains(&self, of: &str) {
        assert!(self.err.contains(of), "{of:?} is not in\n{}", self.err);
    }

    /// All that was printed.
    pub fn said(&self) -> String {
        format!("{}{}", self.out, self.err)
    }

    /// Standard output as JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).expect("standard output is JSON")
    }
}

/// Runs a command that is to exit by itself within [`DEADLINE`].
pub fn run(command: Command) -> Outcome {
    run_within(command, DEADLINE)
}

/// Runs a command that is to exit by itself. Its output is read meanwhile, because a program whose
/// pipe is full waits.
///
/// # Panics
/// When the command does not exit within this time. The message has its output up to then.
pub fn run_within(mut command: Command, most: Duration) -> Outcome {
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let (send, ended) = mpsc::channel();
    thread::spawn(move || send.send(child.wait_with_output()));
    let output = ended.recv_timeout(most).unwrap_or_else(|_| {
        let _ = kill_process(pid.expect("a child has an id"), Signal::KILL);
        panic!("{command:?} did not exit: {:?}", ended.recv());
    });
    Outcome::of(output.expect("output can be read"))
}

/// A running `evenkeel serve`, killed when dropped.
pub struct Server {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
    /// Reads the lines until the server ends.
    reader: JoinHandle<()>,
    caller: Caller,
}

impl Server {
    /// Starts `evenkeel serve` with `args` on a free port and waits until it
    /// listens.
    pub fn start(args: &[&str]) -> Self {
        Self::spawn(command(&["serve"]).args(args))
    }

    /// Starts `evenkeel serve` with `--load` and `args` on a free port and waits until it is ready:
    /// a server listens before it has loaded its files, and knows no snapshot until then.
    pub fn start_loaded(file: &str, args: &[&str]) -> Self {
        let mut server = Self::start(&[args, &["--load", file]].concat());
        server.logged("ready", "message");
        server
    }

    /// Starts a prepared `serve` command on a free port and waits until it
    /// listens. It may have settings without a flag, see [`fixed`].
    pub fn spawn(command: &mut Command) -> Self {
        Self::spawn_on("127.0.0.1:0", command)
    }

    /// Starts a prepared `serve` command on `address` and waits until it
    /// listens.
    pub fn spawn_on(address: &str, command: &mut Command) -> Self {
        let mut server = Self::begin_on(address, command);
        let address = server.logged("listening", "address");
        server.caller = Caller::of(format!("http://{address}"));
        server
    }

    /// As [`Self::spawn_on`], without waiting for it to listen.
    pub fn begin_on(address: &str, command: &mut Command) -> Self {
        let mut fixed = fixed::command_of(command);
        let mut child = fixed
            .as_mut()
            .unwrap_or(command)
            .args(["--listen", address, "--log-format", "json"])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let lines = Arc::new(Mutex::new(Vec::new()));
        let stderr = child.stderr.take().expect("standard error is piped");
        let sink = lines.clone();
        let reader = thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                sink.lock().expect("no holder panics").push(line);
            }
        });
        Self {
            child,
            lines,
            reader,
            caller: Caller::of(String::new()),
        }
    }

    /// Waits for a log line with `message` and returns its field `field`.
    pub fn logged(&mut self, message: &str, field: &str) -> String {
        self.logged_with(message, field, "")
    }

    /// As [`Self::logged`], for a line whose field holds `part`.
    pub fn logged_with(&mut self, message: &str, field: &str, part: &str) -> String {
        let lines = self.lines.clone();
        until(message, || {
            // The last lines of a server that has ended may not be read yet.
            let is_whole = self.reader.is_finished();
            let found = lines
                .lock()
                .expect("no holder panics")
                .iter()
                .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
                .filter(|line| line["message"] == message)
                .map(|line| line[field].as_str().unwrap_or_default().to_owned())
                .find(|value| value.contains(part));
            assert!(
                found.is_some() || !is_whole,
                "the server ended with {:?}: {lines:?}",
                self.child.try_wait()
            );
            found
        })
    }

    /// Returns the lines that the server has logged.
    pub fn lines(&self) -> Vec<String> {
        self.lines.lock().expect("no holder panics").clone()
    }

    /// Limits the size of the files of the server.
    pub fn limit_files(&self, most_bytes: u64) {
        let pid = i32::try_from(self.id()).expect("a process has a small id");
        let limit = Rlimit {
            current: Some(most_bytes),
            maximum: None,
        };
        prlimit(Pid::from_raw(pid), Resource::Fsize, limit).expect("it is our child");
    }

    /// The most memory that the process has held, in bytes; only on Linux.
    pub fn peak_memory(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id()));
        let status = status.expect("it runs");
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let peak = peak.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<usize>().ok());
        peak.expect("a peak") << 10
    }

    /// The id of its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal, such as `TERM`.
    pub fn signal(&self, signal: &str) {
        let kill = format!("kill -{signal} {}", self.child.id());
        let sent = Command::new("sh").args(["-c", &kill]).status();
        assert!(sent.expect("there is a shell").success(), "{kill}");
    }

    /// The status of the process, if it has ended.
    pub fn try_exited(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("a child can be waited for")
    }

    /// Waits until the process has ended. Clients go on meanwhile, because both sides close a
    /// connection.
    pub async fn exited(&mut self) -> ExitStatus {
        eventually("the server exits", async || self.try_exited()).await
    }

    /// Kills the server, and waits for its end.
    pub async fn kill(mut self) {
        self.signal("KILL");
        self.exited().await;
    }

    /// Stops the server with TERM, and waits for its end.
    pub async fn stop(mut self) {
        self.caller = Caller::of(String::new());
        self.signal("TERM");
        let status = self.exited().await;
        assert!(status.success(), "{status}");
    }
}

impl Deref for Server {
    type Target = Caller;

    fn deref(&self) -> &Caller {
        &self.caller
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

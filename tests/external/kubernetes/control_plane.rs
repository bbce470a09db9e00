//! The control plane of these tests: one for all of them, used in turns.

use std::io::{BufRead, BufReader, Lines, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;

use serde_json::{Value, json};
use tokio::sync::{Mutex, MutexGuard};

use crate::kubernetes::ports::free_ports;

/// A running `tests/external/kubernetes/control-plane`. It ends with this process,
/// however that ends, because its standard input does.
pub(crate) struct ControlPlane {
    _child: Child,
    commands: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
    directory: PathBuf,
    api: u16,
}

/// The control plane, for this test alone until the guard is dropped.
pub(crate) async fn turn() -> MutexGuard<'static, ControlPlane> {
    static SHARED: OnceLock<Mutex<ControlPlane>> = OnceLock::new();
    let shared = SHARED.get_or_init(|| Mutex::new(ControlPlane::start()));
    // A test that failed may have left these programs running.
    let mut plane = shared.lock().await;
    for name in ["kwok", "kube-controller-manager"] {
        plane.command(&format!("kill {name}"));
    }
    plane
}

impl ControlPlane {
    fn start() -> Self {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("control-plane");
        let script = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/external/kubernetes/control-plane"
        );
        let api = free_ports(5);
        let mut child = Command::new(script)
            .arg(&directory)
            .arg(api.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("there is bash");
        let commands = child.stdin.take().expect("it is piped");
        let answers = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let mut plane = Self {
            _child: child,
            commands,
            answers,
            directory,
            api,
        };
        let answer = plane.answer();
        assert_eq!(answer, "ready", "the control plane does not start");
        plane
    }

    /// Has the script run a command, e.g. `kill kube-apiserver`.
    #[track_caller]
    pub(crate) fn command(&mut self, command: &str) {
        writeln!(self.commands, "{command}").expect("the control plane runs");
        assert_eq!(self.answer(), "done", "{command}");
    }

    fn answer(&mut self) -> String {
        let line = self.answers.next().transpose();
        line.expect("it is text").unwrap_or_default()
    }

    /// Returns the directory of the control plane's files.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the kubeconfig of an administrator.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.directory.join("admin.kubeconfig")
    }

    /// Writes a kubeconfig for a user, e.g. `{"token": "reader"}`.
    pub(crate) fn kubeconfig_for(&self, user: &Value) -> PathBuf {
        let url = format!("https://127.0.0.1:{}", self.api);
        let cluster = json!({ "server": url, "certificate-authority": "pki/apiserver.crt" });
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{ "name": "test", "cluster": cluster }],
            "users": [{ "name": "user", "user": user }],
            "contexts": [{ "name": "test", "context": { "cluster": "test", "user": "user" } }],
        });
        let path = self.directory.join("user.kubeconfig");
        std::fs::write(&path, config.to_string()).expect("a file");
        path
    }
}

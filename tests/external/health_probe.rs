//! `grpc_health_probe`, which probes of older clusters and many images use,
//! and `evenkeel healthcheck` agree, with TLS too. `deploy/validate probe` runs these tests.

use std::process::Command;

use rcgen::{CertificateParams, KeyPair};

use crate::tool;
use support::process::{Outcome, Server, command, run};

/// A name that both are asked about, and whether it is healthy before the cluster is loaded.
const NAMES: [(&str, bool); 4] = [
    ("", false),
    ("evenkeel.v1.SpreadService", false),
    ("default", false),
    ("nobody", false),
];

fn probe(arguments: &[&str]) -> Outcome {
    let mut probe = Command::new(tool("find_probe"));
    probe.args(arguments);
    run(probe)
}

/// Asks both programs about every name, with the flags of each, and compares.
fn agree(server: &Server, names: &[(&str, bool)], ours: &[(&str, &str)], theirs: &[&str]) {
    for (name, healthy) in names {
        let address = format!("--server={}", server.address());
        let service = format!("--service={name}");
        let mut command = command(&["healthcheck", &address, &service]);
        command.envs(ours.iter().copied());
        let ours = run(command);
        assert_eq!(ours.code == 0, *healthy, "{name:?}: {ours:?}");

        let address = format!("-addr={}", server.address());
        let service = format!("-service={name}");
        let mut arguments = vec![address.as_str(), &service];
        arguments.extend(theirs);
        let theirs = probe(&arguments);
        assert_eq!(theirs.code == 0, *healthy, "{name:?}: {theirs:?}");
    }
}

/// Returns the names, of which all but `nobody` are healthy once the cluster is loaded.
fn loaded() -> [(&'static str, bool); 4] {
    NAMES.map(|(name, _)| (name, name != "nobody"))
}

const CLUSTER: &str = "examples/three-zones/cluster.yaml";

#[test]
#[ignore = "needs grpc_health_probe: deploy/tools.sh install_probe"]
fn the_probe_agrees_in_plain_text() {
    let waiting = Server::start(&["--expect-snapshot", "default"]);
    agree(&waiting, &NAMES, &[], &[]);
    let server = Server::start_loaded(CLUSTER, &[]);
    agree(&server, &loaded(), &[], &[]);
}

#[test]
#[ignore = "needs grpc_health_probe: deploy/tools.sh install_probe"]
fn the_probe_agrees_over_tls() {
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(["localhost".to_owned()]).expect("a name");
    let cert = params.self_signed(&key).expect("a certificate");
    let directory = tempfile::tempdir().expect("a directory");
    let write = |name: &str, text: String| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).expect("it can be written");
        path.to_str().expect("a plain path").to_owned()
    };
    let cert = write("tls.crt", cert.pem());
    let key = write("tls.key", key.serialize_pem());

    let flags = ["--tls-cert", &cert, "--tls-key", &key];
    let waiting = Server::start(&[&flags[..], &["--expect-snapshot", "default"]].concat());
    let ours = [
        ("EVENKEEL_SERVER_CA", &*cert),
        ("EVENKEEL_SERVER_NAME", "localhost"),
    ];
    let authority = format!("-tls-ca-cert={cert}");
    let theirs = ["-tls", &authority, "-tls-server-name=localhost"];
    agree(&waiting, &NAMES, &ours, &theirs);
    let server = Server::start_loaded(CLUSTER, &flags);
    agree(&server, &loaded(), &ours, &theirs);
    // A plain client of a TLS server.
    agree(&server, &NAMES, &[], &["-connect-timeout=2s"]);
}

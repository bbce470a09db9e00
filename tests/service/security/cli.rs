//! The commands as clients: encrypted, and with credentials.

use std::os::unix::fs::PermissionsExt;
use std::process::Output;

use crate::security::client::{https, serve};
use crate::security::identity::{Role, access_file};
use crate::security::pki::{Authority, Files, Subject};
use crate::security::process::{self, run};

fn evenkeel(args: &[String], environment: &[(&str, &str)]) -> Output {
    let mut command = process::command(&[]);
    command.args(args).envs(environment.iter().copied());
    run(command)
}

fn told(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn commands_trust_prove_and_name_as_told() {
    let (ours, theirs, files) = (
        Authority::new("ours"),
        Authority::new("theirs"),
        Files::new(),
    );
    let client = ours.issue(Subject {
        common_name: "client",
        ..Subject::default()
    });
    let mut flags = files.tls_flags(&ours.server());
    flags.extend(["--tls-client-ca".into(), files.write("ca.crt", ours.pem())]);
    let server = serve(&flags);
    files.write("client.crt", &client.cert);
    files.write("client.key", &client.key);
    files.write("other.crt", theirs.pem());
    let path = |name: &str| files.arg(name);
    let bare = https(&server).trim_start_matches("https://").to_owned();
    let url = https(&server);
    let name = "--tls-server-name evenkeel.test";
    let identity = format!(
        "--tls-cert {} --tls-key {}",
        path("client.crt"),
        path("client.key")
    );
    let ca = format!("--tls-ca {}", path("ca.crt"));
    let wrong = format!("--tls-ca {}", path("other.crt"));
    // Each case has the flags, the exit code, and a part of the output.
    let cases = [
        (format!("--server {url} {ca} {name} {identity}"), 0, ""),
        // A flag about TLS means https.
        (format!("--server {bare} {ca} {name} {identity}"), 0, ""),
        (format!("--server {url} {ca} {name}"), 3, ""),
        (
            format!("--server {url} {wrong} {name} {identity}"),
            3,
            "certificate",
        ),
        (
            format!("--server {url} {ca} {identity} --tls-server-name no.test"),
            3,
            "certificate",
        ),
        (
            format!("--server {url} {name} {identity}"),
            3,
            "certificate",
        ),
        (
            format!("--server {url} {ca} --tls-cert {}", path("client.crt")),
            2,
            "--tls-key",
        ),
        (
            format!("--server {url} --tls-ca {}", path("missing")),
            2,
            "missing",
        ),
        (
            format!("--server {} {ca} {name}", server.url()),
            2,
            "https://",
        ),
        (
            format!("--server {}", server.url()),
            3,
            "wants TLS: use https://",
        ),
    ];
    for command in ["healthcheck", "snapshot list"] {
        for (flags, code, word) in &cases {
            let output = evenkeel(&words(&format!("{command} {flags}")), &[]);
            let told = told(&output);
            assert_eq!(
                output.status.code(),
                Some(*code),
                "{command} {flags}: {told}"
            );
            assert!(told.contains(word), "{command} {flags}: {told}");
        }
    }
    let environment = [
        ("EVENKEEL_SERVER", url.as_str()),
        ("EVENKEEL_SERVER_CA", &path("ca.crt")),
        ("EVENKEEL_SERVER_NAME", "localhost"),
        ("EVENKEEL_CLIENT_CERT", &path("client.crt")),
        ("EVENKEEL_CLIENT_KEY", &path("client.key")),
    ];
    let output = evenkeel(&words("snapshot list"), &environment);
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
}

#[test]
fn tokens_come_from_a_file_or_the_environment() {
    let files = Files::new();
    let rules = [("secret", Role::Reader, &["*"][..])];
    let server = serve(&["--access-file".into(), access_file(&files, &rules)]);
    let list = words(&format!("snapshot list --server {}", server.url()));
    let with_file = |name: &str| {
        let mut args = list.clone();
        args.extend(["--token-file".into(), files.arg(name)]);
        args
    };
    files.write("good", "secret\n");
    files.write("bad", "wrong");
    let variable = |token| [("EVENKEEL_TOKEN", token)];
    let cases = [
        (with_file("good"), variable(""), 0),
        (with_file("good"), variable("wrong"), 0),
        (with_file("bad"), variable("secret"), 2),
        (with_file("missing"), variable("secret"), 2),
        (list.clone(), variable("secret"), 0),
        (list.clone(), variable("wrong"), 2),
    ];
    for (args, environment, code) in cases {
        let output = evenkeel(&args, &environment);
        let told = told(&output);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {told}");
        assert!(!told.contains("secret"), "{args:?}: {told}");
    }
    let output = evenkeel(&list, &[]);
    assert!(
        told(&output).contains("Unauthenticated"),
        "{}",
        told(&output)
    );
    let mut load = words(&format!("snapshot delete s --server {}", server.url()));
    load.extend(with_file("good")[4..].to_vec());
    let output = evenkeel(&load, &[]);
    assert_eq!(output.status.code(), Some(2), "{}", told(&output));
    assert!(
        told(&output).contains("needs the role admin"),
        "{}",
        told(&output)
    );
}

#[test]
fn a_made_token_is_let_in_by_its_rule() {
    let files = Files::new();
    let out = files.arg("made.token");
    let mut args = words("token --name tester --role feeder --snapshot a* --snapshot b --out");
    args.push(out.clone());
    let made = evenkeel(&args, &[]);
    assert_eq!(made.status.code(), Some(0), "{}", told(&made));
    let token = std::fs::read_to_string(&out).expect("it was written");
    let mode = std::fs::metadata(&out)
        .expect("it is there")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    let rule = String::from_utf8(made.stdout).expect("text");
    assert!(
        !rule.contains(token.trim()),
        "the file holds no more than the hash"
    );
    let again = evenkeel(&args, &[]);
    assert_eq!(again.status.code(), Some(2), "a token is never overwritten");

    let shown = evenkeel(&words("token --role admin"), &[]);
    let on_terminal = String::from_utf8(shown.stderr).expect("text");
    let shown_token = on_terminal
        .trim()
        .strip_prefix("token: ")
        .expect("it is shown")
        .to_owned();
    let other_rule = String::from_utf8(shown.stdout).expect("text");

    let access = files.write("access.toml", &format!("{rule}{other_rule}"));
    let server = serve(&["--access-file".into(), access]);
    let get = |snapshot: &str, token: &str| {
        let line = format!("snapshot delete {snapshot} --server {}", server.url());
        told(&evenkeel(&words(&line), &[("EVENKEEL_TOKEN", token)]))
    };
    // The first token is that of a feeder, which may not delete. The second may, and finds nothing.
    assert!(get("abc", token.trim()).contains("needs the role admin"));
    assert!(
        get("abc", &shown_token).contains("NotFound"),
        "{}",
        get("abc", &shown_token)
    );
}

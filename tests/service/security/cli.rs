//! The commands as clients: encrypted, and with credentials.

use std::os::unix::fs::PermissionsExt;

use crate::security::client::{https, serve};
use crate::security::identity::{Role, access_file};
use crate::security::pki::{Authority, CLIENT, Files};
use crate::security::process::{self, Outcome, run};

fn evenkeel(args: &[String], environment: &[(&str, &str)]) -> Outcome {
    let mut command = process::command(&[]);
    command.args(args).envs(environment.iter().copied());
    run(command)
}

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn commands_trust_prove_and_name_as_told() {
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let files = Files::new();
    let client = ours.issue(CLIENT);
    let server = serve(&files.mutual_tls_flags(&ours));
    files.write("client.crt", &client.cert);
    files.write("client.key", &client.key);
    files.write("other.crt", theirs.pem());
    let path = |name: &str| files.arg(name);
    let bare = https(&server).trim_start_matches("https://").to_owned();
    let (url, plain) = (https(&server), server.url());
    let (ca, wrong, missing) = (path("ca.crt"), path("other.crt"), path("missing"));
    let (cert, key) = (path("client.crt"), path("client.key"));
    let trusting = [("SERVER_CA", &*ca), ("SERVER_NAME", "evenkeel.test")];
    let proving = [("CLIENT_CERT", &*cert), ("CLIENT_KEY", &*key)];
    let both = [trusting, proving].concat();
    let with = |more: &[(&'static str, &str)]| {
        let all = both.iter().chain(more).copied();
        all.map(|(name, value)| (name, value.to_owned())).collect()
    };
    let only = |all: &[(&'static str, &str)]| {
        let all = all.iter().copied();
        all.map(|(name, value)| (name, value.to_owned())).collect()
    };
    // Each case has the address, the variables, the exit code, and a part of the output.
    type Variables = Vec<(&'static str, String)>;
    let cases: [(&str, Variables, i32, &str); 10] = [
        (&url, with(&[]), 0, ""),
        // A certificate means https.
        (&bare, with(&[]), 0, ""),
        (&url, only(&trusting), 3, ""),
        (&url, with(&[("SERVER_CA", &wrong)]), 3, "server_ca"),
        (&url, with(&[("SERVER_NAME", "no.test")]), 3, "server_name"),
        (&url, with(&[("SERVER_CA", "")]), 3, "certificate"),
        (&url, with(&[("CLIENT_KEY", "")]), 2, "client_key"),
        (&url, only(&[("SERVER_CA", &missing)]), 2, "missing"),
        (plain, only(&trusting), 2, "https://"),
        (plain, only(&[]), 3, "wants https://"),
    ];
    for command in ["healthcheck", "snapshot list"] {
        for (address, variables, code, word) in &cases {
            let mut client = process::command(&[]);
            client.args(command.split(' ')).args(["--server", address]);
            for (name, value) in variables {
                client.env(format!("EVENKEEL_{name}"), value);
            }
            let output = run(client);
            let told = output.said();
            let case = format!("{command} {address} {variables:?}: {told}");
            assert_eq!(output.code, *code, "{case}");
            assert!(told.contains(word), "{case}");
        }
    }
}

/// The example of docs/security.md, with the address of a server of this test.
#[test]
fn a_context_has_the_server_and_the_credentials() {
    let (ours, files) = (Authority::new("ours"), Files::new());
    let client = ours.issue(CLIENT);
    let mut flags = files.mutual_tls_flags(&ours);
    let rules = [("secret", Role::Reader, &["*"][..])];
    flags.extend(["--access-file".into(), access_file(&files, &rules)]);
    let server = serve(&flags);
    let home = tempfile::tempdir().expect("a directory");
    let directory = home.path().join("evenkeel");
    std::fs::create_dir(&directory).expect("it can be made");
    let write = |name: &str, text: &str| {
        std::fs::write(directory.join(name), text).expect("it can be written");
    };
    write("ca.crt", ours.pem());
    write("client.crt", &client.cert);
    write("client.key", &client.key);
    write("scheduler.token", "secret\n");
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/security.md");
    let page = std::fs::read_to_string(page).expect("it can be read");
    let (_, rest) = page.split_once("```toml\ncurrent").expect("the example");
    let (example, _) = rest.split_once("```").expect("its end");
    let example = format!("current{example}")
        .replace("https://evenkeel.example.com:50051", &https(&server))
        .replace("evenkeel.example.com", "evenkeel.test")
        .replace("http://127.0.0.1:50051", "http://127.0.0.1:1");
    write("config.toml", &example);
    let ask = |line: &str| {
        let mut command = process::command(&[]);
        command.args(line.split(' '));
        command.env("XDG_CONFIG_HOME", home.path());
        run(command)
    };
    let cases = [
        ("snapshot list --server prod", 0, ""),
        // The current context.
        ("snapshot list", 3, "http://127.0.0.1:1"),
        // An address has no context.
        (
            "snapshot list --server http://127.0.0.1:2",
            3,
            "http://127.0.0.1:2",
        ),
        ("snapshot list --server stagin", 2, "did you mean staging?"),
    ];
    for (line, code, word) in cases {
        let output = ask(line);
        let told = output.said();
        assert_eq!(output.code, code, "{line}: {told}");
        assert!(told.contains(word), "{line}: {told}");
    }
    let faults = [
        ("token_file =", "tokenfile =", "unknown field `tokenfile`"),
        (
            "[contexts.prod]",
            "[context.prod]",
            "unknown field `context`",
        ),
        (
            "server_name = \"",
            "server_name = 7 # \"",
            "line 6: invalid type: integer",
        ),
    ];
    for (right, wrong, word) in faults {
        write("config.toml", &example.replace(right, wrong));
        let output = ask("snapshot list --server prod");
        let told = output.said();
        assert_eq!(output.code, 2, "{wrong}: {told}");
        for word in [word, "evenkeel/config.toml: line "] {
            assert!(told.contains(word), "{wrong}: {word} in {told}");
        }
    }
}

#[test]
fn tokens_come_from_a_file_or_the_environment() {
    let files = Files::new();
    let rules = [("secret", Role::Reader, &["*"][..])];
    let server = serve(&["--access-file".into(), access_file(&files, &rules)]);
    let list = words(&format!("snapshot list --server {}", server.url()));
    files.write("good", "secret\n");
    files.write("bad", "wrong");
    let paths = ["good", "bad", "missing"].map(|name| files.arg(name));
    let [good, bad, missing] = paths.each_ref().map(String::as_str);
    let cases = [
        (good, "", 0),
        (good, "wrong", 0),
        (bad, "secret", 2),
        (missing, "secret", 2),
        ("", "secret", 0),
        ("", "wrong", 2),
    ];
    for (file, token, code) in cases {
        let environment = [("EVENKEEL_TOKEN_FILE", file), ("EVENKEEL_TOKEN", token)];
        let output = evenkeel(&list, &environment);
        let told = output.said();
        assert_eq!(output.code, code, "{environment:?}: {told}");
        assert!(!told.contains("secret"), "{environment:?}: {told}");
    }
    let said = evenkeel(&list, &[]).said();
    assert!(said.contains("Unauthenticated"), "{said}");
    let delete = words(&format!("snapshot delete s --server {}", server.url()));
    let refused = evenkeel(&delete, &[("EVENKEEL_TOKEN_FILE", good)]);
    let said = refused.expect(2).said();
    assert!(said.contains("needs the role admin"), "{said}");
}

#[test]
fn a_made_token_is_let_in_by_its_rule() {
    let files = Files::new();
    let out = files.arg("made.token");
    let mut args = words("token --name tester --role feeder --snapshot a* --snapshot b --out");
    args.push(out.clone());
    let rule = evenkeel(&args, &[]).expect(0).out;
    let token = std::fs::read_to_string(&out).expect("it was written");
    let mode = std::fs::metadata(&out)
        .expect("it is there")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(
        !rule.contains(token.trim()),
        "the file holds no more than the hash"
    );
    // A token is never overwritten.
    evenkeel(&args, &[]).expect(2);

    let shown = evenkeel(&words("token --role admin"), &[]);
    let shown_token = shown.err.trim().strip_prefix("token: ");
    let shown_token = shown_token.expect("it is shown");
    let other_rule = &shown.out;

    let access = files.write("access.toml", &format!("{rule}{other_rule}"));
    let server = serve(&["--access-file".into(), access]);
    let get = |snapshot: &str, token: &str| {
        let line = format!("snapshot delete {snapshot} --server {}", server.url());
        evenkeel(&words(&line), &[("EVENKEEL_TOKEN", token)]).said()
    };
    // The first token is that of a feeder, which may not delete. The second may, and finds nothing.
    assert!(get("abc", token.trim()).contains("needs the role admin"));
    let found = get("abc", shown_token);
    assert!(found.contains("NotFound"), "{found}");
}

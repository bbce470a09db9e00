//! The settings of `evenkeel serve`: their sources, and which source wins. `cli/serve_settings.md` shows
//! the errors about bad settings.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::process::Command;

use clap::{Args, CommandFactory};
use evenkeel::cli::Cli;
use evenkeel::server::Config;
use evenkeel::server::config::apply_file;
use support::build::update_of;
use support::model::delete_uid;
use tempfile::TempDir;
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use crate::serving::process::{Server, run};

/// The sources of settings.
#[derive(Debug, Clone, Copy)]
struct Sources {
    flags: &'static [&'static str],
    environment: &'static [(&'static str, &'static str)],
    file: Option<&'static str>,
}

impl Sources {
    /// `evenkeel serve` with these settings. `directory` holds the file.
    fn command(&self, directory: &TempDir) -> Command {
        let mut command = crate::serving::process::command(&["serve"]);
        command.args(self.flags);
        command.envs(self.environment.iter().copied());
        if let Some(text) = self.file {
            let path = directory.path().join("evenkeel.toml");
            fs::write(&path, text).expect("a temporary file can be written");
            command.arg("--config").arg(path);
        }
        command
    }
}

const NONE: Sources = Sources {
    flags: &[],
    environment: &[],
    file: None,
};

const fn file(text: &'static str) -> Sources {
    Sources {
        file: Some(text),
        ..NONE
    }
}

#[tokio::test]
async fn flag_wins_over_environment_over_file_over_default() {
    const FLAG: &[&str] = &["--max-message-bytes", "2000"];
    const VARIABLE: &[(&str, &str)] = &[("EVENKEEL_MAX_MESSAGE_BYTES", "3000")];
    const FILE: Option<&str> = Some("max_message_bytes = 4000");
    let cases = [
        (NONE, None),
        (Sources { file: FILE, ..NONE }, Some("4000")),
        (
            Sources {
                environment: VARIABLE,
                file: FILE,
                ..NONE
            },
            Some("3000"),
        ),
        (
            Sources {
                flags: FLAG,
                environment: VARIABLE,
                file: FILE,
            },
            Some("2000"),
        ),
        (
            Sources {
                flags: FLAG,
                file: FILE,
                ..NONE
            },
            Some("2000"),
        ),
    ];
    let deletion = delete_uid("Node", "", "n", &"u".repeat(1_000));
    let update = update_of(vec![deletion; 5]);
    let directory = TempDir::new().expect("a temporary directory");
    for (sources, limit) in cases {
        let server = Server::spawn(&mut sources.command(&directory));
        let answer = server.client().update_snapshot(update.clone()).await;
        let status = answer.err().filter(|s| s.code() == Code::ResourceExhausted);
        let message = status.as_ref().map(|status| status.message());
        match limit {
            None => assert_eq!(message, None, "{sources:?}"),
            Some(limit) => assert!(
                message.is_some_and(|message| message.contains(limit)),
                "{sources:?}: {limit} in {message:?}"
            ),
        }
    }
}

#[tokio::test]
async fn lists_come_whole_from_the_source_that_wins() {
    const FLAGS: &[&str] = &["--expect-snapshot", "a", "--expect-snapshot=b"];
    const VARIABLE: &[(&str, &str)] = &[("EVENKEEL_EXPECT_SNAPSHOT", "c,d")];
    const FILE: Option<&str> = Some("expect-snapshot = ['e', 'f']");
    let cases: [(Sources, &[&str]); 5] = [
        (NONE, &[]),
        (Sources { file: FILE, ..NONE }, &["e", "f"]),
        (file("expect_snapshot = 'e'"), &["e"]),
        (
            Sources {
                environment: VARIABLE,
                file: FILE,
                ..NONE
            },
            &["c", "d"],
        ),
        (
            Sources {
                flags: FLAGS,
                environment: VARIABLE,
                file: FILE,
            },
            &["a", "b"],
        ),
    ];
    let directory = TempDir::new().expect("a temporary directory");
    for (sources, expected) in cases {
        let server = Server::spawn(&mut sources.command(&directory));
        let mut health = HealthClient::new(server.channel());
        let mut known = Vec::new();
        for name in ["a", "b", "c", "d", "e", "f"] {
            let request = HealthCheckRequest {
                service: name.into(),
            };
            if health.check(request).await.is_ok() {
                known.push(name);
            }
        }
        assert_eq!(known, expected, "{sources:?}");
    }
}

#[test]
fn a_taken_port_is_one_line_and_exit_code_1() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    let address = taken.local_addr().expect("a bound listener has one");
    let address = address.to_string();
    for [port, admin] in [[&*address, "127.0.0.1:0"], ["127.0.0.1:0", &address]] {
        let mut command = crate::serving::process::command(&["serve", "--log-level", "error"]);
        command.args(["--listen", port, "--admin-listen", admin]);
        let refused = run(command).expect(1);
        assert_eq!(refused.err.lines().count(), 1, "{}", refused.err);
        refused.complains(&address);
        refused.complains("in use");
    }
}

#[test]
fn every_setting_has_a_flag_a_variable_a_key_and_help() {
    let serve = Config::augment_args(clap::Command::new("serve"));
    let mut defaults = BTreeMap::new();
    for arg in serve.get_arguments() {
        let flag = arg.get_long().expect("a setting has a flag");
        let key = flag.replace('-', "_");
        let variable = format!("EVENKEEL_{}", key.to_uppercase());
        assert_eq!(arg.get_env(), Some(variable.as_ref()), "{flag}");
        assert!(arg.get_help().is_some(), "{flag}");
        if let [default] = arg.get_default_values() {
            let default = default.to_str().expect("defaults are text");
            defaults.insert(key, default.to_owned());
        }
    }
    assert!(defaults.len() > 10, "{defaults:?}");

    let directory = TempDir::new().expect("a temporary directory");
    let path = directory.path().join("evenkeel.toml");
    let lines = defaults
        .iter()
        .map(|(key, value)| match value.parse::<i64>() {
            Ok(number) => format!("{key} = {number}\n"),
            Err(_) => format!("{key} = \"{value}\"\n"),
        });
    fs::write(&path, lines.collect::<String>()).expect("a temporary file can be written");
    let program = clap::Command::new("evenkeel").subcommand(serve);
    let applied = apply_file(program, "serve", &path);
    applied.expect("every default is a valid value of its key");
}

#[test]
fn addresses_may_be_a_port_or_a_name() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    let port = taken.local_addr().expect("a bound listener has one").port();
    drop(taken);
    for (address, flags, bound) in [
        ("localhost:0", &[][..], "127.0.0.1:"),
        (":0", &["--allow-plaintext"][..], ":"),
        ("[::1]:0", &[][..], "[::1]:"),
    ] {
        let mut command = crate::serving::process::command(&["serve", "--drain-pause", "0s"]);
        let admin = format!("localhost:{port}");
        command.args(flags).args(["--admin-listen", &admin]);
        let mut server = Server::begin_on(address, &mut command);
        assert!(server.logged("listening", "address").starts_with(bound) || bound == ":");
        assert_eq!(
            server.logged("admin listening", "address"),
            format!("127.0.0.1:{port}")
        );
    }
}

#[test]
fn an_admin_port_for_all_is_warned_of() {
    const WARNING: &str =
        "whoever reaches the admin port may read it: let only scrapers and probes do so";
    let mut open = Server::start(&["--admin-listen", ":0"]);
    open.logged(WARNING, "level");
    let mut in_pod = crate::serving::process::command(&["serve", "--admin-listen", ":0"]);
    in_pod.env("KUBERNETES_SERVICE_HOST", "10.96.0.1");
    for closed in [
        Server::start(&["--admin-listen", "127.0.0.1:0"]),
        Server::spawn(&mut in_pod),
    ] {
        assert!(!closed.lines().iter().any(|line| line.contains(WARNING)));
    }
}

/// Kubernetes gives containers variables for services, and others are no settings of ours.
#[test]
fn variables_that_are_no_settings_harm_nothing() {
    let mut command = crate::serving::process::command(&["serve", "--drain-pause", "0s"]);
    command.envs([
        ("EVENKEEL_PORT", "tcp://10.0.0.1:50051"),
        ("EVENKEEL_PORT_50051_TCP_ADDR", "10.0.0.1"),
        ("EVENKEEL_SERVICE_HOST", "10.0.0.1"),
        ("EVENKEEL_LOG_PORT", "tcp://10.0.0.2:80"),
        ("EVENKEEL_DIST", "here"),
    ]);
    Server::spawn(&mut command);
}

/// The example has settings that hold, and others behind `#`, which are valid and say what they
/// would be.
#[test]
fn the_example_of_a_file_is_valid() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/evenkeel.toml");
    let mut server = Server::start(&["--config", path]);
    server.logged("ready", "message");

    let text = fs::read_to_string(path).expect("it is there");
    let uncommented = text.lines().map(|line| {
        let setting = line.strip_prefix("# ").unwrap_or(line);
        match setting.split_once(" = ") {
            Some((key, _)) if !key.contains(' ') => setting,
            _ => line,
        }
    });
    let all: Vec<&str> = uncommented.collect();
    let directory = TempDir::new().expect("a temporary directory");
    let whole = directory.path().join("evenkeel.toml");
    fs::write(&whole, all.join("\n")).expect("a temporary file can be written");
    let program = <Cli as CommandFactory>::command();
    apply_file(program, "serve", &whole).expect("every setting is valid");
    let settings = all.iter().filter(|line| !line.starts_with('#'));
    assert!(settings.filter(|line| line.contains(" = ")).count() > 15);
}

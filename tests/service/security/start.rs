//! Settings with which a server refuses to start.

use crate::security::identity::{Role, rule_text};
use crate::security::pki::{Authority, Files};
use crate::security::process::{self, run};

#[test]
fn settings_that_do_not_go_together_exit_with_64() {
    let cases: &[(&[&str], &[&str])] = &[
        (
            &["--listen", "0.0.0.0:0"],
            &["plain text", "--tls-cert", "--allow-plaintext"],
        ),
        (&["--listen", "[::]:0"], &["plain text"]),
        (&["--tls-cert", "a"], &["--tls-cert", "--tls-key"]),
        (&["--tls-key", "a"], &["--tls-cert", "--tls-key"]),
        (
            &["--tls-client-ca", "a"],
            &["--tls-client-ca", "--tls-cert"],
        ),
        (
            &["--tls-client-auth", "maybe"],
            &["--tls-client-auth", "optional"],
        ),
    ];
    for (flags, words) in cases {
        let output = run({
            let mut command = process::command(&["serve"]);
            command.args(*flags);
            command
        });
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(64), "{flags:?}: {told}");
        assert_eq!(told.lines().count(), 1, "{flags:?}: {told}");
        for word in *words {
            assert!(told.contains(word), "{flags:?}: {word} in {told}");
        }
    }
}

#[test]
fn bad_files_exit_with_1_and_are_named() {
    let (authority, other, files) = (Authority::new("a"), Authority::new("b"), Files::new());
    let (good, foreign) = (authority.server(), other.server());
    let good = files.tls_flags(&good);
    let empty = files.write("empty", "");
    let foreign_key = files.write("foreign.key", &foreign.key);
    let missing = files.arg("missing");
    let tls = |cert: &str, key: &str| -> Vec<String> {
        ["--tls-cert", cert, "--tls-key", key]
            .map(str::to_owned)
            .into()
    };
    let rules = |name: &str, text: &str| vec!["--access-file".to_owned(), files.write(name, text)];
    let rule = |who: &str| rule_text(who, Role::Reader, &["*"]);
    let mut bad_ca = good.clone();
    bad_ca.extend(["--tls-client-ca".to_owned(), empty.clone()]);
    let cases = [
        (tls(&missing, &good[3]), vec!["cannot read", "missing"]),
        (tls(&empty, &good[3]), vec!["tls-cert", "empty"]),
        (tls(&good[1], &empty), vec!["tls-key", "empty"]),
        (tls(&good[1], &foreign_key), vec!["tls-cert and tls-key"]),
        (bad_ca, vec!["tls-client-ca", "empty"]),
        (rules("r0", "[[allow]"), vec!["r0", "line 1"]),
        (rules("none", ""), vec!["none", "no rule"]),
        (rules("comment", "# rules to come\n"), vec!["no rule"]),
        (rules("list", "allow = []"), vec!["no rule"]),
        (
            rules("r1", "\nallowed = 1"),
            vec!["r1", "line 2", "allowed"],
        ),
        (rules("r2", &rule("token = \"x\"")), vec!["line 2", "token"]),
        (
            rules("r3", &rule("token_sha256 = \"x\"")),
            vec!["allow[0].token_sha256", "64"],
        ),
        (
            // This is what `printf '' | sha256sum` prints.
            rules(
                "r8",
                &rule(
                    "token_sha256 = \
                     \"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\"",
                ),
            ),
            vec!["allow[0].token_sha256", "empty token"],
        ),
        (
            rules("r4", &rule("anyone = false")),
            vec!["allow[0]:", "exactly one"],
        ),
        (
            rules("r5", &rule("anyone = true\ncertificate = \"a\"")),
            vec!["exactly one"],
        ),
        (
            rules("r6", &rule("anyone = true").replace("\"*\"", "")),
            vec!["allow[0].snapshots"],
        ),
        (
            rules("r7", &rule("anyone = true").replace("reader", "root")),
            vec!["root", "admin"],
        ),
    ];
    for (flags, words) in cases {
        let output = run({
            let mut command = process::command(&["serve", "--listen", "127.0.0.1:0"]);
            command.args(["--log-level", "off"]).args(&flags);
            command
        });
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{flags:?}: {told}");
        assert_eq!(told.lines().count(), 1, "{flags:?}: {told}");
        for word in words {
            assert!(told.contains(word), "{flags:?}: {word} in {told}");
        }
    }
}

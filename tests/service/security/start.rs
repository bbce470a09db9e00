//! Certificates with which a server refuses to start.

use crate::security::pki::{Authority, Files};
use crate::security::process::{self, run};

#[test]
fn bad_certificates_exit_with_1_and_are_named() {
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
    let mut bad_ca = good.clone();
    bad_ca.extend(["--tls-client-ca".to_owned(), empty.clone()]);
    let cases = [
        (tls(&missing, &good[3]), vec!["cannot read", "missing"]),
        (tls(&empty, &good[3]), vec!["tls-cert", "empty"]),
        (tls(&good[1], &empty), vec!["tls-key", "empty"]),
        (tls(&good[1], &foreign_key), vec!["tls-cert and tls-key"]),
        (bad_ca, vec!["tls-client-ca", "empty"]),
    ];
    for (flags, words) in cases {
        let mut command = process::command(&["serve", "--listen", "127.0.0.1:0"]);
        command.args(["--log-level", "off"]).args(&flags);
        let refused = run(command).expect(1);
        let told = &refused.err;
        assert_eq!(told.lines().count(), 1, "{flags:?}: {told}");
        for word in words {
            refused.complains(word);
        }
    }
}

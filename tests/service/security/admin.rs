//! The names by which the admin port may be called.

use crate::security::http::ask_with;
use crate::security::process::{Server, until};

/// Scrapers, probes and balancers name the port as they please.
#[test]
fn pages_are_shown_by_any_name() {
    let mut server = Server::start(&["--admin-listen", "127.0.0.1:0"]);
    let admin = server.logged("admin listening", "address");
    // The admin port is there before the server is ready.
    until("ready", || {
        (ask_with(&admin, "GET", "/readyz", &[], "").status == 200).then_some(())
    });
    for host in [
        "evenkeel.default.svc:9090",
        "10.0.0.7:9090",
        "check.internal",
        "",
    ] {
        for page in ["/livez", "/readyz", "/metrics"] {
            let answer = ask_with(&admin, "GET", page, &[("host", host)], "");
            assert_eq!(answer.status, 200, "{host:?} {page}: {answer:?}");
        }
    }
    assert_eq!(ask_with(&admin, "GET", "/livez", &[], "").status, 200);
}

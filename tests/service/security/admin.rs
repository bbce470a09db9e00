//! Changes through the admin port: programs on the server's own machine may make them, but no web
//! page that a browser there shows.

use crate::security::http::{ask_with, get};
use crate::security::process::{Server, until};

#[test]
fn only_the_machine_s_own_programs_set_the_log_level() {
    let mut server = Server::start(&["--admin-listen", "127.0.0.1:0"]);
    let admin = server.logged("admin listening", "address");
    let port = admin.rsplit(':').next().expect("it has a port");
    let (by_name, own) = (format!("localhost:{port}"), format!("http://{admin}"));
    let (by_name, own) = (by_name.as_str(), own.as_str());
    let rebound = format!("http://rebound.example:{port}");
    let cases: &[(&[(&str, &str)], u16)] = &[
        // These are programs.
        (&[("host", &admin)], 200),
        (&[("host", by_name)], 200),
        (&[("host", "LOCALHOST")], 200),
        (&[("host", "[::1]:9090")], 200),
        // This is a page of the port itself.
        (&[("host", &admin), ("origin", own)], 200),
        // These are pages of other sites.
        (&[("host", &admin), ("origin", "https://evil.example")], 403),
        (&[("host", &admin), ("origin", "null")], 403),
        (&[("host", &admin), ("origin", "")], 403),
        (&[("host", &admin), ("origin", "http://127.0.0.1:1")], 403),
        (&[("host", by_name), ("origin", own)], 403),
        (&[("host", &admin), ("origin", own), ("origin", own)], 403),
        // These are sites whose name was meanwhile resolved to this machine.
        (&[("host", "rebound.example"), ("origin", &rebound)], 403),
        (&[("host", "rebound.example")], 403),
        (&[("host", "127.0.0.1.rebound.example")], 403),
        (&[("host", "localhost.rebound.example")], 403),
        (&[("host", &admin), ("host", "rebound.example")], 403),
        (&[("host", "user@127.0.0.1@rebound.example")], 403),
        (&[], 403),
    ];
    for (headers, status) in cases {
        let answer = ask_with(&admin, "PUT", "/debug/log-level", headers, "warn");
        assert_eq!(answer.status, *status, "{headers:?}: {answer:?}");
        let set = if *status == 200 { "warn\n" } else { "info\n" };
        let now = get(&admin, "/debug/log-level");
        assert_eq!(now.body, set, "{headers:?}");
        let reset = ask_with(
            &admin,
            "PUT",
            "/debug/log-level",
            &[("host", &admin)],
            "info",
        );
        assert_eq!(reset.status, 200, "{reset:?}");
    }
}

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
        for page in ["/livez", "/readyz", "/metrics", "/debug/snapshot"] {
            let answer = ask_with(&admin, "GET", page, &[("host", host)], "");
            assert_eq!(answer.status, 200, "{host:?} {page}: {answer:?}");
        }
    }
    assert_eq!(ask_with(&admin, "GET", "/livez", &[], "").status, 200);
}

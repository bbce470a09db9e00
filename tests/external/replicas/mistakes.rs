//! Mistakes of operators are named: at the start, in `/readyz`, and by commands.

use evenkeel::log::nats::{Access, ConnectError, Nats};

use crate::replicas::brokers::{Brokers, Setup};
use crate::replicas::build::node;
use crate::replicas::fleet::{Client, Fleet, batch, update};
use crate::replicas::http::get;
use crate::replicas::metrics::Page;
use crate::replicas::ports::free_ports;
use crate::replicas::process::{Server, command, run, until};
use support::model::Stored;

fn brokers(more: &str) -> Brokers {
    let more = more.to_owned();
    Brokers::start_with(
        1,
        Setup {
            more,
            ..Setup::default()
        },
    )
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server: deploy/tools.sh install_nats"]
async fn nats_servers_that_take_too_little_are_refused() {
    let brokers = brokers("max_payload: 500000");
    let refused = brokers.connect_with("test", brokers.keeping()).await.err();
    let text = refused.expect("it is refused").to_string();
    let expected = "the nats-server n1 takes messages of at most 500000 bytes; set its max_payload";
    assert!(text.starts_with(expected), "{text}");
}

/// A permission that is missing at the start, or later.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server: deploy/tools.sh install_nats"]
async fn a_missing_permission_is_named() {
    for (denied, at_start) in [("evk.*.log.>", true), ("evk.*.log.default", false)] {
        let more = format!(
            "authorization {{ users: [{{ user: u, password: p,\n\
             permissions: {{ publish: {{ deny: [{denied:?}] }} }} }}] }}\nno_auth_user: u"
        );
        let brokers = brokers(&more);
        let told = |subject: &str| format!("Permissions Violation for Publish to \"{subject}\"");
        if at_start {
            let refused = brokers.connect_with("test", brokers.keeping()).await.err();
            let text = refused.expect("it is refused").to_string();
            assert!(text.contains(&told("evk.test.log._")), "{text}");
            continue;
        }
        let mut fleet = Fleet::on(brokers, 1, &["--admin-listen", "127.0.0.1:0"]);
        let change = batch("default", vec![node("n", &[]).change()]);
        let refused = fleet.client(0).update_snapshot(change).await;
        let refused = refused.expect_err("it may not be written");
        assert!(
            refused.message().contains("evk.test.log.default"),
            "{refused}"
        );
        let page = get(&fleet.admin(0), "/readyz").body;
        assert!(page.contains(&told("evk.test.log.default")), "{page}");
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server: deploy/tools.sh install_nats"]
async fn tls_to_a_plain_port_is_named() {
    let brokers = brokers("");
    brokers.connect("test").await;
    let plain = &brokers.urls()[0];
    let access = Access {
        servers: vec![plain.replace("nats://", "tls://")],
        ..Access::default()
    };
    let fleet = "test".parse().expect("a name");
    let refused = Nats::connect(access, fleet, brokers.keeping(), "test").await;
    let refused = refused.err().expect("it is refused");
    assert!(matches!(refused, ConnectError::PlainPort(_)), "{refused}");
    assert!(refused.to_string().contains("speaks no TLS"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server: deploy/tools.sh install_nats"]
async fn a_misspelt_fleet_is_named() {
    let mut fleet = Fleet::start(1, 1, &[]);
    let change = batch("default", vec![node("n", &[]).change()]);
    update(&fleet.clients(), 0, &change).await;
    let url = fleet.brokers.urls().remove(0);
    let log = |fleet: &str| {
        run(command(&[
            "admin", "log", "status", "--log", &url, "--fleet", fleet,
        ]))
    };
    // The log has one copy, which the command need not be told.
    log("test").expect(0);
    let refused = log("tset");
    refused.complains("no fleet tset is kept");
    refused.complains("there is test");
    let mut serve = command(&["serve", "--fleet", "tset"]);
    let mut other = Server::spawn(serve.args(fleet.brokers.flags()));
    let others = other.logged("other fleets are kept here", "others");
    assert_eq!(others, "test");
    other.logged("the fleet is new: nothing was kept for it", "fleet");
    drop(Client::new(other.channel()));
    fleet.signal(0, "KILL");
}

/// A server that waits for its log shows that on the admin port and to the probe.
#[test]
fn what_a_server_waits_for_is_told() {
    let (port, away) = (free_ports(1), free_ports(1));
    let log = format!("nats://127.0.0.1:{away}");
    let mut serve = command(&["serve", "--log", &log, "--fleet", "test"]);
    serve.args(["--admin-listen", "127.0.0.1:0"]);
    let address = format!("127.0.0.1:{port}");
    let mut server = Server::begin_on(&address, &mut serve);
    let admin = server.logged("admin listening", "address");
    let server = format!("http://{address}");
    let waits = until("it says what it waits for", || {
        let probe = ["healthcheck", "--server", &server, "--admin", &admin];
        let probed = run(command(&probe));
        probed.out.contains("waiting for the log").then_some(probed)
    });
    let text = waits.expect(1).out;
    assert!(text.starts_with("NOT_SERVING\nloading\n"), "{text}");
    assert_eq!(Page::of(&admin).value("evenkeel_ready", &[]), 0.0);
}

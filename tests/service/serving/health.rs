//! `grpc.health.v1` of a running server, at every step of a server's life.

use std::future::Future;
use std::net::TcpListener;

use clap::{Args, FromArgMatches};
use evenkeel::server;
use support::build::replace_of;
use tokio::sync::oneshot;
use tokio::time::timeout;
use tonic::Code;
use tonic::transport::{Channel, Endpoint};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus::{
    self, NotServing, ServiceUnknown, Serving,
};
use tonic_health::pb::health_client::HealthClient;

use crate::serving::process::{DEADLINE, Server, eventually};
use crate::serving::streams::{next, watch};

const SERVICE: &str = "evenkeel.v1.SpreadService";

/// A client of health, and its connection.
struct Client {
    channel: Channel,
    health: HealthClient<Channel>,
}

impl Client {
    fn new(channel: Channel) -> Self {
        Self {
            health: HealthClient::new(channel.clone()),
            channel,
        }
    }

    /// Calls `Check`; `None` for NOT_FOUND.
    async fn check(&mut self, name: &str) -> Option<ServingStatus> {
        match self.health.check(request(name)).await {
            Ok(response) => Some(response.into_inner().status()),
            Err(status) if status.code() == Code::NotFound => None,
            Err(status) => panic!("check of {name:?}: {status}"),
        }
    }
}

fn request(name: &str) -> HealthCheckRequest {
    HealthCheckRequest {
        service: name.into(),
    }
}

#[tokio::test]
async fn serves_once_listening_when_nothing_is_expected() {
    let server = Server::start(&[]);
    let mut client = Client::new(server.channel());
    for (name, status) in [("", Serving), (SERVICE, Serving)] {
        let mut watch = watch(client.channel.clone(), name).await;
        while next(&mut watch).await != status {}
        assert_eq!(client.check(name).await, Some(status), "{name:?}");
    }
    for unknown in ["nothing", "evenkeel.v1.Spread", "grpc.health.v1.Health"] {
        assert_eq!(client.check(unknown).await, None, "{unknown:?}");
    }
}

#[tokio::test]
async fn waits_for_every_expected_snapshot() {
    let server = Server::start(&["--expect-snapshot", "a", "--expect-snapshot", "b"]);
    let mut client = Client::new(server.channel());
    let mut watch = watch(client.channel.clone(), "").await;
    assert_eq!(next(&mut watch).await, NotServing);
    let mut watched = NotServing;

    // Each step, and then the health of a, b and the server.
    let steps = [
        (
            Step::Nothing,
            Some(NotServing),
            Some(NotServing),
            NotServing,
        ),
        // A delta may come from a feed that is not complete yet.
        (
            Step::Delta("a"),
            Some(NotServing),
            Some(NotServing),
            NotServing,
        ),
        (
            Step::Replace("a"),
            Some(Serving),
            Some(NotServing),
            NotServing,
        ),
        (Step::Replace("b"), Some(Serving), Some(Serving), Serving),
        (Step::Delta("b"), Some(Serving), Some(Serving), Serving),
        (Step::Delete("b"), Some(Serving), None, NotServing),
    ];
    for (step, a, b, all) in steps {
        match step {
            Step::Nothing => {}
            Step::Delta(name) => drop(server.update(name, Vec::new()).await),
            Step::Replace(name) => drop(server.send(replace_of(name, Vec::new())).await),
            Step::Delete(name) => server.delete(name).await,
        }
        for (name, status) in [("a", a), ("b", b), ("", Some(all)), (SERVICE, Some(all))] {
            assert_eq!(client.check(name).await, status, "{name:?} after {step:?}");
        }
        if watched != all {
            watched = next(&mut watch).await;
            assert_eq!(watched, all, "watched after {step:?}");
        }
    }
}

#[derive(Debug)]
enum Step {
    Nothing,
    Delta(&'static str),
    Replace(&'static str),
    Delete(&'static str),
}

#[tokio::test]
async fn watch_of_an_unknown_snapshot_stays_open() {
    let server = Server::start(&[]);
    let mut client = Client::new(server.channel());
    let mut watch = watch(client.channel.clone(), "later").await;
    assert_eq!(next(&mut watch).await, ServiceUnknown);

    server.update("other", Vec::new()).await;
    server.update("later", Vec::new()).await;
    assert_eq!(next(&mut watch).await, Serving);

    server.update("later", Vec::new()).await;
    server.send(replace_of("later", Vec::new())).await;
    server.delete("later").await;
    // Neither update was a change of health.
    assert_eq!(next(&mut watch).await, ServiceUnknown);
    assert_eq!(client.check("later").await, None);
    assert_eq!(client.check("other").await, Some(Serving));
}

#[tokio::test]
async fn is_not_ready_before_everything_is_loaded() {
    let address = free_address();
    let (loaded, gate) = oneshot::channel::<()>();
    let config = settings(&["--listen", &address]);
    let serving = tokio::spawn(server::serve(config, vec![], |_| gate));

    let endpoint = Endpoint::from_shared(format!("http://{address}")).expect("a URL");
    let mut client = Client::new(connected(|| endpoint.connect()).await);
    for name in ["", SERVICE] {
        assert_eq!(client.check(name).await, Some(NotServing), "{name:?}");
    }
    let mut watch = watch(client.channel.clone(), SERVICE).await;
    assert_eq!(next(&mut watch).await, NotServing);
    loaded.send(()).expect("the server is waiting");
    assert_eq!(next(&mut watch).await, Serving);
    assert_eq!(client.check("").await, Some(Serving));
    serving.abort();
}

#[tokio::test]
async fn ends_when_loading_fails() {
    let config = settings(&["--listen", "127.0.0.1:0"]);
    let served = server::serve(config, vec![], |_| async { Err("no such file") });
    let error = timeout(DEADLINE, served)
        .await
        .expect("the server ends")
        .expect_err("loading failed");
    assert_eq!(error.to_string(), "cannot load: no such file");
    assert_eq!(error.exit_code(), 1);
}

fn settings(args: &[&str]) -> server::Config {
    let command = server::Config::augment_args(clap::Command::new("serve").no_binary_name(true));
    let matches = command.get_matches_from(args);
    server::Config::from_arg_matches(&matches).expect("the settings are valid")
}

/// An address that is free as of this moment.
fn free_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    let address = listener.local_addr().expect("a bound listener has one");
    address.to_string()
}

/// Connects as soon as the server listens.
async fn connected<F>(connect: impl Fn() -> F) -> Channel
where
    F: Future<Output = Result<Channel, tonic::transport::Error>>,
{
    eventually("the server listens", async || connect().await.ok()).await
}

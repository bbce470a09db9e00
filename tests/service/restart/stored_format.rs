//! A state directory that was written once and is kept: later versions read it.
//!
//! `tests/vectors/state-format-2` was left by a killed server. It has objects
//! under their keys, a batch that was not put there yet, reservations, and the
//! answer to a request id. A new format gets a directory of its own:
//!
//! ```sh
//! cargo test --test restart -- --ignored keep_a_directory
//! ```

use std::fs::{self, File};
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use evenkeel::proto::v1::change::Object;
use evenkeel::proto::v1::{
    Change, ConfirmReservationsRequest, Confirmation, PlaceRequest, PlaceResponse, ReservedPod,
    Service, ServiceSpec, VerifySnapshotRequest,
};
use flate2::Compression;
use flate2::read::{GzDecoder, GzEncoder};

use crate::restart::home::{Home, Running, reserve};
use support::build::{
    ZONE, hard, having, meta, node, on, pairs, pod, requesting, soft, spread, tainted,
};
use support::model::{Stored, delete};

const WEB: [(&str, &str); 1] = [("app", "web")];
/// The pod that is deleted at the second server.
const ENDED: &str = "web-1";
/// Some 95 years, so that the reservations are held whenever the test runs.
const TTL: Duration = Duration::from_secs(3_000_000_000);
const FLAGS: [&str; 2] = ["--max-reservation-ttl", "3000000000s"];
/// The record beside the file of a directory. The file is kept compressed.
const RECORD: &str = "last-commit";

fn kept(file: &str) -> PathBuf {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    root.join("tests/vectors/state-format-2").join(file)
}

/// Returns the changes that the first server is sent.
fn early() -> Vec<Change> {
    let small = [("cpu", "500m"), ("memory", "128Mi")];
    let node = |name: &str, zone: &str| {
        let room = [("cpu", "4"), ("memory", "8Gi"), ("pods", "110")];
        having(node(name, &[(ZONE, zone)]), &room)
    };
    let web = |name: &str| requesting(spread(pod(name, &WEB), vec![soft(1, ZONE, &WEB)]), &small);
    vec![
        node("a", "one").change(),
        node("b", "two").change(),
        tainted(node("c", "two"), "k", "v", "NoSchedule").change(),
        Service {
            metadata: Some(meta("web", &[])),
            spec: Some(ServiceSpec {
                selector: pairs(&WEB),
            }),
        }
        .change(),
        on(web("web-0"), "a").change(),
        on(web(ENDED), "b").change(),
    ]
}

/// Returns the changes that the second server is sent before it is killed.
fn late() -> Vec<Change> {
    vec![
        delete("Pod", "default", ENDED),
        on(pod("web-2", &WEB), "b").change(),
    ]
}

fn request() -> PlaceRequest {
    let template = spread(pod("", &WEB), vec![hard(1, ZONE, &WEB)]);
    PlaceRequest {
        request_id: "once".into(),
        ..reserve(template, 2, TTL)
    }
}

async fn place(server: &Running) -> PlaceResponse {
    let placed = server.client.clone().place(request()).await;
    placed.expect("it is placed").into_inner()
}

#[tokio::test]
async fn a_directory_of_this_format_is_read() {
    let home = Home::new();
    fs::create_dir(home.state()).expect("it is new");
    fs::copy(kept(RECORD), home.state().join(RECORD)).expect("it is kept");
    let file = File::open(kept("evenkeel.redb.gz")).expect("it is kept");
    let mut copy = File::create(home.file()).expect("the directory is there");
    io::copy(&mut GzDecoder::new(file), &mut copy).expect("it is whole");

    let server = home.start(&FLAGS);
    let described = server.describe("default").await.expect("it is restored");
    let counts = (described.node_count, described.pod_count);
    assert_eq!((counts, described.reservation_count), ((3, 2), 2));
    // The changes that both servers were sent are there already.
    let is_there = |change: &Change| match &change.object {
        Some(Object::Pod(pod)) => pod.key().1 != ENDED,
        object => !matches!(object, Some(Object::Delete(_))),
    };
    let told = early().into_iter().chain(late());
    let told: Vec<Change> = told.filter(is_there).collect();
    let count = told.len() as i64;
    let answer = server.update("", told).await;
    assert_eq!((answer.changed_count, answer.unchanged_count), (0, count));

    // The same request is answered from the kept answer, and reserves nothing.
    let held = server.held().await;
    let mut owned: Vec<_> = held.values().map(|held| held.pod.clone()).collect();
    owned.sort_by_key(Option::is_some);
    assert!(matches!(&owned[..], [None, Some(pod)] if pod.name == "web-3"));
    let again = place(&server).await;
    let ids = again.placements.iter().map(|it| &it.reservation_id);
    assert!(ids.clone().count() == 2 && ids.clone().all(|id| held.contains_key(id)));
    assert_eq!(server.held().await, held);
    let after = server.describe("default").await.expect("it is there");
    assert_eq!(after.revision, answer.revision);
    let verify = VerifySnapshotRequest::default();
    let verified = server.client.clone().verify_snapshot(verify).await;
    let verified = verified.expect("it is there").into_inner();
    assert_eq!(verified.mismatches, Vec::new());
    server.stop().await;
}

#[tokio::test]
#[ignore = "writes the directory that the other test reads"]
async fn keep_a_directory() {
    let home = Home::new();
    let server = home.start(&FLAGS);
    server.update("", early()).await;
    let placed = place(&server).await;
    server.stop().await;
    let server = home.start(&FLAGS);
    server.update("", late()).await;
    let confirm = ConfirmReservationsRequest {
        snapshot: String::new(),
        confirmations: vec![Confirmation {
            id: placed.placements[0].reservation_id.clone(),
            pod: Some(ReservedPod {
                name: "web-3".into(),
                uid: String::new(),
            }),
        }],
    };
    let confirmed = server.client.clone().confirm_reservations(confirm).await;
    confirmed.expect("it is held");
    server.kill().await;

    fs::create_dir_all(kept("")).expect("a checkout");
    fs::copy(home.state().join(RECORD), kept(RECORD)).expect("it was written");
    let file = File::open(home.file()).expect("it was written");
    let mut compressed = File::create(kept("evenkeel.redb.gz")).expect("a checkout");
    io::copy(
        &mut GzEncoder::new(file, Compression::best()),
        &mut compressed,
    )
    .expect("a disk");
}

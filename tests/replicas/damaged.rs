//! A nats-server that silently lacks messages because its store was damaged. Servers start from the
//! other copies within seconds, say which copy is damaged, and do not let it lead.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use evenkeel::log::{Log, LogCopy};
use serde_json::json;
use tokio::time::sleep;

use crate::brokers::{Brokers, binary, stream_name};
use crate::build::node;
use crate::fleet::{Fleet, batch, put_node, update};
use crate::http::get;
use crate::metrics::Page;
use crate::process::{DEADLINE, until};

/// The longest time that a server may take to start beside a damaged copy.
const START: Duration = Duration::from_secs(20);

const BLOBS: &str = "EVK_test_BLOBS";

/// A stream, and the snapshot whose log it is: `None` for the blobs.
type Kept<'a> = (&'a str, Option<&'a str>);

/// Returns the copy of a stream that a nats-server has.
async fn copy(log: &dyn Log, of: Kept<'_>, server: &str) -> Option<LogCopy> {
    let copies = log.inspect(of.1, false).await.ok()?;
    let of_server = |copy: &LogCopy| copy.server == server && copy.of == of.0;
    copies.into_iter().find(of_server)
}

/// Waits until the copy of a stream at a nats-server meets a condition.
async fn until_copy(log: &dyn Log, of: Kept<'_>, server: &str, is: fn(&LogCopy) -> bool) {
    let start = Instant::now();
    loop {
        let found = copy(log, of, server).await;
        if found.as_ref().is_some_and(is) {
            return;
        }
        assert!(start.elapsed() < DEADLINE, "{found:?}");
        sleep(Duration::from_millis(50)).await;
    }
}

/// The file of a stream in the store of a nats-server.
fn file(brokers: &Brokers, number: usize, stream: &str) -> PathBuf {
    let streams = brokers.store(number).join("jetstream/$G/streams");
    streams.join(stream).join("msgs/1.blk")
}

/// Flips a bit in the length of a message, and starts the nats-server without the others. It drops
/// this message and all later ones, and then believes that it has all.
async fn damage(brokers: &mut Brokers, number: usize, of: Kept<'_>) {
    brokers.settle().await;
    brokers.signal(number, "TERM");
    let store = brokers.store(number);
    let path = file(brokers, number, of.0);
    let mut bytes = std::fs::read(&path).expect("it has some");
    let length = |at: usize| {
        let length = bytes[at..at + 4].try_into().expect("four bytes");
        (u32::from_le_bytes(length) & 0x7fff_ffff) as usize
    };
    let third = (0..2).fold(0, |at, _| at + length(at));
    bytes[third + 3] ^= 1;
    std::fs::write(&path, &bytes).expect("it is written");
    let config = store.with_file_name("nats.conf");
    let text = std::fs::read_to_string(&config).expect("it was written");
    let routes = text.find("routes: [").expect("it has some");
    let alone = format!("{}routes: [] }}", &text[..routes]);
    std::fs::write(store.with_file_name("alone.conf"), alone).expect("it is written");
    let mut alone = Command::new(binary().expect("it was found"))
        .arg("-c")
        .arg(store.with_file_name("alone.conf"))
        .stderr(Stdio::null())
        .spawn()
        .expect("nats-server starts");
    until("it has dropped what is damaged", || {
        let kept = std::fs::metadata(&path).ok()?;
        (kept.len() < bytes.len() as u64).then_some(())
    });
    alone.kill().expect("it runs");
    alone.wait().expect("it ends");
    brokers.run(number);
    brokers.settle().await;
    let (log, name) = (brokers.connect("test").await, &brokers.servers[number].name);
    until_copy(&log, of, name, LogCopy::is_damaged).await;
}

/// Makes a nats-server the leader of a stream, whatever its copy lacks.
async fn lead(brokers: &Brokers, number: usize, stream: &str) {
    let client = async_nats::connect(brokers.urls()).await.expect("it runs");
    let streams = async_nats::jetstream::new(client);
    let (start, name) = (Instant::now(), &brokers.servers[number].name);
    loop {
        assert!(start.elapsed() < DEADLINE, "{name} does not lead");
        if let Ok(found) = streams.get_stream(stream).await {
            let cluster = found.cached_info().cluster.as_ref();
            if cluster.and_then(|it| it.leader.as_ref()) == Some(name) {
                return;
            }
        }
        // The stream may have no leader at the moment.
        let request = json!({ "placement": { "preferred": name } });
        brokers.step_down(stream, &request).await;
        sleep(Duration::from_millis(200)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn servers_start_beside_a_damaged_copy_and_say_which() {
    let Some(mut fleet) = Fleet::start(3, 2, &["--admin-listen", "127.0.0.1:0"]) else {
        return;
    };
    let clients = fleet.clients();
    let mut nodes = 0;
    let mut fill = async |fleet: &Fleet, more: usize| {
        for _ in 0..more {
            let change = put_node(node(&format!("n{nodes}"), &[]));
            update(&fleet.clients(), 0, &batch("default", vec![change])).await;
            nodes += 1;
        }
        nodes
    };
    for _ in 0..4 {
        fill(&fleet, 8).await;
        fleet.checkpoint(&[]);
    }
    // Removes old records as trimming does after hours: no server can begin without a checkpoint.
    let stream = fleet.brokers.stream("default").await;
    stream.purge().sequence(12).await.expect("it is there");
    fleet.agree("default").await;
    let log = stream_name("default");
    for (number, of) in [(0, (BLOBS, None)), (1, (&*log, Some("default")))] {
        damage(&mut fleet.brokers, number, of).await;
        for leads in [false, true] {
            if leads {
                lead(&fleet.brokers, number, of.0).await;
            }
            fleet.signal(1, "KILL");
            let start = Instant::now();
            fleet.run(1);
            let expected = fill(&fleet, 1).await;
            let held = fleet.agree("default").await;
            let took = start.elapsed();
            assert_eq!(held.objects.len(), expected);
            println!("{}, leads {leads}: {took:?}", of.0);
            assert!(took < START, "{took:?}");
            let told = format!("server n{} of the log has ", number + 1);
            let admin = fleet.admin(1);
            until("it says which copy is damaged", || {
                let page = get(&admin, "/readyz");
                assert_eq!(page.status, 200, "{}", page.body);
                let is_told = |line: &str| line.starts_with(&told) && line.ends_with(of.0);
                page.body.lines().any(is_told).then_some(())
            });
            assert!(Page::of(&admin).value("evenkeel_log_troubles", &[]) >= 1.0);
            fleet.checkpoint(&[]);
        }
        let verified = fleet.log(&["verify", "--copies"]);
        let text = String::from_utf8_lossy(&verified.stdout);
        assert_eq!(verified.status.code(), Some(1), "{text}");
        assert!(text.contains(&format!("server n{}", number + 1)), "{text}");
    }
    let status = fleet.log(&["status"]);
    let text = String::from_utf8_lossy(&status.stdout);
    assert!(text.contains(" 2/3 "), "{text}");
    update(
        &clients,
        1,
        &batch("default", vec![put_node(node("last", &[]))]),
    )
    .await;
}

/// A server does not read a blob from the copy in which a bit was flipped, whatever the nats-server
/// says.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_blob_with_a_flipped_bit_is_read_elsewhere() {
    let Some(mut fleet) = Fleet::start(3, 1, &[]) else {
        return;
    };
    let nodes = (0..50).map(|number| put_node(node(&format!("n{number}"), &[])));
    update(&fleet.clients(), 0, &batch("default", nodes.collect())).await;
    fleet.checkpoint(&[]);
    fleet.brokers.settle().await;
    fleet.brokers.signal(2, "TERM");
    let path = file(&fleet.brokers, 2, BLOBS);
    let mut bytes = std::fs::read(&path).expect("it has some");
    // This byte is in the first message, which holds the objects.
    bytes[300] ^= 1;
    std::fs::write(&path, &bytes).expect("it is written");
    fleet.brokers.run(2);
    fleet.brokers.settle().await;
    for _ in 0..3 {
        fleet.signal(0, "KILL");
        let start = Instant::now();
        fleet.run(0);
        assert_eq!(fleet.agree("default").await.objects.len(), 50);
        let took = start.elapsed();
        println!("a flipped bit: {took:?}");
        assert!(took < START, "{took:?}");
    }
    let verified = fleet.log(&["verify", "--copies"]);
    let text = String::from_utf8_lossy(&verified.stdout);
    assert_eq!(verified.status.code(), Some(1), "{text}");
    assert!(
        text.contains("server n3 of the log has 1 of 2 messages of EVK_test_BLOBS"),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_is_kept_besides_the_logs_is_made_again_when_it_is_deleted() {
    let Some(mut fleet) = Fleet::start(1, 2, &[]) else {
        return;
    };
    let clients = fleet.clients();
    let change = |name: &str| batch("default", vec![put_node(node(name, &[]))]);
    let epoch = update(&clients, 0, &change("a")).await.epoch;
    let client = async_nats::connect(fleet.brokers.urls()).await;
    let streams = async_nats::jetstream::new(client.expect("it runs"));
    for (kind, name) in [("KEYS", "b"), ("BLOBS", "c")] {
        let stream = format!("EVK_test_{kind}");
        streams.delete_stream(&stream).await.expect("it was there");
        update(&clients, 0, &change(name)).await;
        let start = Instant::now();
        while streams.get_stream(&stream).await.is_err() {
            assert!(start.elapsed() < DEADLINE, "{stream} is not made again");
            let _ = fleet.log(&["status"]);
        }
        fleet.signal(1, "KILL");
        fleet.run(1);
        let held = fleet.agree("default").await;
        assert_eq!(held.epoch, epoch, "it is the same log");
    }
    fleet.checkpoint(&[]);
}

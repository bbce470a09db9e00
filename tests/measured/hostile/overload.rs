//! More work than there are processors for.

use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::timeout;
use tonic::{Code, Status};
use tonic_types::StatusExt;

use evenkeel::proto::v1::{Change, FilterRequest, ObjectReference, change};

use crate::hostile::crowd::{deletions, pods};
use crate::hostile::process::{DEADLINE, Server};
use crate::hostile::world::{
    Client, assert_answered, assert_healthy, fill, limit_of, long_place, question,
};

/// The number of nodes on which [`long_place`] takes long.
const NODES: usize = 5_000;

/// A server that lets so many long decisions run and so many wait.
fn server_for(running: usize, waiting: usize, flags: &[&str]) -> Server {
    let (running, waiting) = (running.to_string(), waiting.to_string());
    let decisions = [
        "--max-running-decisions",
        &running,
        "--max-waiting-decisions",
        &waiting,
    ];
    Server::start(&[&decisions, flags].concat())
}

/// A server with a cluster, where one long decision runs and one waits.
async fn busy_server(flags: &[&str]) -> Server {
    let server = server_for(1, 1, flags);
    fill(&mut Client::new(server.channel()), NODES).await;
    server
}

#[tokio::test]
async fn over_the_load_decisions_are_refused_and_others_answered() {
    let server = busy_server(&["--threads", "1"]).await;
    let mut places = JoinSet::new();
    for _ in 0..6 {
        let mut client = Client::new(server.channel());
        places.spawn(async move { client.place(long_place()).await.map(drop) });
    }
    // One decision runs and one waits. Four are refused before either is done.
    for _ in 0..4 {
        let refused = timeout(DEADLINE, places.join_next())
            .await
            .expect("in time");
        let status = refused.expect("six were started").expect("no panic");
        let status: Status = status.expect_err("it is over the load");
        assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
        assert_eq!(limit_of(&status).as_deref(), Some("max-waiting-decisions"));
        let retry = status.get_details_retry_info();
        assert!(retry.is_some_and(|retry| retry.retry_delay.is_some()));
    }
    // While both are under way, small calls and health are answered.
    for _ in 0..20 {
        assert_healthy(server.channel()).await;
        let mut client = Client::new(server.channel());
        assert_answered(&mut client).await;
        fill(&mut client, 10).await;
    }
    assert!(
        places.try_join_next().is_none(),
        "the first was over too soon to show this"
    );
    places.shutdown().await;
}

/// A client at an address of this machine.
async fn client_at(server: &Server, address: [u8; 4]) -> Client {
    let endpoint = server.endpoint().local_address(Some(address.into()));
    Client::new(endpoint.connect().await.expect("it is this machine"))
}

/// Fills a server, and starts eight long decisions of one caller at once.
async fn greedy_caller(server: &Server) -> JoinSet<Result<(), Status>> {
    let greedy = client_at(server, [127, 0, 0, 2]).await;
    fill(&mut greedy.clone(), NODES).await;
    let mut places = JoinSet::new();
    for _ in 0..8 {
        let mut client = greedy.clone();
        places.spawn(async move { client.place(long_place()).await.map(drop) });
    }
    places
}

/// A client has 64 calls open, as load tests have, and all of them take long. That is so when a
/// server has just begun, and looks at all nodes for the first time.
#[tokio::test]
async fn the_questions_of_one_client_may_all_take_long() {
    let server = Server::start(&[]);
    let client = client_at(&server, [127, 0, 0, 2]).await;
    fill(&mut client.clone(), NODES).await;
    let mut small = long_place();
    small.replicas = 1;
    let mut places = JoinSet::new();
    for _ in 0..64 {
        let (mut client, place) = (client.clone(), small.clone());
        places.spawn(async move { client.place(place).await.map(drop) });
    }
    while let Some(placed) = places.join_next().await {
        placed.expect("no panic").expect("there is room for it");
    }
}

/// A caller that asks for more than its share leaves some to others.
#[tokio::test]
async fn a_caller_leaves_room_for_decisions_of_others() {
    let server = server_for(1, 7, &[]);
    let mut places = greedy_caller(&server).await;
    // A caller may have as many as it leaves free, and one more: three of eight are refused.
    for _ in 0..3 {
        let refused = timeout(DEADLINE, places.join_next());
        let refused = refused.await.expect("in time").expect("eight were started");
        let status = refused
            .expect("no panic")
            .expect_err("it is over its share");
        assert_eq!(limit_of(&status).as_deref(), Some("max-waiting-decisions"));
    }
    let mut modest = client_at(&server, [127, 0, 0, 3]).await;
    let mut small = long_place();
    small.replicas = 1;
    let mut waiting = tokio::spawn(async move { modest.place(small).await.map(drop) });
    // A refusal would come at once. This decision waits for those before it, which are then given
    // up.
    if let Ok(early) = timeout(Duration::from_millis(500), &mut waiting).await {
        return early.expect("no panic").expect("it has room");
    }
    places.shutdown().await;
    let placed = timeout(DEADLINE, waiting).await.expect("in time");
    placed.expect("no panic").expect("it has room");
}

/// The questions of one caller run beside those of another, however many the other one has.
#[tokio::test]
async fn no_long_decision_waits_for_those_of_another_caller() {
    let server = server_for(2, 14, &[]);
    let mut places = greedy_caller(&server).await;
    // This waits until all of them are queued.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let mut modest = client_at(&server, [127, 0, 0, 3]).await;
    let mut small = long_place();
    small.replicas = 1;
    for _ in 0..3 {
        let placed = timeout(DEADLINE, modest.place(small.clone())).await;
        placed.expect("in time").expect("it has room");
    }
    let first = std::iter::from_fn(|| places.try_join_next()).count();
    assert!(first <= 1, "{first} of another caller's came first");
    places.shutdown().await;
}

/// Small decisions that wait for a batch do not count among the long ones that wait.
#[tokio::test]
async fn beside_a_feed_no_small_decision_is_refused() {
    let server = server_for(1, 8, &[]);
    let mut feeder = Client::new(server.channel());
    fill(&mut feeder, 10).await;
    let mut asking = JoinSet::new();
    for _ in 0..24 {
        let mut client = Client::new(server.channel());
        asking.spawn(async move {
            for _ in 0..40 {
                client.filter(question("web")).await?;
            }
            Ok::<_, Status>(())
        });
    }
    // These batches are applied beside the reactor, until all questions are answered.
    let mut batches = 0;
    while !asking.is_empty() {
        let change = match batches % 2 {
            0 => pods(0..300),
            _ => deletions(0..300),
        };
        feeder.update_snapshot(change).await.expect("a valid batch");
        batches += 1;
        while let Some(done) = asking.try_join_next() {
            done.expect("no panic").expect("it is answered");
        }
    }
    assert!(batches > 4, "too few to hold anything up");
}

/// A question with an overlay of `count` changes.
fn what_if(count: usize) -> FilterRequest {
    let deletion = |number| Change {
        object: Some(change::Object::Delete(ObjectReference {
            kind: "Node".into(),
            name: format!("node-{number}"),
            ..ObjectReference::default()
        })),
    };
    FilterRequest {
        overlay: (0..count).map(deletion).collect(),
        ..question("web")
    }
}

#[tokio::test]
async fn overlays_take_turns_with_other_long_decisions() {
    let server = busy_server(&["--max-overlay-changes", "1000"]).await;
    let mut client = Client::new(server.channel());
    let refused = client.filter(what_if(1_001)).await;
    let status = refused.expect_err("over the limit");
    assert_eq!(limit_of(&status).as_deref(), Some("max-overlay-changes"));
    let answer = client.filter(what_if(1_000)).await;
    let judged = answer.expect("within the limit").into_inner().node_count;
    assert_eq!(judged, NODES as i64 - 1_000);

    let mut asking = JoinSet::new();
    for _ in 0..20 {
        let mut client = Client::new(server.channel());
        asking.spawn(async move { client.filter(what_if(1_000)).await.map(drop) });
    }
    let mut refusals = 0;
    for _ in 0..20 {
        assert_healthy(server.channel()).await;
    }
    while let Some(done) = asking.join_next().await {
        match done.expect("no panic") {
            Ok(()) => {}
            Err(status) => {
                assert_eq!(limit_of(&status).as_deref(), Some("max-waiting-decisions"));
                refusals += 1;
            }
        }
    }
    assert!(refusals < 20, "some are answered");
    let after = client
        .filter(question("web"))
        .await
        .expect("a valid question");
    assert_eq!(
        after.into_inner().node_count,
        NODES as i64,
        "nothing is left of them"
    );
}

#[tokio::test]
async fn a_call_that_is_given_up_stops_working() {
    let server = busy_server(&[]).await;
    let mut client = Client::new(server.channel());
    let start = tokio::time::Instant::now();
    // A call that was given up before may not have stopped yet.
    let room = async |refused: Status| {
        assert_eq!(limit_of(&refused).as_deref(), Some("max-waiting-decisions"));
        assert!(start.elapsed() < DEADLINE, "they go on");
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    let mut given_up = 0;
    while given_up < 5 {
        let place = client.place(long_place());
        match timeout(Duration::from_millis(50), place).await {
            Err(_) => given_up += 1,
            Ok(answer) => room(answer.expect_err("it takes longer")).await,
        }
    }
    // If the calls that were given up went on, this one would have to wait for all of them and be
    // refused.
    let mut small = long_place();
    small.replicas = 1;
    while let Err(refused) = client.place(small.clone()).await {
        room(refused).await;
    }
}

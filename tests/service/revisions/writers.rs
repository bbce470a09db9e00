//! Clients that write while others read: one feeds batches, one makes reservations and releases
//! them.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use support::generate;
use support::process::DEADLINE;

use evenkeel::proto::v1::{Change, Node, NodeChecks, NodeNames, PlaceRequest};
use proptest::test_runner::TestRunner;
use tonic::{Code, Status};

use crate::revisions::history::{Moved, Shared, update};
use crate::revisions::questions::{constraints, draw, passing, within};
use support::build::{confirm_of, having, hold_of, node, on, pod, release_of, spread};
use support::caller::{Client, deletion};
use support::model::{self, Stored};

/// Number of batches that the feeder sends.
const BATCHES: usize = 150;

/// Intervals, in batches, between two replaces, and between two deletions of the snapshot.
const REPLACE_EVERY: usize = 29;
const DELETE_EVERY: usize = 71;

/// Number of answers that the feeder waits for after each batch, so that readers keep up.
const ANSWERS: usize = 3;

/// The namespace in which reservations are made. It has no pods but those that reservations become.
pub(crate) const RESERVED: &str = "reserved";

/// The only node for reservations that expire.
const APART: &str = "apart";

/// Returns whether there is no snapshot to ask now, or nothing in it to answer from.
pub(crate) fn is_gone(status: &Status) -> bool {
    [Code::NotFound, Code::FailedPrecondition].contains(&status.code())
}

/// Changes for each batch of the feeder.
pub(crate) fn batches(runner: &mut TestRunner) -> Vec<Vec<Change>> {
    let batches = (0..BATCHES).map(|number| {
        let most = if number % REPLACE_EVERY == 0 { 40 } else { 4 };
        draw(&generate::batch(most), runner)
    });
    batches.collect()
}

/// Sends batches, replaces all now and then, and deletes the snapshot.
pub(crate) async fn feed(mut client: Client, shared: Arc<Shared>, batches: Vec<Vec<Change>>) {
    for (number, mut changes) in batches.into_iter().enumerate() {
        if number % DELETE_EVERY == DELETE_EVERY - 1 {
            let deleted = client.delete_snapshot(deletion(""));
            deleted.await.expect("it is there, for others only write");
        }
        let is_replace = number % REPLACE_EVERY == 0;
        changes.push(apart().change());
        // A namespace gets its only pod, or loses it.
        let passer = within(on(pod("passer", &[("app", "a")]), "n0"), &passing(number));
        changes.push(match number % 2 {
            0 => passer.change(),
            _ => model::delete("Pod", &passing(number / 2), "passer"),
        });
        let moved = match is_replace {
            true => Moved::Replace(changes),
            false => Moved::Batch(changes),
        };
        update(&mut client, &shared, moved).await;
        let before = shared.answered.load(Ordering::Acquire);
        let begun = Instant::now();
        while shared.answered.load(Ordering::Acquire) < before + ANSWERS {
            assert!(begun.elapsed() < DEADLINE, "nobody is answered");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

/// The picks: the id of each reservation, and its node.
type Picks = Vec<(String, String)>;

/// Makes reservations, and confirms or releases them.
pub(crate) async fn reserve(mut client: Client, shared: Arc<Shared>) {
    for number in 0.. {
        if shared.is_done() {
            return;
        }
        let Some(picks) = take(&mut client, &shared).await else {
            continue;
        };
        if number % 3 == 0 {
            confirm(&mut client, &shared, &picks[0], number).await;
        } else {
            release(&mut client, &shared, picks).await;
        }
    }
}

/// Reserves for two pods, or for one if there is no more room. `None` if there is no room.
async fn take(client: &mut Client, shared: &Shared) -> Option<Picks> {
    let template = within(spread(pod("", &[("app", "a")]), constraints()), RESERVED);
    let request = PlaceRequest {
        // The zones are as full as the constraints allow, unless reservations are released.
        node_checks: NodeChecks::SpreadOnly as i32,
        ..hold_of(template, 2, Duration::from_secs(3_000))
    };
    let placed = match client.place(request.clone()).await {
        Ok(placed) => placed.into_inner(),
        Err(status) if is_gone(&status) => return None,
        Err(status) => panic!("{status}"),
    };
    let picks: Picks = placed
        .placements
        .into_iter()
        .map(|pick| (pick.reservation_id, pick.node))
        .collect();
    expire(client).await;
    picks.first()?;
    let moved = Moved::Reserved(Box::new(request), picks.clone());
    shared.note(placed.epoch, placed.revision, moved);
    Some(picks)
}

/// Confirms a reservation, and sends the pod that it was for.
async fn confirm(client: &mut Client, shared: &Shared, pick: &(String, String), number: usize) {
    let (id, node) = pick;
    let name = format!("became-{number}");
    let request = confirm_of(id, &name, "");
    let Ok(confirmed) = client.confirm_reservations(request).await else {
        return;
    };
    if !confirmed.into_inner().unknown_ids.is_empty() {
        return;
    }
    shared.confirmed(id.clone(), &name);
    let became = within(on(pod(&name, &[("app", "a")]), node), RESERVED);
    let moved = Moved::Batch(vec![became.change()]);
    update(client, shared, moved).await;
}

/// Releases reservations.
async fn release(client: &mut Client, shared: &Shared, picks: Picks) {
    let ids: Vec<String> = picks.into_iter().map(|(id, _)| id).collect();
    let request = release_of(ids.clone());
    let Ok(released) = client.release_reservations(request).await else {
        return;
    };
    let released = released.into_inner();
    let known = |id: &String| !released.unknown_ids.contains(id);
    let known: Vec<String> = ids.iter().filter(|id| known(id)).cloned().collect();
    if !known.is_empty() {
        shared.note(released.epoch, released.revision, Moved::Released(known));
    }
}

/// A node with room for all reservations that expire.
fn apart() -> Node {
    having(node(APART, &[]), &[("pods", "1000000")])
}

/// Makes a reservation that expires soon, in a namespace that no question is about: its end moves
/// the revision on, and changes no answer.
async fn expire(client: &mut Client) {
    let template = within(pod("", &[("app", "z")]), "elsewhere");
    let request = PlaceRequest {
        candidates: Some(NodeNames {
            names: vec![APART.into()],
        }),
        ..hold_of(template, 1, Duration::from_millis(20))
    };
    // There may be no snapshot now.
    let _ = client.place(request).await;
}

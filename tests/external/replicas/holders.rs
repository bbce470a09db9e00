//! Clients of a fleet with faults. No reservation ends before its time by the clock of its holder,
//! a request with an id is placed once, and no server answers from an older revision than before.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use evenkeel::proto::v1::{PlaceRequest, PlaceResponse, ReleaseReservationsRequest, Reservation};
use futures::future::join_all;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::replicas::build::{node, place_of, pod};
use crate::replicas::fleet::{Client, Fleet, batch, described, insist, put_node, update};

/// The snapshot in which reservations are held and released, but never confirmed.
const HOLDS: &str = "holds";

/// The time that a reservation is held.
const TTL: Duration = Duration::from_secs(45);

/// The longest time that the description of a snapshot may take.
const LOOK: Duration = Duration::from_secs(2);

/// The faults that these clients have seen.
#[derive(Default)]
pub(crate) struct Seen {
    faults: Mutex<Vec<String>>,
    is_over: AtomicBool,
}

impl Seen {
    fn note(&self, fault: String) {
        println!("fault: {fault}");
        self.faults.lock().push(fault);
    }

    fn goes_on(&self) -> bool {
        !self.is_over.load(Ordering::Relaxed)
    }

    /// Ends all these clients, and returns the faults that they have seen.
    pub(crate) fn end(&self) -> Vec<String> {
        self.is_over.store(true, Ordering::Relaxed);
        self.faults.lock().clone()
    }
}

/// Watches all servers and holds reservations until [`Seen::end`]. This runs on a thread of its
/// own, because starting a server blocks the thread of the test.
pub(crate) fn look_on(seen: &Arc<Seen>, clients: &[Client], seed: u64) -> JoinHandle<()> {
    let (seen, clients) = (Arc::clone(seen), clients.to_vec());
    let runtime = Handle::current();
    tokio::task::spawn_blocking(move || {
        let looking = clients.iter().cloned().enumerate().map(async |of| {
            let holding = hold(&seen, &clients, seed.wrapping_add(of.0 as u64));
            futures::future::join(watch(&seen, of), holding).await;
        });
        runtime.block_on(join_all(looking));
    })
}

/// Asks a server for a snapshot all the time. Notes a fault if the epoch changes or the revision
/// goes back.
async fn watch(seen: &Seen, (number, mut client): (usize, Client)) {
    let mut last: Option<(String, i64)> = None;
    while seen.goes_on() {
        sleep(Duration::from_millis(100)).await;
        let Ok(Ok(now)) = timeout(LOOK, described(&mut client, "default")).await else {
            continue;
        };
        if let Some((epoch, revision)) = &last {
            if *epoch != now.epoch {
                seen.note(format!("server {number} is in another epoch"));
            } else if now.revision < *revision {
                let now = now.revision;
                seen.note(format!(
                    "server {number} answers with {now} after {revision}"
                ));
            }
        }
        // Before the first record of a snapshot, each server has an epoch of its own for it.
        last = Some((now.epoch, now.revision)).filter(|(_, revision)| *revision > 0);
    }
}

/// Puts the node on which reservations are held.
pub(crate) async fn prepare(fleet: &Fleet) {
    let clients = fleet.clients();
    update(&clients, 0, &batch(HOLDS, vec![put_node(node("n", &[]))])).await;
    fleet.agree(HOLDS).await;
}

/// Makes a reservation, repeats its request and releases it, again and again, each time at any
/// server.
async fn hold(seen: &Seen, clients: &[Client], seed: u64) {
    let mut dice = fastrand::Rng::with_seed(seed);
    let mut number = 0;
    while seen.goes_on() {
        number += 1;
        let request = PlaceRequest {
            snapshot: HOLDS.to_owned(),
            reserve: Some(Reservation {
                owner: "holder".to_owned(),
                ttl: Some(TTL.into()),
            }),
            request_id: format!("holder-{seed}-{number}"),
            ..place_of(pod("", &[]), 1)
        };
        let asked = Instant::now();
        let first = place(clients, &mut dice, &request).await;
        sleep(Duration::from_millis(dice.u64(..20_000))).await;
        let again = place(clients, &mut dice, &request).await;
        if asked.elapsed() < TTL && ids(&first) != ids(&again) {
            let (first, again) = (ids(&first), ids(&again));
            seen.note(format!("a request was placed twice: {first:?}, {again:?}"));
        }
        sleep(Duration::from_millis(dice.u64(..20_000))).await;
        let request = ReleaseReservationsRequest {
            snapshot: HOLDS.to_owned(),
            ids: ids(&again),
        };
        let call = async |mut client: Client| {
            let answer = client.release_reservations(request.clone()).await?;
            Ok(answer.into_inner())
        };
        let server = dice.usize(..clients.len());
        let (released, tries) = insist(clients, server, "release", call).await;
        // A try that was not answered may have released the reservation.
        if tries == 1 && asked.elapsed() < TTL && !released.unknown_ids.is_empty() {
            let (after, ids) = (asked.elapsed(), released.unknown_ids);
            seen.note(format!("{ids:?} had ended after {after:?}"));
        }
    }
}

fn ids(placed: &PlaceResponse) -> Vec<String> {
    let picks = placed.placements.iter();
    picks.map(|pick| pick.reservation_id.clone()).collect()
}

async fn place(
    clients: &[Client],
    dice: &mut fastrand::Rng,
    request: &PlaceRequest,
) -> PlaceResponse {
    let call = async |mut client: Client| Ok(client.place(request.clone()).await?.into_inner());
    let server = dice.usize(..clients.len());
    insist(clients, server, "place", call).await.0
}

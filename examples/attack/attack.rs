//! One attack: what runs, until when, and what came of it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Result;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::held::{HELD, Held};
use super::pods::Scale;
use super::questions::{self, Hostile};
use super::request::{Request, client, outcome, small};

/// The time that an attacker waits for its last answer, when the attack is over. All
/// attacks together end within ten minutes.
const GRACE: Duration = Duration::from_secs(2);

/// No two tries of a run have the same.
static SALT: AtomicUsize = AtomicUsize::new(1);

/// The context that attackers share.
pub struct Context {
    /// Where the server listens.
    pub address: String,
    /// The size of their questions.
    pub scale: Scale,
    /// When they end.
    pub end: Instant,
    outcomes: Mutex<BTreeMap<String, usize>>,
}

/// An attack on a server.
pub enum Attack {
    /// Nothing.
    Nothing,
    /// Small questions, as fast as they are answered.
    Ordinary,
    /// Hostile questions, as fast as they are answered.
    Questions(Hostile),
    /// Something that is begun and held.
    Held(Held),
}

/// All attacks, after two that are none.
pub fn all() -> Vec<Attack> {
    let questions = questions::all().into_iter().map(Attack::Questions);
    let held = HELD.into_iter().map(Attack::Held);
    let harmless = [Attack::Nothing, Attack::Ordinary];
    harmless.into_iter().chain(questions).chain(held).collect()
}

impl Attack {
    /// Returns what it is called.
    pub fn name(&self) -> &str {
        match self {
            Self::Nothing => "nothing",
            Self::Ordinary => "small Filters",
            Self::Questions(hostile) => &hostile.name,
            Self::Held((name, _)) => name,
        }
    }

    /// Runs it to its end, from so many clients at once.
    pub async fn run(self, it: Arc<Context>, clients: usize) -> Result<()> {
        match self {
            Self::Nothing => tokio::time::sleep_until(it.end).await,
            Self::Ordinary => {
                ask(it, clients, |_, _| Request::Filter(small())).await?;
            }
            Self::Questions(hostile) => ask(it, clients, hostile.make).await?,
            Self::Held((_, run)) => run(it).await?,
        }
        Ok(())
    }
}

/// Asks questions of a kind from so many connections.
async fn ask(
    it: Arc<Context>,
    clients: usize,
    make: impl Fn(&Scale, usize) -> Request + Send + Sync + 'static,
) -> Result<()> {
    let make = Arc::new(make);
    let mut all = JoinSet::new();
    for _ in 0..clients {
        let (it, make) = (Arc::clone(&it), Arc::clone(&make));
        let mut client = client(&it.address);
        all.spawn(async move {
            while !it.is_over() {
                let request = make(&it.scale, it.salt());
                match timeout_at(it.end + GRACE, request.ask(&mut client)).await {
                    Ok(Ok(())) => it.note("answered"),
                    Ok(Err(status)) => it.note(&outcome(&status)),
                    Err(_) => it.note("given up at the end"),
                }
            }
        });
    }
    while let Some(ended) = all.join_next().await {
        ended?;
    }
    Ok(())
}

impl Context {
    /// Of an attack that ends after a while.
    pub fn new(address: &str, scale: Scale, lasts: Duration) -> Arc<Self> {
        Arc::new(Self {
            address: address.to_owned(),
            scale,
            end: Instant::now() + lasts,
            outcomes: Mutex::default(),
        })
    }

    /// A number that no try had before.
    pub fn salt(&self) -> usize {
        SALT.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns whether it is time to end.
    pub fn is_over(&self) -> bool {
        Instant::now() >= self.end
    }

    /// Counts what came of a try.
    pub fn note(&self, outcome: &str) {
        let mut outcomes = self.outcomes.lock().expect("no holder panics");
        *outcomes.entry(outcome.to_owned()).or_default() += 1;
    }

    /// Returns what came of the tries, and how many of each.
    pub fn outcomes(&self) -> BTreeMap<String, usize> {
        self.outcomes.lock().expect("no holder panics").clone()
    }
}

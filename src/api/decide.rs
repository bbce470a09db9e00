//! How `Filter`, `Score` and `Explain` are decided: at once where that is
//! short, which it is as a rule, and else beside the threads that serve.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout};
use tonic::Response;

use super::decision::ValidDecision;
use super::dialect::{Dialect, Terms};
use super::error::Error;
use super::lanes::Lanes;
use super::measured::{Answer, try_measured};
use crate::snapshot::{Batch, Delay, ReadView, Snapshot};

/// How long a decision that something holds up waits for it here, each time in
/// milliseconds: batches take no longer as a rule. What waits longer takes a
/// thread for it.
const HELD_WAITS_MS: [u64; 5] = [1, 2, 4, 8, 16];

/// How long a decision may take.
#[derive(Clone, Copy)]
enum Pace<'a> {
    /// So short that other calls can wait for it. What would take longer is
    /// not answered.
    AtOnce,
    /// As short, once whoever changes what it reads is done.
    Soon,
    /// As long as it needs, until this says that nobody waits for it.
    Aside(&'a dyn Fn() -> bool),
}

/// A decision to be made.
pub struct Deciding<A> {
    /// What is asked.
    pub request: ValidDecision,
    /// What it is asked of.
    pub on: Arc<Snapshot>,
    /// How it is answered.
    pub answer: fn(&dyn Dialect, &Terms, &ReadView<'_>) -> A,
}

impl<A: Answer + Send + 'static> Deciding<A> {
    /// Decides: here if it is over at once, which most are.
    ///
    /// # Errors
    /// [`Error::OverLimit`], [`Error::Deadline`].
    pub async fn decide(
        mut self,
        lanes: &Lanes,
        deadline: Option<Instant>,
    ) -> Result<Response<A>, Error> {
        let mut answered = self.answer(Pace::AtOnce);
        for wait in HELD_WAITS_MS {
            if answered.as_ref().err() != Some(&Delay::Held) {
                break;
            }
            // Listening starts before looking, so that no move is missed.
            let on = Arc::clone(&self.on);
            let moved = on.moved();
            answered = self.answer(Pace::AtOnce);
            if answered.is_err() {
                // Not all that holds it moves it.
                let _ = timeout(Duration::from_millis(wait), moved).await;
                answered = self.answer(Pace::AtOnce);
            }
        }
        match answered {
            Ok(answered) => Ok(answered),
            Err(Delay::Held) => self.decide_soon(lanes, deadline).await,
            Err(Delay::Long) => self.decide_aside(lanes, deadline).await,
        }
    }

    /// Decides, after somebody who changes what it reads. It is small, so it
    /// does not queue up behind what takes long.
    async fn decide_soon(
        mut self,
        lanes: &Lanes,
        deadline: Option<Instant>,
    ) -> Result<Response<A>, Error> {
        let run = move || {
            let answered = self.answer(Pace::Soon);
            answered.map_err(|_| Box::new(self))
        };
        match lanes.wait(deadline, run).await? {
            Ok(answered) => Ok(answered),
            Err(left) => left.decide_aside(lanes, deadline).await,
        }
    }

    /// Decides what takes long for sure.
    ///
    /// # Errors
    /// As for [`Self::decide`].
    pub async fn decide_aside(
        mut self,
        lanes: &Lanes,
        deadline: Option<Instant>,
    ) -> Result<Response<A>, Error> {
        let run = move |is_given_up: &dyn Fn() -> bool| {
            let answered = self.answer(Pace::Aside(is_given_up));
            answered.map_err(|_| Error::Deadline)
        };
        lanes.decide(deadline, run).await?
    }

    fn answer(&mut self, pace: Pace<'_>) -> Result<Response<A>, Delay> {
        let on = Arc::clone(&self.on);
        try_measured(&on, || self.read(&on, pace))
    }

    /// Answers on one read view of the snapshot, with the overlay applied.
    fn read(&mut self, on: &Snapshot, pace: Pace<'_>) -> Result<A, Delay> {
        let overlay = match pace {
            Pace::Aside(_) => std::mem::take(&mut self.request.overlay),
            _ => Batch::default(),
        };
        let request = &self.request;
        let namespace = &request.question.pod().namespace;
        let answer =
            |read_view: &ReadView<'_>| (self.answer)(&*request.question, &request.terms, read_view);
        match pace {
            Pace::Aside(is_given_up) => {
                on.read_until(namespace, overlay, is_given_up, |read_view| {
                    answer(&read_view)
                })
            }
            // With changes of its own it takes long.
            Pace::AtOnce | Pace::Soon if !request.overlay.is_empty() => Err(Delay::Long),
            Pace::AtOnce | Pace::Soon => {
                let afforded = |read_view: ReadView<'_>| {
                    let affords = read_view.affords(request.units(&read_view));
                    affords.then(|| answer(&read_view))
                };
                let waits = matches!(pace, Pace::Soon);
                let answered = on.read_at_once(namespace, waits, afforded)?;
                answered.ok_or(Delay::Long)
            }
        }
    }
}

//! How `Filter`, `Score` and `Explain` are decided: at once where that is
//! short, as it usually is, otherwise on a thread beside those that serve.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout};
use tonic::Response;

use super::decision::ValidDecision;
use super::dialect::{DecisionTerms, Dialect};
use super::error::Error;
use super::lanes::Lanes;
use super::measured::{MeasuredAnswer, try_measured};
use super::slots::CallerKey;
use crate::snapshot::{Attempt, Batch, Delay, ReadView, Snapshot};

/// How long a decision waits here for a lock that is held, each time in
/// milliseconds. Most batches take no longer. A decision that has to wait
/// longer gets a thread of its own.
const HELD_WAITS_MS: [u64; 5] = [1, 2, 4, 8, 16];

/// How long a decision may take.
#[derive(Clone, Copy)]
enum DecisionPace<'a> {
    /// It must be so short that other calls can wait for it. A longer decision
    /// is not answered.
    Short(Attempt),
    /// As long as it needs, until this says that nobody waits for the answer.
    Aside(&'a dyn Fn() -> bool),
}

/// A decision to be made.
pub struct Deciding<A> {
    /// What is asked.
    pub request: ValidDecision,
    /// What it is asked of.
    pub on: Arc<Snapshot>,
    /// How it is answered.
    pub answer: fn(&dyn Dialect, &DecisionTerms, &ReadView<'_>) -> A,
}

impl<A: MeasuredAnswer + Send + 'static> Deciding<A> {
    /// Decides here if that is short, which most decisions are.
    ///
    /// # Errors
    /// [`Error::OverLimit`], [`Error::Deadline`].
    pub async fn decide(
        mut self,
        lanes: &Lanes,
        who: &CallerKey,
        deadline: Option<Instant>,
    ) -> Result<Response<A>, Error> {
        match self.at_once() {
            Ok(answered) => Ok(answered),
            Err(delay) => self.decide_after(delay, lanes, who, deadline).await,
        }
    }

    /// Decides here and now.
    ///
    /// # Errors
    /// Why that is not possible.
    pub fn at_once(&mut self) -> Result<Response<A>, Delay> {
        self.answer(DecisionPace::Short(Attempt::First))
    }

    /// Decides what was not possible [at once](Self::at_once).
    ///
    /// # Errors
    /// As for [`Self::decide`].
    pub async fn decide_after(
        mut self,
        delay: Delay,
        lanes: &Lanes,
        who: &CallerKey,
        deadline: Option<Instant>,
    ) -> Result<Response<A>, Error> {
        let mut answered = Err(delay);
        for wait in HELD_WAITS_MS {
            if answered.as_ref().err() != Some(&Delay::Held) {
                break;
            }
            // Start to listen before looking, so that no move is missed.
            let on = Arc::clone(&self.on);
            let moved = on.moved();
            answered = self.answer(DecisionPace::Short(Attempt::Repeated));
            if answered.as_ref().err() == Some(&Delay::Held) {
                // The lock may be held by a change that does not move the
                // snapshot.
                let _ = timeout(Duration::from_millis(wait), moved).await;
            }
        }
        if answered.as_ref().err() == Some(&Delay::Held) {
            answered = self.answer(DecisionPace::Short(Attempt::Repeated));
        }
        match answered {
            Ok(answered) => Ok(answered),
            Err(Delay::Held) => self.decide_soon(lanes, who, deadline).await,
            Err(Delay::Long | Delay::Full(_)) => self.decide_aside(lanes, who, deadline).await,
        }
    }

    /// Decides after the change that holds the lock. The decision is small, so
    /// it does not queue behind long ones.
    async fn decide_soon(
        mut self,
        lanes: &Lanes,
        who: &CallerKey,
        deadline: Option<Instant>,
    ) -> Result<Response<A>, Error> {
        let run = move || {
            let answered = self.answer(DecisionPace::Short(Attempt::Waiting));
            answered.map_err(|_| Box::new(self))
        };
        match lanes.wait(deadline, run).await? {
            Ok(answered) => Ok(answered),
            Err(left) => left.decide_aside(lanes, who, deadline).await,
        }
    }

    async fn decide_aside(
        self,
        lanes: &Lanes,
        who: &CallerKey,
        deadline: Option<Instant>,
    ) -> Result<Response<A>, Error> {
        self.decide_and_write_aside(lanes, who, deadline, |answer| answer)
            .await
    }

    /// Decides on a thread for long work, and writes the answer there.
    ///
    /// # Errors
    /// As for [`Self::decide`].
    pub async fn decide_and_write_aside<W: Send + 'static>(
        mut self,
        lanes: &Lanes,
        who: &CallerKey,
        deadline: Option<Instant>,
        write: impl FnOnce(Response<A>) -> W + Send + 'static,
    ) -> Result<W, Error> {
        let run = move |is_given_up: &dyn Fn() -> bool| {
            let answered = self.answer(DecisionPace::Aside(is_given_up));
            answered.map(write).map_err(Error::of_aside)
        };
        lanes.decide(who, deadline, run).await?
    }

    /// Decides on a read view of the snapshot.
    pub fn on_view(&self, read_view: &ReadView<'_>) -> Response<A> {
        let Ok(answer) = try_measured::<_, Infallible>(&self.on, || Ok(self.write(read_view)));
        answer
    }

    fn write(&self, read_view: &ReadView<'_>) -> A {
        let (question, terms) = (&**self.request.question, &self.request.terms);
        (self.answer)(question, terms, read_view)
    }

    fn answer(&mut self, pace: DecisionPace<'_>) -> Result<Response<A>, Delay> {
        let on = Arc::clone(&self.on);
        try_measured(&on, || self.read(&on, pace))
    }

    /// Answers on one read view of the snapshot, with the overlay applied.
    fn read(&mut self, on: &Snapshot, pace: DecisionPace<'_>) -> Result<A, Delay> {
        let overlay = match pace {
            DecisionPace::Aside(_) => std::mem::take(&mut self.request.overlay),
            _ => Batch::default(),
        };
        let request = &self.request;
        let namespace = &request.question.pod().namespace;
        let answer = |read_view: &ReadView<'_>| self.write(read_view);
        match pace {
            DecisionPace::Aside(is_given_up) => {
                on.read_until(namespace, overlay, is_given_up, |read_view| {
                    answer(&read_view)
                })
            }
            // A decision with an overlay takes long.
            DecisionPace::Short(_) if !request.overlay.is_empty() => Err(Delay::Long),
            DecisionPace::Short(attempt) => {
                let afforded = |read_view: ReadView<'_>| {
                    let affords = read_view.affords(request.units(&read_view));
                    affords.then(|| answer(&read_view))
                };
                let answered = on.read_at_once(namespace, attempt, afforded)?;
                answered.ok_or(Delay::Long)
            }
        }
    }
}

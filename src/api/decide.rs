//! A valid `Filter`, `Score` or `Explain` request, and its decision. Most decisions are short and
//! run at once; a longer one runs on a thread beside those that serve.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use tonic::Response;

use super::dialect::{DecisionTerms, Dialect};
use super::error::Error;
use super::executor::Executor;
use super::kept_questions::CompiledQuestion;
use super::noted::{MeasuredAnswer, try_measured};
use super::pod_request::DecisionFields;
use super::read_your_writes::AskedSnapshot;
use super::request;
use super::request_context::RequestContext;
use crate::matching::{Path, Violations};
use crate::proto::v1;
use crate::snapshot::{Attempt, Batch, Limits, Reach, ReadView, Snapshot, Stopped};

/// The times that a decision waits here for a lock, one after the other, in milliseconds. Most
/// batches hold the lock no longer. A decision that has to wait longer gets a thread of its own.
const HELD_WAITS_MS: [u64; 5] = [1, 2, 4, 8, 16];

/// The most pairs of an entry of a question and an object that it can reach, with which the
/// question is decided where it arrives.
const SMALL: usize = 2_000_000;

/// The most waiting pods that an explanation looks at.
const MOST_WAITING: i32 = 1_000;

/// A valid request about one pod.
#[derive(Debug)]
pub struct ValidDecision {
    /// The snapshot, and the revision to wait for.
    pub asked: AskedSnapshot,
    /// The pod.
    pub question: Arc<CompiledQuestion>,
    /// The nodes and checks of the decision, and the extent of the answer.
    pub terms: DecisionTerms,
    /// Changes that the decision assumes.
    pub overlay: Batch,
    /// An upper bound of the entries of all lists of the request.
    entries: usize,
}

impl ValidDecision {
    /// Checks a request whose pod is already compiled. Its lists have at most this many entries.
    ///
    /// # Errors
    /// Every fault of the request, with those of the pod.
    pub fn of(
        wire: DecisionFields,
        question: Result<Arc<CompiledQuestion>, Violations>,
        entries: usize,
        limits: &Limits,
    ) -> Result<Self, Error> {
        let mut faults = Violations::default();
        let snapshot = request::snapshot_name(&wire.snapshot, Path::root("snapshot"), &mut faults);
        let question = faults.collect(question);
        request::check_candidates(wire.candidates.as_ref(), limits, &mut faults);
        let checks = request::node_checks(wire.node_checks, &mut faults);
        let view = request::known(wire.view, Path::root("view"), &mut faults);
        let _: v1::Dialect = request::known(wire.dialect, Path::root("dialect"), &mut faults);
        let asked = AskedSnapshot::of(snapshot, wire.min_revision, wire.epoch, limits, &mut faults)
            .and_read(wire.min_resource_versions, &mut faults);
        request::check_not_negative(wire.top.into(), Path::root("top"), &mut faults);
        request::check_not_negative(wire.waiting.into(), Path::root("waiting"), &mut faults);
        let max_domains = request::max_domains(wire.max_domains, &mut faults);
        let overlay = request::overlay(wire.overlay, limits, &mut faults);
        let Some(question) = question else {
            return Err(faults.into());
        };
        let terms = DecisionTerms {
            checks,
            view,
            max_domains,
            top: usize::try_from(wire.top).ok().filter(|top| *top > 0),
            candidates: wire.candidates,
            waiting: usize::try_from(wire.waiting.clamp(1, MOST_WAITING)).unwrap_or(1),
        };
        Ok(faults.finish(Self {
            asked,
            question,
            terms,
            overlay,
            entries,
        })?)
    }

    /// Returns whether the decision is so small that other calls can wait for it: few entries of
    /// its lists meet few objects.
    fn is_small(&self, read_view: &ReadView<'_>) -> bool {
        let uses_storage = !self.question.pod().storage.is_empty();
        let defaults = read_view.defaults.constraints.len();
        let entries = self.entries.saturating_add(defaults);
        entries.saturating_mul(read_view.objects(uses_storage)) <= SMALL
    }
}

/// A function that decides and writes the answer.
pub type AnswerBy<A> = fn(&dyn Dialect, &DecisionTerms, &ReadView<'_>) -> Result<A, Stopped>;

/// A decision that is to be made.
pub struct Deciding<A> {
    /// The question.
    pub request: ValidDecision,
    /// The snapshot that is asked.
    pub on: Arc<Snapshot>,
    /// The function that decides and writes the answer.
    pub answer: AnswerBy<A>,
}

impl<A: MeasuredAnswer + Send + 'static> Deciding<A> {
    /// Decides here if the decision is short, as most are.
    ///
    /// # Errors
    /// [`Error::OverLimit`], [`Error::Deadline`].
    pub async fn decide(
        self,
        executor: &Executor,
        by: &RequestContext,
    ) -> Result<Response<A>, Error> {
        match self.at_once(Attempt::First) {
            Ok(answered) => Ok(answered),
            Err(stopped) => self.decide_after(stopped, executor, by).await,
        }
    }

    /// Decides here and now, if the decision has to wait for nothing and is so short that other
    /// calls can wait for it.
    ///
    /// # Errors
    /// The reason why that is not possible.
    pub fn at_once(&self, attempt: Attempt) -> Result<Response<A>, Stopped> {
        // A decision with an overlay, or on several namespaces, takes long.
        if !self.request.overlay.is_empty() || !self.reach().is_within() {
            return Err(Stopped::Large);
        }
        try_measured(&self.on, || {
            let small = |read_view: ReadView<'_>| match self.request.is_small(&read_view) {
                true => self.write(&read_view),
                false => Err(Stopped::Large),
            };
            let namespace = self.reach().namespace;
            self.on.read_at_once(namespace, attempt, small)
        })
    }

    /// Makes a decision that was not possible [at once](Self::at_once).
    ///
    /// # Errors
    /// As for [`Self::decide`].
    pub async fn decide_after(
        self,
        mut stopped: Stopped,
        executor: &Executor,
        by: &RequestContext,
    ) -> Result<Response<A>, Error> {
        let mut waits = HELD_WAITS_MS.into_iter();
        while stopped == Stopped::Held {
            // Listen before looking, so that no move is missed.
            let moved = self.on.moved();
            match self.at_once(Attempt::Repeated) {
                Ok(answered) => return Ok(answered),
                Err(again) => stopped = again,
            }
            let (Stopped::Held, Some(wait)) = (&stopped, waits.next()) else {
                break;
            };
            // The lock may be held by a change that does not move the snapshot.
            let _ = timeout(Duration::from_millis(wait), moved).await;
        }
        match stopped {
            Stopped::Held => self.decide_soon(executor, by).await,
            _ => self.decide_aside(executor, by, |answer| answer).await,
        }
    }

    /// Decides after the change that holds the lock. The decision is small, so
    /// it does not queue behind long ones.
    async fn decide_soon(
        self,
        executor: &Executor,
        by: &RequestContext,
    ) -> Result<Response<A>, Error> {
        let run = move || {
            let answered = self.at_once(Attempt::Waiting);
            answered.map_err(|_| Box::new(self))
        };
        match executor.wait(by, run).await? {
            Ok(answered) => Ok(answered),
            Err(left) => left.decide_aside(executor, by, |answer| answer).await,
        }
    }

    /// Decides on a thread for long work, with the overlay applied, and writes the
    /// answer there.
    ///
    /// # Errors
    /// As for [`Self::decide`].
    pub async fn decide_aside<W: Send + 'static>(
        mut self,
        executor: &Executor,
        by: &RequestContext,
        write: impl FnOnce(Response<A>) -> W + Send + 'static,
    ) -> Result<W, Error> {
        let run = move |is_given_up: &dyn Fn() -> bool| {
            let overlay = std::mem::take(&mut self.request.overlay);
            let answered = try_measured(&self.on, || {
                let answer = |read_view: ReadView<'_>| self.write(&read_view);
                (self.on).read_until(self.reach(), overlay, is_given_up, answer)
            });
            answered.map(write).map_err(Error::from)
        };
        executor.decide(by, run).await?
    }

    /// Decides on a read view of the snapshot.
    pub fn on_view(&self, read_view: &ReadView<'_>) -> Result<Response<A>, Stopped> {
        try_measured(&self.on, || self.write(read_view))
    }

    /// The namespaces that the decision reads.
    pub fn reach(&self) -> Reach<'_> {
        self.request.question.pod().reach()
    }

    fn write(&self, read_view: &ReadView<'_>) -> Result<A, Stopped> {
        (self.answer)(&**self.request.question, &self.request.terms, read_view)
    }
}

//! A valid `Filter`, `Score` or `Explain` request, and its decision. Most decisions are short and
//! run at once; a longer one runs on a thread beside those that serve.

use std::sync::Arc;

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
use crate::snapshot::{Batch, Limits, Reach, ReadView, Snapshot, State, Stopped};

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
        match self.at_once(&self.on.state()) {
            Ok(answered) => Ok(answered),
            Err(_) => self.decide_aside(executor, by, |answer| answer).await,
        }
    }

    /// Decides on a state here and now, if the decision is so short that other calls can wait for
    /// it.
    ///
    /// # Errors
    /// The reason why that is not possible.
    pub fn at_once(&self, state: &State) -> Result<Response<A>, Stopped> {
        // A decision with an overlay, or on several namespaces, takes long.
        if !self.request.overlay.is_empty() || !self.reach().is_within() {
            return Err(Stopped::Large);
        }
        try_measured(&self.on, || {
            let small = |read_view: ReadView<'_>| match self.request.is_small(&read_view) {
                true => self.write(&read_view),
                false => Err(Stopped::Large),
            };
            state.decide_at_once(self.reach().namespace, small)
        })
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

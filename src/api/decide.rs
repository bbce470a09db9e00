//! A valid `Filter`, `Score` or `Explain` request, and its decision. Most decisions are short and
//! run at once; a longer one runs on a thread beside those that serve.

use std::convert::Infallible;
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
use crate::snapshot::{Batch, Delay, Limits, Reach, ReadView, Snapshot, State};

/// The cost of looking up a candidate, in units.
const UNITS_PER_CANDIDATE: usize = 40;

/// The cost of listing a node or a domain, in units.
const UNITS_PER_NAME: usize = 8;

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
}

impl ValidDecision {
    /// Checks a request whose pod is already compiled.
    ///
    /// # Errors
    /// Every fault of the request, with those of the pod.
    pub fn of(
        wire: DecisionFields,
        question: Result<Arc<CompiledQuestion>, Violations>,
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
        })?)
    }

    /// Returns the cost of an answer after the counting, in units.
    pub fn units(&self, read_view: &ReadView<'_>) -> usize {
        let nodes = read_view.nodes.len();
        let (named, judged) = match &self.terms.candidates {
            Some(candidates) => (candidates.names.len(), candidates.names.len()),
            None => (0, nodes),
        };
        let constraints = self.question.constraint_count(read_view);
        let listed = match self.terms.view {
            v1::View::Full => judged.saturating_mul(3),
            _ if self.terms.lists_nodes() => judged,
            _ => judged >> usize::BITS.trailing_zeros(),
        };
        let domains = constraints.saturating_mul(self.terms.max_domains.min(nodes));
        let eighths = judged
            .saturating_mul(constraints)
            .saturating_mul(self.question.units_per_verdict());
        let names = listed.saturating_add(domains);
        named
            .saturating_mul(UNITS_PER_CANDIDATE)
            .saturating_add(names.saturating_mul(UNITS_PER_NAME))
            .saturating_add(eighths >> 3)
    }
}

/// A function that decides and writes the answer.
pub type AnswerBy<A> = fn(&dyn Dialect, &DecisionTerms, &ReadView<'_>) -> A;

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
    pub fn at_once(&self, state: &State) -> Result<Response<A>, Delay> {
        // A decision with an overlay, or on several namespaces, takes long.
        if !self.request.overlay.is_empty() || !self.reach().is_within() {
            return Err(Delay::Long);
        }
        try_measured(&self.on, || {
            let afforded = |read_view: ReadView<'_>| {
                let affords = read_view.affords(self.request.units(&read_view));
                affords.then(|| self.write(&read_view))
            };
            let answered = state.decide_at_once(self.reach().namespace, afforded)?;
            answered.ok_or(Delay::Long)
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
            answered.map(write).map_err(Error::of_aside)
        };
        executor.decide(by, run).await?
    }

    /// Decides on a read view of the snapshot.
    pub fn on_view(&self, read_view: &ReadView<'_>) -> Response<A> {
        let Ok(answer) = try_measured::<_, Infallible>(&self.on, || Ok(self.write(read_view)));
        answer
    }

    /// The namespaces that the decision reads.
    pub fn reach(&self) -> Reach<'_> {
        self.request.question.pod().reach()
    }

    fn write(&self, read_view: &ReadView<'_>) -> A {
        (self.answer)(&**self.request.question, &self.request.terms, read_view)
    }
}

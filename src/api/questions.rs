//! Questions about one pod: `Filter`, `Score` and `Explain`. Unary calls and the questions of a
//! stream are all checked and decided here. Most decisions are short and run at once; a longer one
//! runs on a thread beside those that serve.

use prost::Message;
use prost::bytes::Bytes;
use tonic::{Request, Response};

use super::answer::{ListedAnswer, Loggable, MeasuredAnswer, logged, try_measured};
use super::dialect::{self, DecisionTerms, Dialect};
use super::error::Error;
use super::read_your_writes::AskedSnapshot;
use super::request;
use super::request_context::{AboutSnapshot, OpenedCall, RequestContext, check_role, open_later};
use super::service::Service;
use crate::access::Role;
use crate::decision_log::{LoggedRequest, Pending};
use crate::matching::{Path, Violations};
use crate::proto::encoded::entries;
use crate::proto::v1;
use crate::snapshot::{Batch, ReadView, Snapshot, Stopped};

/// The most pairs of an entry of a question and an object that it can reach, with which the
/// question is decided where it arrives.
const SMALL: usize = 2_000_000;

/// The number of entries of a question that take as long as the name of a node in its answer.
const LISTED: usize = 64;

/// The most waiting pods that an explanation looks at.
const MOST_WAITING: i32 = 1_000;

/// A request as one to `Score`.
macro_rules! without_top {
    ($request:ident $(, $other:ident)?) => {{
        // All fields are named, so that none is forgotten.
        let Self {
            snapshot, pod, candidates, node_checks, view, min_revision, overlay, dialect,
            max_domains, epoch, min_resource_versions, $($other: _)?
        } = $request;
        v1::ScoreRequest {
            snapshot, pod, candidates, node_checks, view, min_revision, overlay, dialect,
            max_domains, epoch, min_resource_versions, top: 0,
        }
    }};
}

/// A request about one pod.
pub trait PodRequest: AboutSnapshot + Clone + Into<LoggedRequest> {
    /// The answer to the request.
    type Answer: Message + Clone + MeasuredAnswer + Loggable + 'static;

    /// The decision.
    const DECIDE: Decide<Self::Answer>;

    /// True if a decision looks at each node a few times at most.
    const IS_SHORT: bool = true;

    /// The request as one to `Score`, whose fields have the same meanings; without `top` where it
    /// has none.
    fn into_score(self) -> v1::ScoreRequest;

    /// The number of pods like this one that wait; 0 if the request does not say.
    fn waiting(&self) -> i32 {
        0
    }
}

/// Decides in a dialect, and answers.
type Decide<A> =
    fn(&dyn Dialect, &DecisionTerms, &ReadView<'_>) -> Result<ListedAnswer<A>, Stopped>;

impl PodRequest for v1::ScoreRequest {
    type Answer = v1::ScoreResponse;
    const DECIDE: Decide<Self::Answer> = |dialect, terms, view| dialect.score(terms, view);

    fn into_score(self) -> Self {
        self
    }
}

impl PodRequest for v1::FilterRequest {
    type Answer = v1::FilterResponse;
    const DECIDE: Decide<Self::Answer> = |dialect, terms, view| dialect.filter(terms, view);

    fn into_score(self) -> v1::ScoreRequest {
        without_top!(self)
    }
}

impl PodRequest for v1::ExplainRequest {
    type Answer = v1::ExplainResponse;
    const DECIDE: Decide<Self::Answer> =
        |dialect, terms, view| dialect.explain(terms, view).map(ListedAnswer::from);
    // It decides several times.
    const IS_SHORT: bool = false;

    fn into_score(self) -> v1::ScoreRequest {
        without_top!(self, waiting)
    }

    fn waiting(&self) -> i32 {
        self.waiting
    }
}

/// A valid request about one pod, and its place in the decision log.
pub(super) struct ValidDecision<A> {
    /// The snapshot, and the revision to wait for.
    pub(super) asked: AskedSnapshot,
    /// Changes that the decision assumes.
    pub(super) overlay: Batch,
    decide: Decide<A>,
    is_short: bool,
    /// The pod.
    question: Box<dyn Dialect>,
    /// The nodes and checks of the decision, and the extent of the answer.
    terms: DecisionTerms,
    /// An upper bound of the entries of all lists of the request.
    entries: usize,
    /// The queue that takes the record of the decision, if decisions are logged.
    pending: Option<Pending>,
}

impl Service {
    /// Answers a call about one pod.
    ///
    /// # Errors
    /// The reason why the request is refused.
    pub(super) async fn answer<M: PodRequest>(
        &self,
        request: Request<Bytes>,
    ) -> Result<Response<Bytes>, Error> {
        let OpenedCall { request, by } = open_later(request);
        let entries = entries(&request);
        let request = self.question(by.decode::<M>(request)?, entries, &by)?;
        self.decide(request, &by).await
    }

    /// Decides a valid question, once its snapshot has reached what the question asks for.
    ///
    /// # Errors
    /// The reason why the question is not answered.
    pub(super) async fn decide<A: Message + Clone + MeasuredAnswer + Loggable + 'static>(
        &self,
        mut request: ValidDecision<A>,
        by: &RequestContext,
    ) -> Result<Response<Bytes>, Error> {
        let on = self.reach(&request.asked, by.deadline).await?;
        if let Ok(answer) = request.at_once(&on) {
            return Ok(request.finish(answer));
        }
        let run = move |is_given_up: &dyn Fn() -> bool| {
            let overlay = std::mem::take(&mut request.overlay);
            let answer = |read_view: ReadView<'_>| request.on_view(&on, &read_view);
            let answered = on.read_until(request.namespace(), &overlay, is_given_up, answer)?;
            Ok(request.finish(answered))
        };
        self.executor.decide(by, run).await?
    }

    /// A valid question about one pod, by a caller that may ask it.
    ///
    /// # Errors
    /// The reason why the question is refused: every fault of the request, with those of the pod.
    pub(super) fn question<M: PodRequest>(
        &self,
        question: M,
        entries: usize,
        by: &RequestContext,
    ) -> Result<ValidDecision<M::Answer>, Error> {
        check_role(by.caller.as_ref(), Role::Reader, question.snapshot())?;
        by.look()?;
        let pending = self.begin(|| Some(question.clone()));
        let waiting = question.waiting();
        let wire = question.into_score();
        let limits = self.registry.limits();
        let mut faults = Violations::default();
        let asked = AskedSnapshot::of(&wire, limits, &mut faults);
        let pod = dialect::compile(wire.dialect, wire.pod, limits, Path::root("pod"));
        let pod = faults.collect(pod);
        request::check_candidates(wire.candidates.as_ref(), limits, &mut faults);
        let checks = request::node_checks(wire.node_checks, &mut faults);
        let view = request::known(wire.view, Path::root("view"), &mut faults);
        let _: v1::Dialect = request::known(wire.dialect, Path::root("dialect"), &mut faults);
        let asked = asked.and_read(wire.min_resource_versions, &mut faults);
        request::check_not_negative(wire.top.into(), Path::root("top"), &mut faults);
        request::check_not_negative(waiting.into(), Path::root("waiting"), &mut faults);
        let max_domains = request::max_domains(wire.max_domains, &mut faults);
        let overlay = request::overlay(wire.overlay, limits, by, &mut faults)?;
        let Some(pod) = pod else {
            return Err(faults.into());
        };
        let terms = DecisionTerms {
            checks,
            view,
            max_domains,
            top: usize::try_from(wire.top).ok().filter(|top| *top > 0),
            candidates: wire.candidates,
            waiting: usize::try_from(waiting.clamp(1, MOST_WAITING)).unwrap_or(1),
        };
        Ok(faults.finish(ValidDecision {
            asked,
            overlay,
            decide: M::DECIDE,
            is_short: M::IS_SHORT,
            question: pod,
            terms,
            entries,
            pending,
        })?)
    }
}

impl<A: Message + Clone + MeasuredAnswer + Loggable> ValidDecision<A> {
    /// Returns whether the decision is so small that other calls can wait for it: few entries of
    /// its lists meet few objects, and few nodes are named.
    fn is_small(&self, read_view: &ReadView<'_>) -> bool {
        let uses_storage = !self.question.pod().storage.is_empty();
        let defaults = read_view.defaults.constraints.len();
        let listed = match self.terms.lists_nodes() && self.terms.top.is_none() {
            true => LISTED,
            false => 0,
        };
        let entries = self.entries.saturating_add(defaults).saturating_add(listed);
        entries.saturating_mul(read_view.objects(uses_storage)) <= SMALL
    }

    /// Decides on a snapshot here and now, if the decision is so short that other calls can wait for
    /// it.
    ///
    /// # Errors
    /// The reason why that is not possible.
    fn at_once(&self, on: &Snapshot) -> Result<Response<ListedAnswer<A>>, Stopped> {
        // A decision with an overlay, or on several namespaces, takes long.
        let is_short = self.is_short && self.overlay.is_empty();
        if !is_short || self.question.pod().reads_others() {
            return Err(Stopped::Large);
        }
        let small = |read_view: ReadView<'_>| match self.is_small(&read_view) {
            true => self.on_view(on, &read_view),
            false => Err(Stopped::Large),
        };
        on.state().decide_at_once(self.namespace(), small)
    }

    /// Decides on a read view of a snapshot.
    pub(super) fn on_view(
        &self,
        on: &Snapshot,
        read_view: &ReadView<'_>,
    ) -> Result<Response<ListedAnswer<A>>, Stopped> {
        try_measured(on, || {
            (self.decide)(&*self.question, &self.terms, read_view)
        })
    }

    /// The namespace of the pod.
    pub(super) fn namespace(&self) -> &str {
        &self.question.pod().namespace
    }

    /// Logs the decision, if decisions are logged. Returns the whole answer.
    pub(super) fn finish(&mut self, answer: Response<ListedAnswer<A>>) -> Response<Bytes> {
        logged(self.pending.take(), answer).map(ListedAnswer::encode)
    }
}

//! Questions about one pod: `Filter`, `Score` and `Explain`. Unary calls and the questions of a
//! stream are all checked and decided here. Most decisions are short and run at once; a longer one
//! runs on a thread beside those that serve.

use std::pin::Pin;
use std::sync::Arc;

use prost::bytes::Bytes;
use tonic::{Request, Response};

use super::base::Service;
use super::dialect::{Checker, DecisionTerms, Dialect};
use super::error::Error;
use super::executor::Executor;
use super::noted::{logged, try_measured};
use super::read_your_writes::AskedSnapshot;
use super::request_context::{AboutSnapshot, OpenedCall, RequestContext, open_later};
use super::written::{PodMethod, Written};
use super::{permission, request};
use crate::access::Role;
use crate::decision_log::{LoggedRequest, Pending};
use crate::matching::{Path, Violations};
use crate::proto::encoded::entries;
use crate::proto::v1;
use crate::snapshot::{Batch, Reach, ReadView, Snapshot, State, Stopped};

/// The most pairs of an entry of a question and an object that it can reach, with which the
/// question is decided where it arrives.
const SMALL: usize = 2_000_000;

/// The most waiting pods that an explanation looks at.
const MOST_WAITING: i32 = 1_000;

/// A request about one pod.
pub trait PodRequest: AboutSnapshot + Clone + Into<LoggedRequest> {
    /// The method that takes the request.
    const METHOD: PodMethod;

    /// The request as one to `Score`, whose fields have the same meanings; without `top` where it
    /// has none.
    fn into_score(self) -> v1::ScoreRequest;

    /// The number of pods like this one that wait; 0 if the request does not say.
    fn waiting(&self) -> i32;
}

impl PodRequest for v1::ScoreRequest {
    const METHOD: PodMethod = PodMethod::Score;

    fn into_score(self) -> Self {
        self
    }

    fn waiting(&self) -> i32 {
        0
    }
}

macro_rules! without_top {
    ($($request:ident, $method:ident, $waits:expr $(, $other:ident)?;)*) => {$(
        impl PodRequest for v1::$request {
            const METHOD: PodMethod = PodMethod::$method;

            fn into_score(self) -> v1::ScoreRequest {
                // All fields are named, so that none is forgotten.
                let Self {
                    snapshot, pod, candidates, node_checks, view, min_revision, overlay, dialect,
                    max_domains, epoch, min_resource_versions, $($other: _)?
                } = self;
                v1::ScoreRequest {
                    snapshot, pod, candidates, node_checks, view, min_revision, overlay, dialect,
                    max_domains, epoch, min_resource_versions, top: 0,
                }
            }

            fn waiting(&self) -> i32 {
                $waits(self)
            }
        }
    )*};
}

without_top! {
    FilterRequest, Filter, |_: &Self| 0;
    ExplainRequest, Explain, |request: &Self| request.waiting, waiting;
}

impl PodMethod {
    /// Decides, and writes the answer.
    fn decide(
        self,
        question: &dyn Dialect,
        terms: &DecisionTerms,
        read_view: &ReadView<'_>,
    ) -> Result<Written, Stopped> {
        Ok(match self {
            Self::Filter => question.filter(terms, read_view)?.into(),
            Self::Score => question.score(terms, read_view)?.into(),
            Self::Explain => question.explain(terms, read_view)?.into(),
        })
    }
}

/// The answer of a question, or the future of it.
pub enum Answered {
    /// The answer came at once, as most do.
    Now(Response<Bytes>),
    /// The answer comes once the snapshot has reached the revision, or from another thread.
    Later(LaterAnswer),
}

/// The future of an answer.
pub type LaterAnswer = Pin<Box<dyn Future<Output = Result<Response<Bytes>, Error>> + Send>>;

impl Answered {
    /// The answer, awaited if needed.
    ///
    /// # Errors
    /// [`Error::OverLimit`], [`Error::Deadline`] and those of waiting for a revision.
    pub async fn wait(self) -> Result<Response<Bytes>, Error> {
        match self {
            Self::Now(answer) => Ok(answer),
            Self::Later(answer) => answer.await,
        }
    }
}

/// A valid request about one pod, and its place in the decision log.
#[derive(Debug)]
pub struct ValidDecision {
    /// The snapshot, and the revision to wait for.
    pub asked: AskedSnapshot,
    /// Changes that the decision assumes.
    pub overlay: Batch,
    method: PodMethod,
    /// The pod.
    question: Box<dyn Dialect>,
    /// The nodes and checks of the decision, and the extent of the answer.
    terms: DecisionTerms,
    /// An upper bound of the entries of all lists of the request.
    entries: usize,
    /// The queue that takes the record of the decision, if decisions are logged.
    pending: Option<Pending>,
}

/// A decision that is to be made.
pub struct Deciding {
    /// The question.
    pub request: ValidDecision,
    /// The snapshot that is asked.
    pub on: Arc<Snapshot>,
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
        let question = by.decode::<M>(request)?;
        self.ask(question, entries, &by)?.wait().await
    }

    /// Answers a question about one pod, whose lists have at most so many entries.
    ///
    /// # Errors
    /// The reason why the question is refused.
    pub(super) fn ask<M: PodRequest>(
        &self,
        question: M,
        entries: usize,
        by: &RequestContext,
    ) -> Result<Answered, Error> {
        let request = self.question(question, entries, by)?;
        let Some(on) = self.reached(&request.asked)? else {
            let (service, by) = (self.clone(), by.clone());
            return Ok(Answered::Later(Box::pin(async move {
                let on = service.reach(&request.asked, by.deadline).await?;
                let mut deciding = Deciding { request, on };
                match deciding.at_once(&deciding.on.state()) {
                    Ok(answer) => Ok(deciding.finish(answer)),
                    Err(_) => deciding.in_background(&service.executor, &by).await,
                }
            })));
        };
        let mut deciding = Deciding { request, on };
        Ok(match deciding.at_once(&deciding.on.state()) {
            Ok(answer) => Answered::Now(deciding.finish(answer)),
            Err(_) => {
                let (executor, by) = (self.executor.clone(), by.clone());
                Answered::Later(Box::pin(async move {
                    deciding.in_background(&executor, &by).await
                }))
            }
        })
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
    ) -> Result<ValidDecision, Error> {
        permission::allow(by.caller.as_ref(), Role::Reader, question.snapshot())?;
        by.look()?;
        let pending = self.begin(|| Some(question.clone()));
        let waiting = question.waiting();
        let wire = question.into_score();
        let limits = self.registry.limits();
        let mut faults = Violations::default();
        let pod = (Checker::of(wire.dialect).pod)(wire.pod, limits, Path::root("pod"));
        let snapshot = request::snapshot_name(&wire.snapshot, Path::root("snapshot"), &mut faults);
        let pod = faults.collect(pod);
        request::check_candidates(wire.candidates.as_ref(), limits, &mut faults);
        let checks = request::node_checks(wire.node_checks, &mut faults);
        let view = request::known(wire.view, Path::root("view"), &mut faults);
        let _: v1::Dialect = request::known(wire.dialect, Path::root("dialect"), &mut faults);
        let asked = AskedSnapshot::of(snapshot, wire.min_revision, wire.epoch, limits, &mut faults)
            .and_read(wire.min_resource_versions, &mut faults);
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
            method: M::METHOD,
            question: pod,
            terms,
            entries,
            pending,
        })?)
    }
}

impl ValidDecision {
    /// Returns whether the decision is so small that other calls can wait for it: few entries of
    /// its lists meet few objects.
    fn is_small(&self, read_view: &ReadView<'_>) -> bool {
        let uses_storage = !self.question.pod().storage.is_empty();
        let defaults = read_view.defaults.constraints.len();
        let entries = self.entries.saturating_add(defaults);
        entries.saturating_mul(read_view.objects(uses_storage)) <= SMALL
    }
}

impl Deciding {
    /// Decides on a state here and now, if the decision is so short that other calls can wait for
    /// it.
    ///
    /// # Errors
    /// The reason why that is not possible.
    pub fn at_once(&self, state: &State) -> Result<Response<Written>, Stopped> {
        let ValidDecision {
            method, overlay, ..
        } = &self.request;
        // An explanation decides several times. A decision with an overlay, or on several
        // namespaces, takes long, too.
        let is_short = *method != PodMethod::Explain && overlay.is_empty();
        if !is_short || !self.reach().is_within() {
            return Err(Stopped::Large);
        }
        let small = |read_view: ReadView<'_>| match self.request.is_small(&read_view) {
            true => self.on_view(&read_view),
            false => Err(Stopped::Large),
        };
        state.decide_at_once(self.reach().namespace, small)
    }

    /// Decides on a thread for long work, with the overlay applied, and writes the answer there.
    ///
    /// # Errors
    /// [`Error::OverLimit`], [`Error::Deadline`].
    async fn in_background(
        mut self,
        executor: &Executor,
        by: &RequestContext,
    ) -> Result<Response<Bytes>, Error> {
        let run = move |is_given_up: &dyn Fn() -> bool| {
            let overlay = std::mem::take(&mut self.request.overlay);
            let answer = |read_view: ReadView<'_>| self.on_view(&read_view);
            let answered = (self.on).read_until(self.reach(), overlay, is_given_up, answer)?;
            Ok(self.finish(answered))
        };
        executor.decide(by, run).await?
    }

    /// Decides on a read view of the snapshot.
    pub fn on_view(&self, read_view: &ReadView<'_>) -> Result<Response<Written>, Stopped> {
        let ValidDecision {
            method,
            question,
            terms,
            ..
        } = &self.request;
        try_measured(&self.on, || method.decide(&**question, terms, read_view))
    }

    /// The namespaces that the decision reads.
    pub fn reach(&self) -> Reach<'_> {
        self.request.question.pod().reach()
    }

    /// Logs the decision, if decisions are logged. Returns the whole answer.
    pub fn finish(&mut self, answer: Response<Written>) -> Response<Bytes> {
        logged(self.request.pending.take(), answer).map(Written::finish)
    }
}

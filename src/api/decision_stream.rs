//! A stream of questions. Each is asked as a call would be (`questions.rs`). Questions that can be
//! answered at once are answered while the stream is read.
//!
//! Nothing is read while the client does not take its answers, so a slow reader delays only itself.
//! Nor is anything read while a large step is decoded beside the threads that serve.

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant as Moment};

use futures::stream::FuturesUnordered;
use prost::Message;
use prost::bytes::Bytes;
use tokio::sync::oneshot;
use tokio::time::{Sleep, sleep_until};
use tokio_stream::Stream;
use tokio_util::sync::{CancellationToken, DropGuard, WaitForCancellationFutureOwned};
use tonic::{Response, Status, Streaming};

use super::base::Service;
use super::deadline;
use super::error::Error;
use super::executor::{LARGE_REQUEST, until};
use super::noted::Decision;
use super::questions::{Answered, PodRequest};
use super::request_context::{OpenedCall, RequestContext};
use crate::limits::{Exceeded, Limit};
use crate::matching::{Path, Violations};
use crate::proto::encoded::entries;
use crate::proto::v1;
use crate::proto::v1::decide_request::Step;
use crate::proto::v1::question::Ask;
use crate::tasks::OwnedTask;

/// The number of steps that a stream takes before other tasks have a turn.
pub(super) const STEPS_PER_TURN: usize = 64;

/// The names of questions of streams in metrics.
pub const STREAMED_METHODS: [&str; 3] = ["Decide.Filter", "Decide.Score", "Decide.Place"];

/// An observer of a stream, which is told of each question once it is answered.
pub trait ObserveQuestions: Send + Sync {
    /// Tells that a question of this method, which arrived at this moment, has its answer or its
    /// error.
    fn answered(&self, method: &str, arrived: Moment, ended: Result<Option<&Decision>, &Status>);
}

/// The observer of questions; an extension of the request of a stream.
#[derive(Clone)]
pub struct QuestionObserver(pub Arc<dyn ObserveQuestions>);

/// The answer of a question, or its error.
pub type QuestionOutcome = Result<Response<Bytes>, Status>;

/// Names an answer, and tells how to report it to the observer.
#[derive(Clone, Copy)]
pub struct AnswerTag {
    /// The id of the question.
    pub id: u64,
    /// The index of its method in [`STREAMED_METHODS`].
    method: usize,
    /// The moment of its arrival; known only if there is an observer.
    arrived: Option<Moment>,
}

impl AnswerTag {
    /// The number of the field that has the answer.
    fn answer_field(self) -> u32 {
        [2, 3, 4][self.method]
    }
}

pub type WaitingQuestions = Pin<Box<dyn Future<Output = Vec<(AnswerTag, QuestionOutcome)>> + Send>>;

/// A stream of answers.
pub struct DecisionStream {
    pub(super) service: Service,
    pub(super) by: RequestContext,
    observer: Option<QuestionObserver>,
    steps: Streaming<Bytes>,
    /// The questions that could not be answered at once.
    pub(super) waiting: FuturesUnordered<WaitingQuestions>,
    /// Answers that are there already.
    pub(super) ready: VecDeque<Bytes>,
    /// By id: a sender that is dropped when the question is cancelled. An id can be used again once
    /// its question is answered.
    pub(super) unanswered: HashMap<u64, Option<oneshot::Sender<()>>>,
    reading: StepsRead,
    /// A large step that is being decoded.
    decoding: Option<DecodingStep>,
    /// The number of steps that were taken in this turn.
    taken: usize,
    draining: Pin<Box<WaitForCancellationFutureOwned>>,
    deadline: Option<Pin<Box<Sleep>>>,
    /// Tells the questions that the client is gone.
    _present: DropGuard,
}

/// A step that was decoded.
struct DecodedStep {
    step: Step,
    size: StepSize,
}

/// The size of a step.
#[derive(Clone, Copy)]
pub(super) struct StepSize {
    /// True if decoding, checking and deciding it here would delay other calls.
    pub is_large: bool,
    /// An upper bound of the entries of all lists of its questions.
    pub entries: usize,
}

/// A large step that is being decoded, which has begun.
type DecodingStep = Pin<Box<dyn Future<Output = Result<DecodedStep, Error>> + Send>>;

enum StepsRead {
    GoesOn,
    /// No more steps are read; the stream ends with this status after the last answer.
    Over(Option<Status>),
}

impl DecisionStream {
    /// The answers to the questions of a call.
    pub fn new(
        service: Service,
        call: OpenedCall<Streaming<Bytes>>,
        observer: Option<QuestionObserver>,
    ) -> Self {
        let deadline = call.by.deadline.map(|at| Box::pin(sleep_until(at)));
        let gone = CancellationToken::new();
        let by = RequestContext {
            gone: Some(gone.clone()),
            ..call.by
        };
        Self {
            draining: Box::pin(service.draining.clone().cancelled_owned()),
            service,
            by,
            observer,
            steps: call.request,
            waiting: FuturesUnordered::new(),
            ready: VecDeque::new(),
            unanswered: HashMap::new(),
            reading: StepsRead::GoesOn,
            decoding: None,
            taken: 0,
            deadline,
            _present: gone.drop_guard(),
        }
    }

    /// Takes a step that arrived.
    fn take(&mut self, step: Bytes) {
        if step.len() <= LARGE_REQUEST {
            return self.decoded(decode(step, &self.by));
        }
        let by = self.by.clone();
        let task = self.service.spawn_feed(async move { decode(step, &by) });
        self.decoding = Some(Box::pin(joined(task.owned())));
    }

    /// Takes a step that was decoded, or ends the stream.
    fn decoded(&mut self, decoded: Result<DecodedStep, Error>) {
        let taken = decoded.and_then(|DecodedStep { step, size }| {
            match step {
                Step::Question(question) => self.ask(question, size),
                Step::SameRevision(group) => self.ask_together(group.questions, size)?,
                Step::Cancel(id) => drop(self.unanswered.get_mut(&id).and_then(Option::take)),
            }
            Ok(())
        });
        if let Err(error) = taken {
            self.reading = StepsRead::Over(Some(error.into()));
        }
    }

    /// Asks a question.
    fn ask(&mut self, question: v1::Question, size: StepSize) {
        let tag = self.tag(&question);
        let later = match self.begin(question, size) {
            Ok(Answered::Now(answer)) => return self.answer(tag, Ok(answer)),
            Ok(Answered::Later(later)) => later,
            Err(error) => return self.answer(tag, Err(error.into())),
        };
        let (sender, cancelled) = oneshot::channel();
        self.unanswered.insert(tag.id, Some(sender));
        self.waiting.push(Box::pin(async move {
            let outcome = tokio::select! {
                biased;
                outcome = later => outcome,
                _ = cancelled => Err(Error::Cancelled),
            };
            vec![(tag, outcome.map_err(Status::from))]
        }));
    }

    /// Returns the tag of a question's answer.
    pub(super) fn tag(&self, question: &v1::Question) -> AnswerTag {
        AnswerTag {
            id: question.id,
            method: match &question.ask {
                Some(Ask::Filter(_)) | None => 0,
                Some(Ask::Score(_)) => 1,
                Some(Ask::Place(_)) => 2,
            },
            arrived: self.observer.is_some().then(Moment::now),
        }
    }

    /// Returns the question itself, and the time that its answer may take.
    ///
    /// # Errors
    /// The faults of the question itself.
    pub(super) fn check(&self, question: v1::Question) -> Result<(Ask, Option<Duration>), Error> {
        if self.unanswered.contains_key(&question.id) {
            let rule = "is that of an unanswered question";
            return Err(Error::fault(Path::root("id"), rule));
        }
        let mut faults = Violations::default();
        if question.ask.is_none() {
            faults.add(Path::root("ask"), "is required");
        }
        let timeout = question.timeout.map(Duration::try_from);
        let timeout = timeout.map(|timeout| timeout.unwrap_or_default());
        if timeout.is_some_and(|timeout| timeout.is_zero()) {
            faults.add(Path::root("timeout"), "must be positive");
        }
        faults.finish(())?;
        Ok((question.ask.ok_or(Error::Internal)?, timeout))
    }

    /// The context of a question with its own timeout.
    pub(super) fn asker_within(&self, timeout: Duration) -> RequestContext {
        let at = deadline::after(timeout);
        RequestContext {
            deadline: Some(self.by.deadline.map_or(at, |deadline| deadline.min(at))),
            ..self.by.clone()
        }
    }

    fn begin(&self, question: v1::Question, size: StepSize) -> Result<Answered, Error> {
        let (ask, timeout) = self.check(question)?;
        let own = timeout.map(|timeout| self.asker_within(timeout));
        let by = own.as_ref().unwrap_or(&self.by);
        let begun = match ask {
            Ask::Filter(request) => self.about_pod(request, size, by)?,
            Ask::Score(request) => self.about_pod(request, size, by)?,
            Ask::Place(request) => {
                let (service, by) = (self.service.clone(), by.clone());
                let place = async move { service.placed(request, by).await };
                match size.is_large {
                    true => self.in_background(place),
                    false => Answered::Later(Box::pin(place)),
                }
            }
        };
        match begun {
            Answered::Later(later) => {
                self.admit(1)?;
                let deadline = by.deadline;
                Ok(Answered::Later(Box::pin(async move {
                    until(deadline, later).await?
                })))
            }
            now => Ok(now),
        }
    }

    /// Asks about one pod. A large question is checked where it delays no other call.
    fn about_pod<M: PodRequest + 'static>(
        &self,
        request: M,
        size: StepSize,
        by: &RequestContext,
    ) -> Result<Answered, Error> {
        if !size.is_large {
            return self.service.ask(request, size.entries, by);
        }
        let (service, by) = (self.service.clone(), by.clone());
        let asked = async move { service.ask(request, size.entries, &by)?.wait().await };
        Ok(self.in_background(asked))
    }

    /// Answers a large request beside the threads that serve.
    fn in_background(
        &self,
        asked: impl Future<Output = Result<Response<Bytes>, Error>> + Send + 'static,
    ) -> Answered {
        Answered::Later(Box::pin(joined(self.service.spawn_feed(asked).owned())))
    }

    /// Checks that this many more questions may be unanswered.
    ///
    /// # Errors
    /// There is no room.
    pub(super) fn admit(&self, questions: usize) -> Result<(), Error> {
        let most = self.service.registry.limits().max_stream_questions;
        if self.unanswered.len().saturating_add(questions) > most {
            return Err(Error::OverLimit(Exceeded {
                limit: Limit::StreamQuestions,
                most,
                actual: None,
            }));
        }
        Ok(())
    }

    /// Writes an answer, and tells the observer.
    pub(super) fn answer(&mut self, tag: AnswerTag, outcome: QuestionOutcome) {
        if let (Some(observer), Some(arrived)) = (&self.observer, tag.arrived) {
            let ended = outcome.as_ref().map(|answer| answer.extensions().get());
            let method = STREAMED_METHODS[tag.method];
            observer.0.answered(method, arrived, ended);
        }
        let (field, content) = match outcome {
            Ok(answer) => (tag.answer_field(), answer.into_inner()),
            // The details of a status encode it whole.
            Err(status) => (5, Bytes::copy_from_slice(status.details())),
        };
        let mut bytes = Vec::with_capacity(content.len().saturating_add(16));
        let head = v1::DecideResponse {
            id: tag.id,
            answer: None,
        };
        head.encode_raw(&mut bytes);
        prost::encoding::bytes::encode(field, &content, &mut bytes);
        self.ready.push_back(bytes.into());
    }

    /// Returns whether the stream is over because the caller may not ask any more.
    fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let late = self.deadline.as_mut();
        if late.is_some_and(|late| late.as_mut().poll(context).is_ready()) {
            // The waiting questions have the same deadline.
            self.reading = StepsRead::Over(Some(Error::Deadline.into()));
            return Poll::Ready(());
        }
        if self.draining.as_mut().poll(context).is_ready() {
            self.reading = StepsRead::Over(Some(Error::Draining.into()));
            return Poll::Ready(());
        }
        Poll::Pending
    }
}

impl Stream for DecisionStream {
    type Item = Result<Bytes, Status>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        loop {
            if let Some(answer) = this.ready.pop_front() {
                return Poll::Ready(Some(Ok(answer)));
            }
            if let Poll::Ready(Some(answered)) = Pin::new(&mut this.waiting).poll_next(context) {
                for (tag, outcome) in answered {
                    this.unanswered.remove(&tag.id);
                    this.answer(tag, outcome);
                }
                continue;
            }
            if let StepsRead::Over(end) = &mut this.reading {
                return match this.waiting.is_empty() {
                    true => Poll::Ready(end.take().map(Err)),
                    false => Poll::Pending,
                };
            }
            if let Some(decoding) = &mut this.decoding {
                let Poll::Ready(decoded) = decoding.as_mut().poll(context) else {
                    std::task::ready!(this.poll_end(context));
                    this.decoding = None;
                    continue;
                };
                this.decoding = None;
                this.decoded(decoded);
                continue;
            }
            if this.taken == STEPS_PER_TURN {
                this.taken = 0;
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            match Pin::new(&mut this.steps).poll_next(context) {
                Poll::Ready(Some(Ok(step))) => {
                    this.taken = this.taken.saturating_add(1);
                    this.take(step);
                }
                Poll::Ready(Some(Err(status))) => this.reading = StepsRead::Over(Some(status)),
                Poll::Ready(None) => this.reading = StepsRead::Over(None),
                Poll::Pending => {
                    this.taken = 0;
                    std::task::ready!(this.poll_end(context));
                }
            }
        }
    }
}

/// Decodes a step as long as somebody waits for its answers.
fn decode(step: Bytes, by: &RequestContext) -> Result<DecodedStep, Error> {
    let size = StepSize {
        is_large: step.len() > LARGE_REQUEST,
        entries: entries(&step),
    };
    let step = by.decode::<v1::DecideRequest>(step)?.step;
    let step = step.ok_or_else(|| Error::fault(Path::root("step"), "is required"))?;
    Ok(DecodedStep { step, size })
}

/// The result of a task, which ends with this future.
async fn joined<T: 'static>(task: OwnedTask<Result<T, Error>>) -> Result<T, Error> {
    task.await.unwrap_or(Err(Error::Internal))
}

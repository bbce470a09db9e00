//! A stream of questions. Each is asked as a call would be (`questions.rs`). Questions that can be
//! answered at once are answered while the stream is read.
//!
//! Nothing is read while the client does not take its answers, so a slow reader delays only itself.

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant as Moment};

use futures::stream::FuturesUnordered;
use prost::bytes::Bytes;
use tokio::sync::oneshot;
use tokio::time::{Sleep, sleep_until};
use tokio_stream::Stream;
use tokio_util::sync::{CancellationToken, DropGuard, WaitForCancellationFutureOwned};
use tonic::{Status, Streaming};

use super::base::Service;
use super::deadline;
use super::decide::AnswerBy;
use super::error::Error;
use super::executor::{LARGE_REQUEST, until};
use super::noted::Decision;
use super::pod_request::PodRequest;
use super::questions::{Answered, FILTER, SCORE};
use super::request_context::{OpenedCall, RequestContext};
use super::stream_steps::{Ask, Step, StepCharges, StreamedQuestion};
use super::written::{Done, Writable, Written};
use crate::account::{Charge, Part};
use crate::limits::{Exceeded, Limit};
use crate::matching::Path;
use crate::proto::encoded::Encoded;
use crate::proto::encoding::Sink;
use crate::proto::v1;

/// The number of steps that a stream takes before other tasks have a turn.
pub(super) const STEPS_PER_TURN: usize = 64;

/// The bytes that a question takes while it waits, besides the charge of its step.
const WAITING_BYTES: usize = 4 << 10;

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
pub type QuestionOutcome = Result<Done, Status>;

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
    charges: StepCharges,
    /// The questions that could not be answered at once.
    pub(super) waiting: FuturesUnordered<WaitingQuestions>,
    /// Answers that are there already.
    pub(super) ready: VecDeque<Encoded<v1::DecideResponse>>,
    /// By id: a sender that is dropped when the question is cancelled. An id can be used again once
    /// its question is answered.
    pub(super) unanswered: HashMap<u64, Option<oneshot::Sender<()>>>,
    reading: StepsRead,
    /// The number of steps that were taken in this turn.
    taken: usize,
    draining: Pin<Box<WaitForCancellationFutureOwned>>,
    deadline: Option<Pin<Box<Sleep>>>,
    /// Tells the questions that the client is gone.
    _present: DropGuard,
}

enum StepsRead {
    GoesOn,
    /// No more steps are read; the stream ends with this status after the last answer.
    Over(Option<Status>),
}

impl DecisionStream {
    /// The answers to the questions of a call.
    pub fn new(
        service: Service,
        mut call: OpenedCall<Streaming<Bytes>>,
        observer: Option<QuestionObserver>,
        charges: StepCharges,
    ) -> Self {
        let deadline = call.by.deadline.map(|at| Box::pin(sleep_until(at)));
        let gone = CancellationToken::new();
        call.by.gone = Some(gone.clone());
        Self {
            draining: Box::pin(service.draining.clone().cancelled_owned()),
            service,
            by: call.by,
            observer,
            steps: call.request,
            charges,
            waiting: FuturesUnordered::new(),
            ready: VecDeque::new(),
            unanswered: HashMap::new(),
            reading: StepsRead::GoesOn,
            taken: 0,
            deadline,
            _present: gone.drop_guard(),
        }
    }

    /// Takes a step. Returns an answer if there is one.
    fn take(&mut self, step: &Encoded<v1::DecideRequest>) -> Option<Encoded<v1::DecideResponse>> {
        let _taken = self.charges.next();
        match Step::read(step) {
            Ok(Step::Ask(question)) => self.ask(question),
            Ok(Step::Together(questions)) => match self.ask_together(questions) {
                Ok(()) => self.ready.pop_front(),
                Err(error) => self.end(error),
            },
            Ok(Step::Cancel(id)) => {
                drop(self.unanswered.get_mut(&id).and_then(Option::take));
                None
            }
            Err(error) => self.end(error),
        }
    }

    /// Reads no further step, and ends the stream with this error.
    fn end<T>(&mut self, error: Error) -> Option<T> {
        self.reading = StepsRead::Over(Some(error.into()));
        None
    }

    /// Asks a question. Returns the answer if it is ready at once.
    fn ask(&mut self, question: StreamedQuestion) -> Option<Encoded<v1::DecideResponse>> {
        let tag = self.tag(&question);
        let later = match self.begin(question) {
            Ok(Answered::Now(done)) => return Some(self.answer(tag, Ok(done))),
            Ok(Answered::Later(later)) => later,
            Err(error) => return Some(self.answer(tag, Err(error.into()))),
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
        None
    }

    /// Returns the tag of a question's answer.
    pub(super) fn tag(&self, question: &StreamedQuestion) -> AnswerTag {
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
    pub(super) fn check(
        &self,
        question: StreamedQuestion,
    ) -> Result<(Ask, Option<Duration>), Error> {
        if self.unanswered.contains_key(&question.id) {
            let rule = "is that of an unanswered question";
            return Err(Error::fault(Path::root("id"), rule));
        }
        let timeout = question.check()?;
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

    fn begin(&self, question: StreamedQuestion) -> Result<Answered<Done>, Error> {
        let (ask, timeout) = self.check(question)?;
        let own = timeout.map(|timeout| self.asker_within(timeout));
        let by = own.as_ref().unwrap_or(&self.by);
        let begun = match ask {
            Ask::Filter(encoded) => self.about_pod(encoded, by, FILTER)?,
            Ask::Score(encoded) => self.about_pod(encoded, by, SCORE)?,
            Ask::Place(encoded) => self.place(encoded, by),
        };
        match begun {
            Answered::Later(later) => {
                let (charges, deadline) = (self.admit(1)?, by.deadline);
                Ok(Answered::Later(Box::pin(async move {
                    let _charges = charges;
                    until(deadline, later).await?
                })))
            }
            now => Ok(now),
        }
    }

    /// Asks about one pod.
    fn about_pod<M, A>(
        &self,
        encoded: Encoded<M>,
        by: &RequestContext,
        answer: AnswerBy<Written<A>>,
    ) -> Result<Answered<Done>, Error>
    where
        M: PodRequest + 'static,
        A: Writable + 'static,
    {
        if encoded.bytes.len() > LARGE_REQUEST {
            let (service, by) = (self.service.clone(), by.clone());
            return Ok(self.aside(async move {
                let answered = service.ask(&encoded, &by, answer)?;
                Ok(Done::of(answered.wait().await?.map(Written::finish)))
            }));
        }
        Ok(match self.service.ask(&encoded, by, answer)? {
            Answered::Now(answer) => Answered::Now(Done::of(answer.map(Written::finish))),
            Answered::Later(later) => Answered::Later(Box::pin(async move {
                Ok(Done::of(later.await?.map(Written::finish)))
            })),
        })
    }

    fn place(&self, encoded: Encoded<v1::PlaceRequest>, by: &RequestContext) -> Answered<Done> {
        let (service, by) = (self.service.clone(), by.clone());
        let is_large = encoded.bytes.len() > LARGE_REQUEST;
        let place = async move {
            let request = by.decode::<v1::PlaceRequest>(encoded.into_bytes())?;
            let answer = service.placed(request, by).await?;
            Ok(Done::of(answer))
        };
        match is_large {
            true => self.aside(place),
            false => Answered::Later(Box::pin(place)),
        }
    }

    /// Decodes and answers a large request where it delays no other call.
    fn aside(
        &self,
        asked: impl Future<Output = Result<Done, Error>> + Send + 'static,
    ) -> Answered<Done> {
        let task = self.service.spawn_feed(asked).owned();
        Answered::Later(Box::pin(async move {
            task.await.unwrap_or(Err(Error::Internal))
        }))
    }

    /// Reserves room for this many more unanswered questions of the step that is being taken.
    ///
    /// # Errors
    /// There is no room.
    pub(super) fn admit(&self, questions: usize) -> Result<(Charge, Option<Charge>), Error> {
        let registry = &self.service.registry;
        let most = registry.limits().max_stream_questions;
        if self.unanswered.len().saturating_add(questions) > most {
            return Err(Error::OverLimit(Exceeded {
                limit: Limit::StreamQuestions,
                most,
                actual: None,
            }));
        }
        let bytes = questions.saturating_mul(WAITING_BYTES);
        let charge = registry.account().charge(Part::Requests, bytes)?;
        Ok((charge, self.charges.hold()))
    }

    /// Writes an answer, and tells the observer.
    pub(super) fn answer(
        &self,
        tag: AnswerTag,
        outcome: QuestionOutcome,
    ) -> Encoded<v1::DecideResponse> {
        let tell = |ended: Result<Option<&Decision>, &Status>| {
            if let (Some(observer), Some(arrived)) = (&self.observer, tag.arrived) {
                let method = STREAMED_METHODS[tag.method];
                observer.0.answered(method, arrived, ended);
            }
        };
        let mut bytes = Vec::new();
        match outcome {
            Ok(done) => {
                tell(Ok(done.decision.as_ref()));
                bytes.reserve(done.bytes.len().saturating_add(16));
                bytes.int(1, tag.id.cast_signed());
                bytes.item(tag.answer_field(), &done.bytes);
            }
            Err(status) => {
                tell(Err(&status));
                bytes.int(1, tag.id.cast_signed());
                // The details of a status encode it whole.
                bytes.item(5, status.details());
            }
        }
        Encoded::new(bytes.into())
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
                return Poll::Ready(Some(Ok(answer.into_bytes())));
            }
            if let Poll::Ready(Some(answered)) = Pin::new(&mut this.waiting).poll_next(context) {
                for (tag, outcome) in answered {
                    this.unanswered.remove(&tag.id);
                    let answer = this.answer(tag, outcome);
                    this.ready.push_back(answer);
                }
                continue;
            }
            if let StepsRead::Over(end) = &mut this.reading {
                return match this.waiting.is_empty() {
                    true => Poll::Ready(end.take().map(Err)),
                    false => Poll::Pending,
                };
            }
            if this.taken == STEPS_PER_TURN {
                this.taken = 0;
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            match Pin::new(&mut this.steps).poll_next(context) {
                Poll::Ready(Some(Ok(step))) => {
                    this.taken = this.taken.saturating_add(1);
                    if let Some(answer) = this.take(&Encoded::new(step)) {
                        return Poll::Ready(Some(Ok(answer.into_bytes())));
                    }
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

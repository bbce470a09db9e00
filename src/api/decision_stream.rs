//! A stream of questions. Each takes the way of a call, beside the others of its stream; those of a
//! group see one revision of one snapshot.
//!
//! Nothing is read while the client does not take its answers, so a slow reader delays only itself.
//! Nor is anything read while a large step is decoded beside the threads that serve.

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant as Moment};

use futures::FutureExt;
use futures::future::{AbortHandle, BoxFuture, abortable, ready};
use futures::stream::{FuturesUnordered, StreamExt};
use prost::Message;
use prost::bytes::Bytes;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::{Response, Status, Streaming};

use super::answer::{Decision, Loggable, MeasuredAnswer};
use super::error::Error;
use super::executor::{LARGE_REQUEST, until};
use super::questions::{PodRequest, ValidDecision};
use super::read_your_writes::AskedSnapshot;
use super::request_context::{OpenedCall, RequestContext, deadline_after};
use super::service::Service;
use crate::limits::{Exceeded, Limit};
use crate::matching::{Path, Violations};
use crate::proto::encoded::entries;
use crate::proto::v1;
use crate::proto::v1::decide_request::Step;
use crate::proto::v1::question::Ask;
use crate::snapshot::{ReadView, Snapshot, State, Stopped};

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

/// A step that was decoded.
struct DecodedStep {
    step: Step,
    /// True if decoding, checking and deciding it where it arrived would delay other calls.
    is_large: bool,
    /// An upper bound of the entries of all lists of its question.
    entries: usize,
}

/// Names an answer, and tells how to report it to the observer.
#[derive(Clone, Copy)]
pub(super) struct AnswerTag {
    /// The id of the question.
    id: u64,
    /// The index of its method in [`STREAMED_METHODS`].
    method: usize,
    arrived: Moment,
}

impl AnswerTag {
    pub(super) fn new(question: &v1::Question) -> Self {
        Self {
            id: question.id,
            method: match &question.ask {
                Some(Ask::Filter(_)) | None => 0,
                Some(Ask::Score(_)) => 1,
                Some(Ask::Place(_)) => 2,
            },
            arrived: Moment::now(),
        }
    }

    /// The number of the field that has the answer.
    fn answer_field(self) -> u32 {
        [2, 3, 4][self.method]
    }
}

/// The answer of a question, or its error.
pub(super) type Outcome = Result<Response<Bytes>, Status>;

/// A question that is asked.
pub(super) struct Asked {
    pub tag: AnswerTag,
    /// Cancels the question.
    pub handle: AbortHandle,
    pub answer: BoxFuture<'static, (AnswerTag, Outcome)>,
}

impl Asked {
    /// A question that ends at once when it is cancelled.
    pub(super) fn new(
        tag: AnswerTag,
        answer: impl Future<Output = Result<Response<Bytes>, Error>> + Send + 'static,
    ) -> Self {
        let (answer, handle) = abortable(answer);
        let answer = answer.map(move |it| {
            let outcome = it.unwrap_or(Err(Error::Cancelled));
            (tag, outcome.map_err(Status::from))
        });
        Self {
            tag,
            handle,
            answer: answer.boxed(),
        }
    }
}

/// Where the answers of a stream go.
struct Answers {
    observer: Option<QuestionObserver>,
    sender: mpsc::Sender<Result<Bytes, Status>>,
}

impl Answers {
    /// Tells the observer of an answer, and sends it. Nothing comes of it if the client is gone.
    async fn send(&self, tag: AnswerTag, outcome: Outcome) {
        if let Some(observer) = &self.observer {
            let ended = outcome.as_ref().map(|answer| answer.extensions().get());
            let method = STREAMED_METHODS[tag.method];
            observer.0.answered(method, tag.arrived, ended);
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
        let _ = self.sender.send(Ok(bytes.into())).await;
    }
}

/// Answers the questions of a call until the client ends it, a step cannot be read, the server
/// drains, or the deadline passes; then those that wait.
pub async fn answer_questions(
    service: Service,
    call: OpenedCall<Streaming<Bytes>>,
    observer: Option<QuestionObserver>,
    sender: mpsc::Sender<Result<Bytes, Status>>,
) -> Result<(), Error> {
    // Dropped with this future, when the client is gone.
    let gone = CancellationToken::new();
    let _present = gone.clone().drop_guard();
    let by = RequestContext {
        gone: Some(gone),
        ..call.by
    };
    let answers = Answers { observer, sender };
    let steps = call.request.then(|step| {
        let (service, by) = (service.clone(), by.clone());
        async move { service.decode_step(step?, by).await }
    });
    let mut steps = pin!(steps);
    let mut waiting = FuturesUnordered::new();
    // An id can be used again once its question is answered.
    let mut unanswered: HashMap<u64, AbortHandle> = HashMap::new();
    let end = loop {
        let step = tokio::select! {
            biased;
            Some((tag, outcome)) = waiting.next() => {
                let tag: AnswerTag = tag;
                unanswered.remove(&tag.id);
                answers.send(tag, outcome).await;
                continue;
            }
            () = answers.sender.closed() => return Ok(()),
            step = until(by.deadline, steps.next()) => step.unwrap_or_else(|late| Some(Err(late.into()))),
            () = service.draining.cancelled() => Some(Err(Error::Draining.into())),
        };
        let step = match step {
            None => break None,
            Some(Err(status)) => break Some(status),
            Some(Ok(step)) => step,
        };
        let asked = match step.step {
            Step::Question(question) => {
                let tag = AnswerTag::new(&question);
                let service = service.clone();
                let asked = service.ask_streamed(question, step.is_large, step.entries, by.clone());
                vec![Asked::new(tag, asked)]
            }
            Step::SameRevision(group) => {
                match service.ask_together(group.questions, step.entries, &by) {
                    Ok(asked) => asked,
                    Err(error) => break Some(error.into()),
                }
            }
            Step::Cancel(id) => {
                unanswered.get(&id).inspect(|asked| asked.abort());
                continue;
            }
        };
        for Asked {
            tag,
            handle,
            mut answer,
        } in asked
        {
            if unanswered.contains_key(&tag.id) {
                let rule = "is that of an unanswered question";
                let fault = Error::fault(Path::root("id"), rule);
                answers.send(tag, Err(fault.into())).await;
                continue;
            }
            // Most questions are answered at once.
            let begun = poll_fn(|context| Poll::Ready(answer.as_mut().poll(context))).await;
            match begun {
                Poll::Ready((tag, outcome)) => answers.send(tag, outcome).await,
                Poll::Pending if unanswered.len() >= service.most_questions() => {
                    let over = Exceeded {
                        limit: Limit::StreamQuestions,
                        most: service.most_questions(),
                        actual: None,
                    };
                    answers.send(tag, Err(Error::from(over).into())).await;
                }
                Poll::Pending => {
                    unanswered.insert(tag.id, handle);
                    waiting.push(answer);
                }
            }
        }
    };
    while let Some((tag, outcome)) = waiting.next().await {
        answers.send(tag, outcome).await;
    }
    if let Some(status) = end {
        let _ = answers.sender.send(Err(status)).await;
    }
    Ok(())
}

impl Service {
    fn most_questions(&self) -> usize {
        self.registry.limits().max_stream_questions
    }

    /// Decodes a step as long as somebody waits for its answer, a large one beside the threads that
    /// serve.
    async fn decode_step(&self, step: Bytes, by: RequestContext) -> Result<DecodedStep, Status> {
        let (is_large, who) = (step.len() > LARGE_REQUEST, by.who.clone());
        let decode = move || {
            let entries = entries(&step);
            let step = by.decode::<v1::DecideRequest>(step)?.step;
            let step = step.ok_or_else(|| Error::fault(Path::root("step"), "is required"))?;
            Ok::<_, Error>(DecodedStep {
                step,
                is_large,
                entries,
            })
        };
        let decoded = match is_large {
            true => self.beside.run(who, async move { decode() }).await?,
            false => decode(),
        };
        Ok(decoded?)
    }

    /// Answers a question as the call would be answered, a large one beside the threads that serve.
    async fn ask_streamed(
        self,
        question: v1::Question,
        is_large: bool,
        entries: usize,
        by: RequestContext,
    ) -> Result<Response<Bytes>, Error> {
        let (ask, by) = check(question, by)?;
        let (deadline, who) = (by.deadline, by.who.clone());
        let service = self.clone();
        let answer = async move {
            match ask {
                Ask::Filter(request) => service.ask(request, entries, &by).await,
                Ask::Score(request) => service.ask(request, entries, &by).await,
                Ask::Place(request) => service.placed(request, by).await,
            }
        };
        match is_large {
            true => until(deadline, self.beside.run(who, answer)).await??,
            false => until(deadline, answer).await?,
        }
    }
}

/// Returns the question itself, and its caller with the time that the answer may take.
///
/// # Errors
/// The faults of the question itself.
pub(super) fn check(
    question: v1::Question,
    by: RequestContext,
) -> Result<(Ask, RequestContext), Error> {
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
    let own = timeout.map(deadline_after);
    let deadline = own.into_iter().chain(by.deadline).min();
    let ask = question.ask.ok_or(Error::Internal)?;
    Ok((ask, RequestContext { deadline, ..by }))
}

/// A valid question of a group.
trait Member: Send {
    /// The snapshot, and the revision to wait for.
    fn asked(&self) -> &AskedSnapshot;

    /// Answers the question on a state of its snapshot.
    fn answer(
        &mut self,
        on: &Snapshot,
        state: &State,
        is_given_up: &dyn Fn() -> bool,
    ) -> Result<Response<Bytes>, Stopped>;
}

impl<A: Message + Clone + MeasuredAnswer + Loggable> Member for ValidDecision<A> {
    fn asked(&self) -> &AskedSnapshot {
        &self.asked
    }

    fn answer(
        &mut self,
        on: &Snapshot,
        state: &State,
        is_given_up: &dyn Fn() -> bool,
    ) -> Result<Response<Bytes>, Stopped> {
        let decide = |read_view: ReadView<'_>| self.on_view(on, &read_view);
        let answered = state.decide(self.namespace(), is_given_up, decide)?;
        Ok(self.finish(answered))
    }
}

impl Service {
    /// Begins to answer questions that see one revision. Each has its answer, or its own error, once
    /// all are decided.
    ///
    /// # Errors
    /// There are more questions than a stream may have.
    pub(super) fn ask_together(
        &self,
        questions: Vec<v1::Question>,
        entries: usize,
        by: &RequestContext,
    ) -> Result<Vec<Asked>, Error> {
        let limits = self.registry.limits();
        limits.check(Limit::StreamQuestions, questions.len())?;
        let mut answers = Vec::new();
        let (mut asks, mut senders, mut receivers) = (Vec::new(), Vec::new(), Vec::new());
        let mut deadline: Option<Instant> = by.deadline;
        for question in questions {
            let tag = AnswerTag::new(&question);
            match check(question, by.clone()) {
                Ok((Ask::Place(_), _)) => {
                    let rule = "cannot be asked with the same revision as others";
                    let fault = Error::fault(Path::root("place"), rule);
                    answers.push(Asked::new(tag, ready(Err(fault))));
                }
                Ok((ask, own)) => {
                    deadline = deadline.into_iter().chain(own.deadline).min();
                    let (sender, receiver) = oneshot::channel();
                    asks.push(ask);
                    senders.push(sender);
                    receivers.push((tag, receiver));
                }
                Err(error) => answers.push(Asked::new(tag, ready(Err(error)))),
            }
        }
        let by = RequestContext {
            deadline,
            ..by.clone()
        };
        let service = self.clone();
        let run = async move {
            let outcomes = service.decide_together(asks, entries, &by).await;
            for (sender, outcome) in senders.into_iter().zip(outcomes) {
                // A question that was cancelled has no receiver.
                let _ = sender.send(outcome);
            }
        };
        let task = Arc::new(self.beside.spawn(run).owned());
        for (tag, receiver) in receivers {
            let task = Arc::clone(&task);
            let (handle, _) = AbortHandle::new_pair();
            let cancel = handle.clone();
            let answer = async move {
                let outcome = until(deadline, receiver).await;
                drop(task);
                // It is answered with the others, even if it was cancelled.
                let outcome = match cancel.is_aborted() {
                    true => Err(Error::Cancelled.into()),
                    false => outcome
                        .map_err(Status::from)
                        .and_then(|sent| sent.unwrap_or_else(|_| Err(Error::Internal.into()))),
                };
                (tag, outcome)
            };
            answers.push(Asked {
                tag,
                handle,
                answer: answer.boxed(),
            });
        }
        Ok(answers)
    }

    /// Decides questions on one revision.
    async fn decide_together(
        &self,
        asks: Vec<Ask>,
        entries: usize,
        by: &RequestContext,
    ) -> Vec<Outcome> {
        let mut members: Vec<Result<Box<dyn Member>, Error>> = Vec::new();
        for ask in asks {
            let first = members.iter().flatten().next();
            let name = first.map(|member| member.asked().name.clone());
            members.push(match ask {
                Ask::Filter(request) => self.member(request, entries, by, name.as_deref()),
                Ask::Score(request) => self.member(request, entries, by, name.as_deref()),
                Ask::Place(_) => Err(Error::Internal),
            });
            tokio::task::yield_now().await;
        }
        let count = members.len();
        match self.decide_members(members, by).await {
            Ok(outcomes) => outcomes,
            Err(error) => {
                let status = Status::from(error);
                (0..count).map(|_| Err(status.clone())).collect()
            }
        }
    }

    /// Checks a question of a group, which must be about the snapshot of this name, if there is one.
    ///
    /// # Errors
    /// The reason why the question is refused.
    fn member<M: PodRequest>(
        &self,
        request: M,
        entries: usize,
        by: &RequestContext,
        snapshot: Option<&str>,
    ) -> Result<Box<dyn Member>, Error> {
        let request = self.question(request, entries, by)?;
        let mut faults = Violations::default();
        if snapshot.is_some_and(|name| name != request.asked.name) {
            let rule = "must be that of the first question with the same revision";
            faults.add(Path::root("snapshot"), rule);
        }
        if !request.overlay.is_empty() {
            let rule = "must not be set with the same revision";
            faults.add(Path::root("overlay"), rule);
        }
        faults.finish(())?;
        Ok(Box::new(request))
    }

    /// Decides the valid questions once their snapshot has reached what each of them asks for.
    ///
    /// # Errors
    /// The reason why no question is answered.
    async fn decide_members(
        &self,
        mut members: Vec<Result<Box<dyn Member>, Error>>,
        by: &RequestContext,
    ) -> Result<Vec<Outcome>, Error> {
        let mut reached = None;
        for member in members.iter_mut().flatten() {
            reached = Some(self.reach(member.asked(), by.deadline).await?);
        }
        let Some(on) = reached else {
            let refused = members.into_iter().filter_map(Result::err);
            return Ok(refused.map(|error| Err(Status::from(error))).collect());
        };
        let state = on.state();
        let decide = move |is_given_up: &dyn Fn() -> bool| {
            let answered = members.drain(..).map(|member| match member {
                Ok(mut member) => member.answer(&on, &state, is_given_up).map(Ok),
                Err(refused) => Ok(Err(refused.into())),
            });
            answered.collect::<Result<Vec<Outcome>, Stopped>>()
        };
        Ok(self.executor.decide(by, decide).await??)
    }
}

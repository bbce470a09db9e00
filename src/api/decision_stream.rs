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
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use prost::Message;
use prost::bytes::Bytes;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tonic::{Response, Status, Streaming};

use super::answer::Decision;
use super::error::Error;
use super::executor::{LARGE_REQUEST, until};
use super::questions::PodRequest;
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
use crate::tasks::OwnedTask;

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
struct AnswerTag {
    /// The id of the question.
    id: u64,
    /// The index of its method in [`STREAMED_METHODS`].
    method: usize,
    arrived: Moment,
}

impl AnswerTag {
    fn new(question: &v1::Question) -> Self {
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
type Outcome = Result<Response<Bytes>, Status>;

/// A question with its name, and what cancels it.
type Question = (AnswerTag, CancellationToken, v1::Question);

/// Questions that are answered together, each with its name.
type Answering = BoxFuture<'static, Vec<(AnswerTag, Outcome)>>;

/// The questions of a stream, and where their answers go.
struct Answers {
    observer: Option<QuestionObserver>,
    sender: mpsc::Sender<Result<Bytes, Status>>,
    /// What cancels the unanswered questions, by id, which can be used again afterwards.
    unanswered: HashMap<u64, CancellationToken>,
}

impl Answers {
    /// Sends the answers of questions, which are answered then.
    async fn finish(&mut self, outcomes: Vec<(AnswerTag, Outcome)>) {
        for (tag, outcome) in outcomes {
            self.unanswered.remove(&tag.id);
            self.send(tag, outcome).await;
        }
    }

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
    let service = Arc::new(service);
    let by = Arc::new(RequestContext {
        gone: Some(gone),
        ..call.by
    });
    let mut answers = Answers {
        observer,
        sender,
        unanswered: HashMap::new(),
    };
    let steps = call
        .request
        .then(async |step| service.decode_step(step?, &by).await);
    let mut steps = pin!(steps);
    let mut waiting: FuturesUnordered<Answering> = FuturesUnordered::new();
    let limits = service.registry.limits();
    let end = loop {
        let step = tokio::select! {
            biased;
            Some(outcomes) = waiting.next() => {
                answers.finish(outcomes).await;
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
        let (questions, is_group) = match step.step {
            Step::Question(question) => (vec![question], false),
            Step::SameRevision(group) => (group.questions, true),
            Step::Cancel(id) => {
                answers.unanswered.get(&id).inspect(|it| it.cancel());
                continue;
            }
        };
        if let Err(over) = limits.check(Limit::StreamQuestions, questions.len()) {
            break Some(Error::from(over).into());
        }
        let mut asked = Vec::with_capacity(questions.len());
        for question in questions {
            let tag = AnswerTag::new(&question);
            if answers.unanswered.contains_key(&tag.id) {
                let rule = "is that of an unanswered question";
                let fault = Error::fault(Path::root("id"), rule);
                answers.send(tag, Err(fault.into())).await;
                continue;
            }
            let cancelled = CancellationToken::new();
            answers.unanswered.insert(tag.id, cancelled.clone());
            asked.push((tag, cancelled, question));
        }
        let tags: Vec<AnswerTag> = asked.iter().map(|(tag, ..)| *tag).collect();
        let (service, by) = (Arc::clone(&service), Arc::clone(&by));
        let mut answering = match is_group {
            true => service.ask_together(asked, step.entries, by).boxed(),
            false => service
                .ask_apart(asked, step.is_large, step.entries, by)
                .boxed(),
        };
        // Most questions are answered at once.
        let begun = poll_fn(|context| Poll::Ready(answering.as_mut().poll(context))).await;
        let outcomes = match begun {
            Poll::Ready(outcomes) => outcomes,
            Poll::Pending if answers.unanswered.len() > limits.max_stream_questions => {
                let over = Exceeded {
                    limit: Limit::StreamQuestions,
                    most: limits.max_stream_questions,
                    actual: None,
                };
                let over = |tag| (tag, Err(Error::from(over).into()));
                tags.into_iter().map(over).collect()
            }
            Poll::Pending => {
                waiting.push(answering);
                continue;
            }
        };
        answers.finish(outcomes).await;
    };
    while let Some(outcomes) = waiting.next().await {
        answers.finish(outcomes).await;
    }
    if let Some(status) = end {
        let _ = answers.sender.send(Err(status)).await;
    }
    Ok(())
}

impl Service {
    /// Decodes a step as long as somebody waits for its answer, a large one beside the threads that
    /// serve.
    async fn decode_step(
        &self,
        step: Bytes,
        by: &Arc<RequestContext>,
    ) -> Result<DecodedStep, Status> {
        let (is_large, who) = (step.len() > LARGE_REQUEST, &by.who);
        let by = Arc::clone(by);
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
            true => {
                let decode = self.beside.run(who.clone(), async move { decode() });
                decode.boxed().await?
            }
            false => decode(),
        };
        Ok(decoded?)
    }

    /// Answers each question as the call would be answered, a large one beside the threads that
    /// serve. It ends at once when it is cancelled.
    async fn ask_apart(
        self: Arc<Self>,
        questions: Vec<Question>,
        is_large: bool,
        entries: usize,
        by: Arc<RequestContext>,
    ) -> Vec<(AnswerTag, Outcome)> {
        let mut outcomes = Vec::with_capacity(questions.len());
        for (tag, cancelled, question) in questions {
            let asked = self.ask_streamed(question, is_large, entries, &by);
            let outcome = cancelled.run_until_cancelled(asked).await;
            let outcome = outcome.unwrap_or(Err(Error::Cancelled));
            outcomes.push((tag, outcome.map_err(Status::from)));
        }
        outcomes
    }

    async fn ask_streamed(
        self: &Arc<Self>,
        question: v1::Question,
        is_large: bool,
        entries: usize,
        by: &Arc<RequestContext>,
    ) -> Result<Response<Bytes>, Error> {
        let (ask, by) = check(question, by)?;
        let (service, deadline, who) = (Arc::clone(self), by.deadline, by.who.clone());
        match is_large {
            true => {
                let answer = async move { service.ask(ask, entries, by).await };
                let answer = self.beside.run(who, answer).boxed();
                until(deadline, answer).await??
            }
            false => until(deadline, service.ask(ask, entries, by)).await?,
        }
    }

    /// Checks a question at once, and answers it. The messages of questions are long, so the future
    /// has only what they are compiled to.
    fn ask(
        self: Arc<Self>,
        ask: Ask,
        entries: usize,
        by: Arc<RequestContext>,
    ) -> BoxFuture<'static, Result<Response<Bytes>, Error>> {
        match ask {
            Ask::Filter(request) => {
                let request = self.question(request, entries, &by);
                async move { self.decide(request?, &by).await }.boxed()
            }
            Ask::Score(request) => {
                let request = self.question(request, entries, &by);
                async move { self.decide(request?, &by).await }.boxed()
            }
            Ask::Place(request) => {
                async move { self.placed(request, Arc::unwrap_or_clone(by)).await }.boxed()
            }
        }
    }
}

/// Returns the question itself, and its caller with the time that the answer may take.
///
/// # Errors
/// The faults of the question itself.
fn check(
    question: v1::Question,
    by: &Arc<RequestContext>,
) -> Result<(Ask, Arc<RequestContext>), Error> {
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
    let mut by = Arc::clone(by);
    if let Some(own) = timeout.map(deadline_after) {
        let by = Arc::make_mut(&mut by);
        by.deadline = by.deadline.into_iter().chain([own]).min();
    }
    Ok((question.ask.ok_or(Error::Internal)?, by))
}

/// Answers a valid question of a group on a state of its snapshot.
type AnswerOn = Box<
    dyn FnOnce(&Snapshot, &State, &dyn Fn() -> bool) -> Result<Response<Bytes>, Stopped> + Send,
>;

impl Service {
    /// Answers questions that see one revision. Each has its answer, or its own error, once all are
    /// decided, even if it was cancelled.
    async fn ask_together(
        self: Arc<Self>,
        questions: Vec<Question>,
        entries: usize,
        mut by: Arc<RequestContext>,
    ) -> Vec<(AnswerTag, Outcome)> {
        let (mut tags, mut asks) = (Vec::new(), Vec::new());
        for (tag, cancelled, question) in questions {
            tags.push((tag, cancelled));
            asks.push(check(question, &by).map(|(ask, own)| {
                by = own;
                ask
            }));
        }
        let (service, deadline) = (Arc::clone(&self), by.deadline);
        let decide = async move { service.decide_together(asks, entries, &by).await };
        let decided = until(deadline, OwnedTask::new(self.beside.spawn(decide))).await;
        let decided = decided.and_then(|it| it.unwrap_or(Err(Error::Internal)));
        let mut outcomes = decided.map(Vec::into_iter).map_err(Status::from);
        let outcome = |(tag, cancelled): (AnswerTag, CancellationToken)| {
            let own = match &mut outcomes {
                _ if cancelled.is_cancelled() => Err(Error::Cancelled.into()),
                Ok(outcomes) => outcomes
                    .next()
                    .unwrap_or_else(|| Err(Error::Internal.into())),
                Err(status) => Err(status.clone()),
            };
            (tag, own)
        };
        tags.into_iter().map(outcome).collect()
    }

    /// Decides questions on one revision, once their snapshot has reached what each of them asks
    /// for.
    ///
    /// # Errors
    /// The reason why no question is answered.
    async fn decide_together(
        &self,
        asks: Vec<Result<Ask, Error>>,
        entries: usize,
        by: &RequestContext,
    ) -> Result<Vec<Outcome>, Error> {
        let mut members: Vec<Result<(AskedSnapshot, AnswerOn), Error>> = Vec::new();
        for ask in asks {
            let first = members.iter().flatten().next();
            let name = first.map(|(asked, _)| &*asked.name);
            let member = ask.and_then(|ask| match ask {
                Ask::Filter(request) => self.member(request, entries, by, name),
                Ask::Score(request) => self.member(request, entries, by, name),
                Ask::Place(_) => {
                    let rule = "cannot be asked with the same revision as others";
                    Err(Error::fault(Path::root("place"), rule))
                }
            });
            members.push(member);
            tokio::task::yield_now().await;
        }
        let mut reached = None;
        for (asked, _) in members.iter_mut().flatten() {
            reached = Some(self.reach(asked, by.deadline).await?);
        }
        let Some(on) = reached else {
            let refused = members.into_iter().filter_map(Result::err);
            return Ok(refused.map(|error| Err(error.into())).collect());
        };
        let state = on.state();
        let decide = move |is_given_up: &dyn Fn() -> bool| {
            let answered = members.into_iter().map(|member| match member {
                Ok((_, answer)) => answer(&on, &state, is_given_up).map(Ok),
                Err(refused) => Ok(Err(refused.into())),
            });
            answered.collect::<Result<_, Stopped>>()
        };
        Ok(self.executor.decide(by, decide).await??)
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
    ) -> Result<(AskedSnapshot, AnswerOn), Error> {
        let mut request = self.question(request, entries, by)?;
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
        let asked = request.asked.clone();
        let answer = move |on: &Snapshot, state: &State, is_given_up: &dyn Fn() -> bool| {
            let decide = |read_view: ReadView<'_>| request.on_view(on, &read_view);
            let answered = state.decide(request.namespace(), is_given_up, decide)?;
            Ok(request.finish(answered))
        };
        Ok((asked, Box::new(answer)))
    }
}

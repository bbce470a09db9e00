//! Questions of a stream that see one revision of one snapshot.

use std::cell::RefCell;
use std::collections::HashSet;
use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::oneshot::{self, error::TryRecvError};
use tokio::task::yield_now;
use tonic::{Response, Status};

use super::base::Service;
use super::decide::{AnswerBy, Deciding};
use super::decision_stream::{AnswerTag, DecisionStream, QuestionOutcome, STEPS_PER_TURN};
use super::error::Error;
use super::executor::{LARGE_REQUEST, until};
use super::noted::logged;
use super::pod_request::PodRequest;
use super::questions::{FILTER, SCORE, ValidQuestion};
use super::read_your_writes::AskedSnapshot;
use super::request_context::RequestContext;
use super::stream_steps::{Ask, StreamedQuestion};
use super::written::{Done, Writable, Written};
use crate::decision_log::Pending;
use crate::limits::Limit;
use crate::matching::{Path, Violations};
use crate::proto::encoded::Encoded;
use crate::snapshot::{Reach, ReadView, Snapshot, State, Stopped};

/// The questions of a group, after only their ids and timeouts were checked.
#[derive(Default)]
struct Group {
    tags: Vec<AnswerTag>,
    asks: Vec<Ask>,
    /// The total bytes of their requests.
    bytes: usize,
    /// The asker with the earliest deadline.
    by: Option<RequestContext>,
}

impl Group {
    /// Returns whether compiling or deciding the group here would delay other calls.
    fn is_large(&self) -> bool {
        self.bytes > LARGE_REQUEST || self.asks.len() > STEPS_PER_TURN
    }
}

impl DecisionStream {
    /// Asks questions that see one revision. Refused questions are answered.
    ///
    /// # Errors
    /// There are more questions than a stream may have.
    pub(super) fn ask_together(&mut self, questions: Vec<StreamedQuestion>) -> Result<(), Error> {
        let limits = self.service.registry.limits();
        limits.check(Limit::StreamQuestions, questions.len())?;
        let group = self.gather(questions);
        let charges = match self.admit(group.tags.len()) {
            Ok(charges) => charges,
            Err(error) => {
                let status = Status::from(error);
                for tag in group.tags {
                    self.refuse(tag, status.clone());
                }
                return Ok(());
            }
        };
        let is_large = group.is_large();
        let mut waiting = Vec::new();
        for tag in group.tags {
            let (sender, cancelled) = oneshot::channel();
            self.unanswered.insert(tag.id, Some(sender));
            waiting.push((tag, cancelled));
        }
        let (service, asks) = (self.service.clone(), group.asks);
        let by = group.by.unwrap_or_else(|| self.by.clone());
        let deadline = by.deadline;
        let asked = async move { service.together(asks, &by, is_large).await };
        let asked: Pin<Box<dyn Future<Output = _> + Send>> = match is_large {
            true => {
                let task = self.service.spawn_feed(asked).owned();
                Box::pin(async move { task.await.map_err(|_| Error::Internal) })
            }
            false => Box::pin(async move { Ok(asked.await) }),
        };
        self.waiting.push(Box::pin(async move {
            let _charges = charges;
            let answers = until(deadline, asked).await.and_then(|asked| asked);
            let mut answers = answers.map(Vec::into_iter).map_err(Status::from);
            let answered = waiting.into_iter().map(|(tag, mut cancelled)| {
                let answer = match &mut answers {
                    Ok(each) => each.next().unwrap_or(Err(Error::Internal.into())),
                    Err(status) => Err(status.clone()),
                };
                let outcome = match cancelled.try_recv() {
                    Err(TryRecvError::Closed) => Err(Error::Cancelled.into()),
                    _ => answer,
                };
                (tag, outcome)
            });
            answered.collect()
        }));
        Ok(())
    }

    /// Checks ids and timeouts of a group's questions. Refused questions are answered.
    fn gather(&mut self, questions: Vec<StreamedQuestion>) -> Group {
        let mut group = Group::default();
        let mut ids = HashSet::new();
        for question in questions {
            let tag = self.tag(&question);
            let added = match ids.insert(question.id) {
                true => self.add(question, &mut group),
                false => {
                    let rule = "is that of another question of the group";
                    Err(Error::fault(Path::root("id"), rule))
                }
            };
            match added {
                Ok(()) => group.tags.push(tag),
                Err(error) => self.refuse(tag, error.into()),
            }
        }
        group
    }

    /// Adds a question to a group.
    fn add(&self, question: StreamedQuestion, group: &mut Group) -> Result<(), Error> {
        let (ask, timeout) = self.check(question)?;
        if matches!(ask, Ask::Place(_)) {
            let rule = "cannot be asked with the same revision as others";
            return Err(Error::fault(Path::root("place"), rule));
        }
        if let Some(own) = timeout.map(|timeout| self.asker_within(timeout))
            && group
                .by
                .as_ref()
                .is_none_or(|by| own.deadline < by.deadline)
        {
            group.by = Some(own);
        }
        group.bytes = group.bytes.saturating_add(ask.len());
        group.asks.push(ask);
        Ok(())
    }

    fn refuse(&mut self, tag: AnswerTag, status: Status) {
        let answer = self.answer(tag, Err(status));
        self.ready.push_back(answer);
    }
}

/// A valid question of a group.
struct GroupQuestion {
    /// The snapshot, and the revision to wait for.
    asked: AskedSnapshot,
    /// Asks the question of that snapshot.
    put_to: Box<dyn FnOnce(Arc<Snapshot>) -> Box<dyn GroupDecision> + Send>,
}

/// A question of a group, asked of its snapshot.
trait GroupDecision: Send {
    /// The namespaces that the question reads.
    fn reach(&self) -> Reach<'_>;

    /// Decides at once.
    fn at_once(&mut self, state: &State) -> Result<(), Stopped>;

    /// Decides on a read view.
    fn on(&self, read_view: &ReadView<'_>) -> Result<(), Stopped>;

    /// The answer, if the question was decided.
    fn done(self: Box<Self>) -> Result<Done, Error>;
}

struct PodDecision<A> {
    deciding: Deciding<Written<A>>,
    pending: Option<Pending>,
    answered: RefCell<Option<Response<Written<A>>>>,
}

impl Service {
    /// Checks a question of a group. It must be about the snapshot of this name, if there is one.
    ///
    /// # Errors
    /// The reason why the question is refused.
    fn member<M: PodRequest, A: Writable + 'static>(
        &self,
        encoded: &Encoded<M>,
        by: &RequestContext,
        answer: AnswerBy<Written<A>>,
        snapshot: Option<&str>,
    ) -> Result<GroupQuestion, Error> {
        let ValidQuestion { request, pending } = self.question(encoded, by)?;
        let mut faults = Violations::default();
        if snapshot.is_some_and(|name| name != request.asked.name) {
            let rule = "must be that of the first question with the same revision";
            faults.add(Path::root("snapshot"), rule);
        }
        if !request.overlay.is_empty() {
            let rule = "must not be set with the same revision";
            faults.add(Path::root("overlay"), rule);
        }
        Ok(faults.finish(GroupQuestion {
            asked: request.asked.clone(),
            put_to: Box::new(move |on| {
                Box::new(PodDecision {
                    deciding: Deciding {
                        request,
                        on,
                        answer,
                    },
                    pending,
                    answered: RefCell::new(None),
                })
            }),
        })?)
    }

    /// Compiles and answers the questions of a group. If the group `is_large`, the task yields
    /// after each question, and ends when the client is gone.
    async fn together(
        &self,
        asks: Vec<Ask>,
        by: &RequestContext,
        is_large: bool,
    ) -> Vec<QuestionOutcome> {
        let mut members: Vec<Result<GroupQuestion, Error>> = Vec::new();
        let mut name: Option<String> = None;
        for ask in asks {
            let member = match ask {
                Ask::Filter(encoded) => self.member(&encoded, by, FILTER, name.as_deref()),
                Ask::Score(encoded) => self.member(&encoded, by, SCORE, name.as_deref()),
                Ask::Place(_) => Err(Error::Internal),
            };
            if let (Ok(member), None) = (&member, &name) {
                name = Some(member.asked.name.clone());
            }
            members.push(member);
            if is_large {
                yield_now().await;
            }
        }
        let mut valid = Vec::new();
        let refused: Vec<Option<Error>> = members
            .into_iter()
            .map(|member| member.map(|member| valid.push(member)).err())
            .collect();
        let decided = self.decide_group(valid, by, is_large).await;
        let mut decided = decided.map(Vec::into_iter).map_err(Status::from);
        let outcome = |refused: Option<Error>| match (refused, &mut decided) {
            (Some(error), _) => Err(error.into()),
            (None, Ok(each)) => {
                let next = each.next().unwrap_or(Err(Error::Internal));
                next.map_err(Status::from)
            }
            (None, Err(status)) => Err(status.clone()),
        };
        refused.into_iter().map(outcome).collect()
    }

    /// Decides the valid questions of a group on one revision.
    ///
    /// # Errors
    /// The reason why no question is answered.
    async fn decide_group(
        &self,
        members: Vec<GroupQuestion>,
        by: &RequestContext,
        is_large: bool,
    ) -> Result<Vec<Result<Done, Error>>, Error> {
        let (mut reached, mut put_to) = (None, Vec::new());
        for member in members {
            reached = Some(self.reach(&member.asked, by.deadline).await?);
            put_to.push(member.put_to);
        }
        let Some(on) = reached else {
            return Ok(Vec::new());
        };
        let put = put_to.into_iter().map(|put_to| put_to(Arc::clone(&on)));
        let mut asked: Vec<_> = put.collect();
        let state = on.state();
        let mut at_once = || asked.iter_mut().try_for_each(|a| a.at_once(&state));
        if is_large || at_once().is_err() {
            let work = move |is_given_up: &dyn Fn() -> bool| {
                let mut each = asked.iter();
                let decided = each.try_for_each(|asked| {
                    state.decide(asked.reach(), is_given_up, |read_view| asked.on(&read_view))
                });
                decided.map(|()| asked)
            };
            let decided = self.executor.decide(by, work).await?;
            asked = decided?;
        }
        Ok(asked.into_iter().map(|a| a.done()).collect())
    }
}

impl<A: Writable + 'static> GroupDecision for PodDecision<A> {
    fn reach(&self) -> Reach<'_> {
        self.deciding.reach()
    }

    fn at_once(&mut self, state: &State) -> Result<(), Stopped> {
        *self.answered.get_mut() = Some(self.deciding.at_once(state)?);
        Ok(())
    }

    fn on(&self, read_view: &ReadView<'_>) -> Result<(), Stopped> {
        *self.answered.borrow_mut() = Some(self.deciding.on_view(read_view)?);
        Ok(())
    }

    fn done(self: Box<Self>) -> Result<Done, Error> {
        let answered = self.answered.into_inner().ok_or(Error::Internal)?;
        Ok(Done::of(
            logged(self.pending, answered).map(Written::finish),
        ))
    }
}

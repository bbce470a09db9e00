//! Questions of a stream that see one revision of one snapshot.

use std::collections::HashSet;
use std::pin::Pin;
use std::sync::Arc;

use prost::bytes::Bytes;
use tokio::sync::oneshot::{self, error::TryRecvError};
use tokio::task::yield_now;
use tonic::{Response, Status};

use super::base::Service;
use super::decision_stream::{
    AnswerTag, DecisionStream, QuestionOutcome, STEPS_PER_TURN, StepSize,
};
use super::error::Error;
use super::executor::until;
use super::questions::{Deciding, PodRequest, ValidDecision};
use super::request_context::RequestContext;
use crate::limits::Limit;
use crate::matching::{Path, Violations};
use crate::proto::v1;
use crate::proto::v1::question::Ask;
use crate::snapshot::Stopped;

/// The questions of a group, after only their ids and timeouts were checked.
#[derive(Default)]
struct Group {
    tags: Vec<AnswerTag>,
    asks: Vec<Ask>,
    /// The asker with the earliest deadline.
    by: Option<RequestContext>,
}

impl DecisionStream {
    /// Asks questions that see one revision. Refused questions are answered.
    ///
    /// # Errors
    /// There are more questions than a stream may have.
    pub(super) fn ask_together(
        &mut self,
        questions: Vec<v1::Question>,
        size: StepSize,
    ) -> Result<(), Error> {
        let limits = self.service.registry.limits();
        limits.check(Limit::StreamQuestions, questions.len())?;
        let group = self.gather(questions);
        if let Err(error) = self.admit(group.tags.len()) {
            let status = Status::from(error);
            for tag in group.tags {
                self.answer(tag, Err(status.clone()));
            }
            return Ok(());
        }
        let size = StepSize {
            // Compiling and deciding many questions here would delay other calls, too.
            is_large: size.is_large || group.asks.len() > STEPS_PER_TURN,
            ..size
        };
        let mut waiting = Vec::new();
        for tag in group.tags {
            let (sender, cancelled) = oneshot::channel();
            self.unanswered.insert(tag.id, Some(sender));
            waiting.push((tag, cancelled));
        }
        let (service, asks) = (self.service.clone(), group.asks);
        let by = group.by.unwrap_or_else(|| self.by.clone());
        let deadline = by.deadline;
        let asked = async move { service.together(asks, size, &by).await };
        let asked: Pin<Box<dyn Future<Output = _> + Send>> = match size.is_large {
            true => {
                let task = self.service.spawn_feed(asked).owned();
                Box::pin(async move { task.await.map_err(|_| Error::Internal) })
            }
            false => Box::pin(async move { Ok(asked.await) }),
        };
        self.waiting.push(Box::pin(async move {
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
    fn gather(&mut self, questions: Vec<v1::Question>) -> Group {
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
                Err(error) => self.answer(tag, Err(error.into())),
            }
        }
        group
    }

    /// Adds a question to a group.
    fn add(&self, question: v1::Question, group: &mut Group) -> Result<(), Error> {
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
        group.asks.push(ask);
        Ok(())
    }
}

impl Service {
    /// Checks a question of a group. It must be about the snapshot of this name, if there is one.
    ///
    /// # Errors
    /// The reason why the question is refused.
    fn member<M: PodRequest>(
        &self,
        request: M,
        entries: usize,
        by: &RequestContext,
        snapshot: Option<&str>,
    ) -> Result<ValidDecision, Error> {
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
        Ok(faults.finish(request)?)
    }

    /// Compiles and answers the questions of a group. If the group is large, the task yields after
    /// each question, and ends when the client is gone.
    async fn together(
        &self,
        asks: Vec<Ask>,
        size: StepSize,
        by: &RequestContext,
    ) -> Vec<QuestionOutcome> {
        let mut valid: Vec<ValidDecision> = Vec::new();
        let mut refused: Vec<Option<Error>> = Vec::new();
        for ask in asks {
            let name = valid.first().map(|first| &*first.asked.name);
            let member = match ask {
                Ask::Filter(request) => self.member(request, size.entries, by, name),
                Ask::Score(request) => self.member(request, size.entries, by, name),
                Ask::Place(_) => Err(Error::Internal),
            };
            refused.push(member.map(|member| valid.push(member)).err());
            if size.is_large {
                yield_now().await;
            }
        }
        let decided = self.decide_group(valid, by, size.is_large).await;
        let mut decided = decided.map(Vec::into_iter).map_err(Status::from);
        let outcome = |refused: Option<Error>| match (refused, &mut decided) {
            (Some(error), _) => Err(error.into()),
            (None, Ok(each)) => each.next().ok_or_else(|| Error::Internal.into()),
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
        valid: Vec<ValidDecision>,
        by: &RequestContext,
        is_large: bool,
    ) -> Result<Vec<Response<Bytes>>, Error> {
        let mut reached = None;
        for request in &valid {
            reached = Some(self.reach(&request.asked, by.deadline).await?);
        }
        let Some(on) = reached else {
            return Ok(Vec::new());
        };
        let state = on.state();
        let all = valid.into_iter().map(|request| Deciding {
            request,
            on: Arc::clone(&on),
        });
        let mut all: Vec<Deciding> = all.collect();
        let at_once = match is_large {
            true => Err(Stopped::Large),
            false => all.iter().map(|each| each.at_once(&state)).collect(),
        };
        let answers: Vec<_> = match at_once {
            Ok(answers) => answers,
            Err(_) => {
                let work = move |is_given_up: &dyn Fn() -> bool| {
                    let decide = |each: &Deciding| {
                        state.decide(each.reach(), is_given_up, |read_view| {
                            each.on_view(&read_view)
                        })
                    };
                    let decided: Result<_, Stopped> = all.iter().map(decide).collect();
                    decided.map(|answers| (answers, all))
                };
                let decided = self.executor.decide(by, work).await?;
                let (answers, same) = decided?;
                all = same;
                answers
            }
        };
        let answered = all.iter_mut().zip(answers);
        Ok(answered.map(|(each, answer)| each.finish(answer)).collect())
    }
}

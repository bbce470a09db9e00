//! Questions of a stream that see one revision of one snapshot.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::{AbortHandle, ready};
use prost::Message;
use prost::bytes::Bytes;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tonic::{Response, Status};

use super::base::Service;
use super::decision_stream::{AnswerTag, Asked, Outcome, check};
use super::error::Error;
use super::executor::until;
use super::noted::{Loggable, MeasuredAnswer};
use super::questions::{PodRequest, ValidDecision};
use super::read_your_writes::AskedSnapshot;
use super::request_context::RequestContext;
use crate::limits::Limit;
use crate::matching::{Path, Violations};
use crate::proto::v1;
use crate::proto::v1::question::Ask;
use crate::snapshot::{ReadView, Snapshot, State, Stopped};

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
        let answered = state.decide(self.reach(), is_given_up, decide)?;
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
        let task = Arc::new(self.spawn_feed(run).owned());
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

//! Questions that see one revision of one snapshot.

use std::sync::Arc;

use tonic::Response;

use super::asked::AboutOnePod;
use super::asking::{AnswerBy, ValidQuestion};
use super::base::Service;
use super::decide::Deciding;
use super::decision::ValidDecision;
use super::error::Error;
use super::logged::logged;
use super::opening::Asker;
use super::written::{Done, Writable, Written};
use crate::decision_log::Pending;
use crate::matching::{Path, Violations};
use crate::proto::encoded::Encoded;
use crate::snapshot::{Delay, ReadView, Snapshot};

/// How often a group is asked question by question. If batches come between them
/// each time, it is asked on copies.
const ATTEMPTS: usize = 3;

/// A valid question of a group.
pub trait GroupQuestion: Send {
    /// What is asked.
    fn request(&self) -> &ValidDecision;

    /// The question to a snapshot.
    fn to(self: Box<Self>, on: &Arc<Snapshot>) -> Box<dyn GroupDecision>;
}

/// A question of a group to its snapshot.
pub trait GroupDecision: Send {
    /// The namespace of its pod.
    fn namespace(&self) -> &str;

    /// Decides at once. Returns the revision that it saw.
    fn at_once(&mut self) -> Result<i64, Delay>;

    /// Decides on a read view.
    fn on(&mut self, read_view: &ReadView<'_>);

    /// The answer, if it was decided.
    fn done(self: Box<Self>) -> Result<Done, Error>;
}

struct PodQuestion<A> {
    question: ValidQuestion,
    answer: AnswerBy<Written<A>>,
}

struct PodDecision<A> {
    deciding: Deciding<Written<A>>,
    pending: Option<Pending>,
    answered: Option<Response<Written<A>>>,
}

impl Service {
    /// A valid question of a group, whose others are about a snapshot of this name.
    ///
    /// # Errors
    /// Why it is refused.
    pub(super) fn member<M: AboutOnePod, A: Writable + 'static>(
        &self,
        encoded: &Encoded<M>,
        by: &Asker,
        answer: AnswerBy<Written<A>>,
        snapshot: Option<&str>,
    ) -> Result<Box<dyn GroupQuestion>, Error> {
        let question = self.question(encoded, by)?;
        let mut faults = Violations::default();
        if snapshot.is_some_and(|name| name != question.request.snapshot) {
            let rule = "must be that of the first question with the same revision";
            faults.add(Path::root("snapshot"), rule);
        }
        if !question.request.overlay.is_empty() {
            let rule = "must not be set with the same revision";
            faults.add(Path::root("overlay"), rule);
        }
        Ok(faults.finish(Box::new(PodQuestion { question, answer }))?)
    }

    /// Answers the questions of a group.
    ///
    /// # Errors
    /// Why none is answered.
    pub(super) async fn together(
        &self,
        members: Vec<Box<dyn GroupQuestion>>,
        by: &Asker,
    ) -> Result<Vec<Result<Done, Error>>, Error> {
        let waits = |request: &ValidDecision| (request.snapshot.clone(), request.at_least.clone());
        let waits: Vec<_> = members.iter().map(|m| waits(m.request())).collect();
        let mut reached = None;
        for (snapshot, at_least) in waits {
            reached = Some(self.reach(&snapshot, &at_least, by.deadline).await?);
        }
        let Some(on) = reached else {
            return Ok(Vec::new());
        };
        let mut asked: Vec<Box<dyn GroupDecision>> =
            members.into_iter().map(|m| m.to(&on)).collect();
        if !decided_at_once(&mut asked) {
            let work = move |is_given_up: &dyn Fn() -> bool| {
                on_copies(&mut asked, &on, is_given_up).map(|()| asked)
            };
            let decided = self.lanes.decide(&by.who, by.deadline, work).await?;
            asked = decided.map_err(Error::of_aside)?;
        }
        Ok(asked.into_iter().map(|a| a.done()).collect())
    }
}

/// Whether all could be decided at once, on one revision.
fn decided_at_once(asked: &mut [Box<dyn GroupDecision>]) -> bool {
    for _ in 0..ATTEMPTS {
        let revisions: Result<Vec<i64>, Delay> = asked.iter_mut().map(|a| a.at_once()).collect();
        match revisions {
            Ok(revisions) if revisions.windows(2).all(|pair| pair[0] == pair[1]) => return true,
            Ok(_) => {}
            Err(_) => return false,
        }
    }
    false
}

/// Decides on copies of one revision.
fn on_copies(
    asked: &mut [Box<dyn GroupDecision>],
    on: &Snapshot,
    is_given_up: &dyn Fn() -> bool,
) -> Result<(), Delay> {
    let namespaces: Vec<String> = asked.iter().map(|a| a.namespace().to_owned()).collect();
    on.read_each(&namespaces, is_given_up, |at, read_view| {
        asked[at].on(&read_view);
    })
}

impl<A: Writable + 'static> GroupQuestion for PodQuestion<A> {
    fn request(&self) -> &ValidDecision {
        &self.question.request
    }

    fn to(self: Box<Self>, on: &Arc<Snapshot>) -> Box<dyn GroupDecision> {
        let ValidQuestion { request, pending } = self.question;
        Box::new(PodDecision {
            deciding: Deciding {
                request,
                on: Arc::clone(on),
                answer: self.answer,
            },
            pending,
            answered: None,
        })
    }
}

impl<A: Writable + 'static> GroupDecision for PodDecision<A> {
    fn namespace(&self) -> &str {
        &self.deciding.request.question.pod().namespace
    }

    fn at_once(&mut self) -> Result<i64, Delay> {
        let answered = self.deciding.at_once()?;
        let revision = answered.get_ref().revision();
        self.answered = Some(answered);
        Ok(revision)
    }

    fn on(&mut self, read_view: &ReadView<'_>) {
        self.answered = Some(self.deciding.on_view(read_view));
    }

    fn done(self: Box<Self>) -> Result<Done, Error> {
        let answered = self.answered.ok_or(Error::Internal)?;
        Ok(Done::of(
            logged(self.pending, answered).map(Written::finish),
        ))
    }
}

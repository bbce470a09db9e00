//! Questions of a stream that see one revision of one snapshot.

use std::sync::Arc;

use tokio::sync::oneshot::{self, error::TryRecvError};
use tonic::{Response, Status};

use super::asked::AboutOnePod;
use super::asking::{FILTER, SCORE, ValidQuestion};
use super::base::Service;
use super::decide::{AnswerBy, Deciding};
use super::decision_stream::{DecisionStream, Slip};
use super::error::Error;
use super::lanes::until;
use super::logged::logged;
use super::opening::Asker;
use super::reaching::AtLeast;
use super::stream_steps::{Ask, StreamedQuestion};
use super::written::{Done, Writable, Written};
use crate::decision_log::Pending;
use crate::matching::{Path, Violations};
use crate::proto::encoded::Encoded;
use crate::snapshot::{Attempt, Delay, ReadView, Snapshot};

/// How often a group is asked question by question. If batches come between them
/// each time, it is asked on copies.
const ATTEMPTS: usize = 3;

/// The valid questions of a group.
#[derive(Default)]
struct Group {
    slips: Vec<Slip>,
    members: Vec<GroupQuestion>,
    /// How many bytes their requests have.
    bytes: usize,
    /// The one with the least timeout.
    by: Option<Asker>,
}

impl DecisionStream {
    /// Asks questions that see one revision. Those that are refused are answered.
    pub(super) fn ask_together(&mut self, questions: Vec<StreamedQuestion>) {
        let mut group = Group::default();
        for question in questions {
            let slip = self.slip(&question);
            if let Err(error) = self.add(question, &mut group) {
                self.refuse(slip, error.into());
            } else {
                group.slips.push(slip);
            }
        }
        let charge = match self.admit(group.slips.len(), group.bytes) {
            Ok(charge) => charge,
            Err(error) => {
                let status = Status::from(error);
                for slip in group.slips {
                    self.refuse(slip, status.clone());
                }
                return;
            }
        };
        let mut waiting = Vec::new();
        for slip in group.slips {
            let (sender, cancelled) = oneshot::channel();
            self.unanswered.insert(slip.id, Some(sender));
            waiting.push((slip, cancelled));
        }
        let service = self.service.clone();
        let by = group.by.unwrap_or_else(|| self.by.clone());
        self.waiting.push(Box::pin(async move {
            let _charge = charge;
            let asked = service.together(group.members, &by);
            let answers = until(by.deadline, asked).await.and_then(|asked| asked);
            let mut answers = answers.map(Vec::into_iter).map_err(Status::from);
            let answered = waiting.into_iter().map(|(slip, mut cancelled)| {
                let answer = match &mut answers {
                    Ok(each) => {
                        let next = each.next().unwrap_or(Err(Error::Internal));
                        next.map_err(Status::from)
                    }
                    Err(status) => Err(status.clone()),
                };
                let outcome = match cancelled.try_recv() {
                    Err(TryRecvError::Closed) => Err(Error::Cancelled.into()),
                    _ => answer,
                };
                (slip, outcome)
            });
            answered.collect()
        }));
    }

    /// Adds a question to a group.
    fn add(&self, question: StreamedQuestion, group: &mut Group) -> Result<(), Error> {
        if group.slips.iter().any(|slip| slip.id == question.id) {
            let rule = "is that of another question of the group";
            return Err(Error::fault(Path::root("id"), rule));
        }
        let (ask, timeout) = self.check(question)?;
        let bytes = ask.len();
        let first = group.members.first();
        let name = first.map(|member| &*member.snapshot);
        let (service, by) = (&self.service, &self.by);
        let member = match ask {
            Ask::Filter(encoded) => service.member(&encoded, by, FILTER, name)?,
            Ask::Score(encoded) => service.member(&encoded, by, SCORE, name)?,
            Ask::Place(_) => {
                let rule = "cannot be asked with the same revision as others";
                return Err(Error::fault(Path::root("place"), rule));
            }
        };
        if let Some(own) = timeout.map(|timeout| self.asker_within(timeout))
            && group
                .by
                .as_ref()
                .is_none_or(|by| own.deadline < by.deadline)
        {
            group.by = Some(own);
        }
        group.bytes += bytes;
        group.members.push(member);
        Ok(())
    }

    fn refuse(&mut self, slip: Slip, status: Status) {
        let answer = self.answer(slip, Err(status));
        self.ready.push_back(answer);
    }
}

/// A valid question of a group.
struct GroupQuestion {
    /// The snapshot that it means.
    snapshot: String,
    /// What to wait for.
    at_least: AtLeast,
    /// Puts it to that snapshot.
    put_to: Box<dyn FnOnce(Arc<Snapshot>) -> Box<dyn GroupDecision> + Send>,
}

/// A question of a group to its snapshot.
trait GroupDecision: Send {
    /// The namespace of its pod.
    fn namespace(&self) -> &str;

    /// Decides at once. Returns the revision that it saw.
    fn at_once(&mut self) -> Result<i64, Delay>;

    /// Decides on a read view.
    fn on(&mut self, read_view: &ReadView<'_>);

    /// The answer, if it was decided.
    fn done(self: Box<Self>) -> Result<Done, Error>;
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
    fn member<M: AboutOnePod, A: Writable + 'static>(
        &self,
        encoded: &Encoded<M>,
        by: &Asker,
        answer: AnswerBy<Written<A>>,
        snapshot: Option<&str>,
    ) -> Result<GroupQuestion, Error> {
        let ValidQuestion { request, pending } = self.question(encoded, by)?;
        let mut faults = Violations::default();
        if snapshot.is_some_and(|name| name != request.snapshot) {
            let rule = "must be that of the first question with the same revision";
            faults.add(Path::root("snapshot"), rule);
        }
        if !request.overlay.is_empty() {
            let rule = "must not be set with the same revision";
            faults.add(Path::root("overlay"), rule);
        }
        Ok(faults.finish(GroupQuestion {
            snapshot: request.snapshot.clone(),
            at_least: request.at_least.clone(),
            put_to: Box::new(move |on| {
                Box::new(PodDecision {
                    deciding: Deciding {
                        request,
                        on,
                        answer,
                    },
                    pending,
                    answered: None,
                })
            }),
        })?)
    }

    /// Answers the questions of a group.
    ///
    /// # Errors
    /// Why none is answered.
    async fn together(
        &self,
        members: Vec<GroupQuestion>,
        by: &Asker,
    ) -> Result<Vec<Result<Done, Error>>, Error> {
        let (mut reached, mut put_to) = (None, Vec::new());
        for member in members {
            let on = self.reach(&member.snapshot, &member.at_least, by.deadline);
            reached = Some(on.await?);
            put_to.push(member.put_to);
        }
        let Some(on) = reached else {
            return Ok(Vec::new());
        };
        let put = put_to.into_iter().map(|put_to| put_to(Arc::clone(&on)));
        let mut asked: Vec<_> = put.collect();
        if !decided_at_once(&mut asked) {
            let work = move |is_given_up: &dyn Fn() -> bool| {
                on_copies(&mut asked, &on, is_given_up).map(|()| asked)
            };
            let decided = self.lanes.decide(by, work).await?;
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

impl<A: Writable + 'static> GroupDecision for PodDecision<A> {
    fn namespace(&self) -> &str {
        self.deciding.namespace()
    }

    fn at_once(&mut self) -> Result<i64, Delay> {
        let answered = self.deciding.at_once(Attempt::First)?;
        let revision = answered.get_ref().revision;
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

//! Questions of a stream that see one revision.

use tokio::sync::oneshot;
use tonic::Status;

use super::asking::{FILTER, SCORE};
use super::decision_stream::{DecisionStream, QuestionOutcome, Slip};
use super::error::Error;
use super::lanes::until;
use super::opening::Asker;
use super::stream_steps::{Ask, StreamedQuestion};
use super::together::GroupQuestion;
use crate::matching::{Path, Violations};

/// The valid questions of a group.
#[derive(Default)]
struct Group {
    slips: Vec<Slip>,
    members: Vec<Box<dyn GroupQuestion>>,
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
            let mut answers = GroupAnswers::of(until(by.deadline, asked).await);
            let answered = waiting.into_iter().map(|(slip, mut cancelled)| {
                let outcome = answers.next();
                let is_cancelled =
                    cancelled.try_recv() == Err(oneshot::error::TryRecvError::Closed);
                match is_cancelled {
                    true => (slip, Err(Error::Cancelled.into())),
                    false => (slip, outcome),
                }
            });
            answered.collect()
        }));
    }

    /// Adds a question to a group.
    fn add(&self, question: StreamedQuestion, group: &mut Group) -> Result<(), Error> {
        if group.slips.iter().any(|slip| slip.id == question.id) {
            return Err(fault("id", "is that of another question of the group"));
        }
        let (ask, timeout) = self.check(question)?;
        let bytes = ask.len();
        let first = group.members.first();
        let name = first.map(|member| &*member.request().snapshot);
        let (service, by) = (&self.service, &self.by);
        let member = match ask {
            Ask::Filter(encoded) => service.member(&encoded, by, FILTER, name)?,
            Ask::Score(encoded) => service.member(&encoded, by, SCORE, name)?,
            Ask::Place(_) => {
                let rule = "cannot be asked with the same revision as others";
                return Err(fault("place", rule));
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

/// The answers of a group in order, or why there is none.
enum GroupAnswers {
    Each(std::vec::IntoIter<QuestionOutcome>),
    None(Status),
}

impl GroupAnswers {
    fn of(asked: Result<Result<Vec<Result<super::written::Done, Error>>, Error>, Error>) -> Self {
        match asked.and_then(|asked| asked) {
            Ok(answers) => {
                let each = answers.into_iter().map(|a| a.map_err(Status::from));
                Self::Each(each.collect::<Vec<_>>().into_iter())
            }
            Err(error) => Self::None(error.into()),
        }
    }

    fn next(&mut self) -> QuestionOutcome {
        match self {
            Self::Each(answers) => {
                let next = answers.next();
                next.unwrap_or_else(|| Err(Error::Internal.into()))
            }
            Self::None(status) => Err(status.clone()),
        }
    }
}

fn fault(field: &str, rule: &str) -> Error {
    let mut faults = Violations::default();
    faults.add(Path::root(field), rule);
    faults.into()
}

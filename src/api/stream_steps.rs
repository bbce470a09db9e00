//! The steps of a stream of questions. They are read, and the questions in them stay encoded. The port
//! charges the memory of the steps as they arrive, and their questions hold the charge.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use prost::Message;
use prost::bytes::Bytes;

use super::error::Error;
use super::executor::LARGE_REQUEST;
use crate::account::Charge;
use crate::matching::{Path, Violations};
use crate::proto::encoded::Encoded;
use crate::proto::v1;
use crate::proto::wire::WireFields;

/// The number of unknown fields of a question, from newer clients, that are skipped. A question
/// with more is decoded.
const MAX_UNKNOWN: usize = 64;

/// The most bytes of a question's timeout that is read without decoding.
const MAX_TIMEOUT_BYTES: usize = 64;

/// A step.
#[derive(Debug)]
pub enum Step {
    /// A question.
    Ask(StreamedQuestion),
    /// Questions that see one revision.
    Together(Vec<StreamedQuestion>),
    /// The question of this id is cancelled.
    Cancel(u64),
}

/// A question of a stream.
#[derive(Debug)]
pub struct StreamedQuestion {
    /// The id that its answer carries.
    pub id: u64,
    /// The time that the answer may take.
    pub timeout: Option<pbjson_types::Duration>,
    /// The question; `None` if it is missing.
    pub ask: Option<Ask>,
}

/// The question.
#[derive(Debug)]
pub enum Ask {
    /// As the call Filter.
    Filter(Encoded<v1::FilterRequest>),
    /// As the call Score.
    Score(Encoded<v1::ScoreRequest>),
    /// As the call Place.
    Place(Encoded<v1::PlaceRequest>),
}

impl Step {
    /// Reads a step.
    ///
    /// # Errors
    /// [`Error::Undecodable`] and [`Error::Invalid`]; then there is no question to answer.
    pub fn read(encoded: &Encoded<v1::DecideRequest>) -> Result<Self, Error> {
        use v1::decide_request::Step;
        if let Some(question) = StreamedQuestion::outlined(&encoded.bytes) {
            return Ok(Self::Ask(question));
        }
        if let Some(questions) = StreamedQuestion::group_outlined(&encoded.bytes) {
            return Ok(Self::Together(questions));
        }
        if encoded.bytes.len() > LARGE_REQUEST {
            let rule = format!(
                "a step of more than {LARGE_REQUEST} bytes must be encoded with each field once, \
                 in the order of their numbers"
            );
            return Err(Error::Undecodable(rule));
        }
        match encoded.decode()?.step {
            Some(Step::Question(question)) => Ok(Self::Ask(question.into())),
            Some(Step::SameRevision(group)) => {
                let questions = group.questions.into_iter().map(Into::into);
                Ok(Self::Together(questions.collect()))
            }
            Some(Step::Cancel(id)) => Ok(Self::Cancel(id)),
            None => Err(Error::fault(Path::root("step"), "is required")),
        }
    }
}

impl From<v1::Question> for StreamedQuestion {
    fn from(question: v1::Question) -> Self {
        use v1::question;
        Self {
            id: question.id,
            timeout: question.timeout,
            ask: question.ask.map(|ask| match ask {
                question::Ask::Filter(filter) => Ask::Filter(filter.into()),
                question::Ask::Score(score) => Ask::Score(score.into()),
                question::Ask::Place(place) => Ask::Place(place.into()),
            }),
        }
    }
}

impl StreamedQuestion {
    /// The question in a step, without reading its request. `None` if the step has to be decoded:
    /// it is no question, or has unusual fields or parts of fields that decoding merges.
    fn outlined(step: &Bytes) -> Option<Self> {
        let mut rest = WireFields::new(step);
        let (1, fields) = message_field(&mut rest)? else {
            return None;
        };
        rest.is_at_end().then(|| Self::of_fields(step, fields))?
    }

    /// The questions of one revision in a step, without reading their requests. `None` as for
    /// [`outlined`](Self::outlined).
    fn group_outlined(step: &Bytes) -> Option<Vec<Self>> {
        let mut rest = WireFields::new(step);
        let (3, group) = message_field(&mut rest)? else {
            return None;
        };
        let mut group = WireFields::new(group);
        let mut questions = Vec::new();
        while !group.is_at_end() {
            let (1, fields) = message_field(&mut group)? else {
                return None;
            };
            questions.push(Self::of_fields(step, fields)?);
        }
        rest.is_at_end().then_some(questions)
    }

    /// A question with these fields, which are a part of the step.
    fn of_fields(step: &Bytes, bytes: &[u8]) -> Option<Self> {
        let mut question = Self {
            id: 0,
            timeout: None,
            ask: None,
        };
        let mut fields = WireFields::new(bytes);
        let (mut has_id, mut unknown) = (false, 0_usize);
        while let Some(field) = fields.next()? {
            if field.number == 1 && !has_id {
                question.id = fields.number(&field)?;
                has_id = true;
                continue;
            }
            let value = fields.content(&field)?;
            let is_timeout = field.number == 2 && question.timeout.is_none();
            if is_timeout && value.len() <= MAX_TIMEOUT_BYTES {
                question.timeout = Some(Message::decode(value).ok()?);
                continue;
            }
            // Skips a field that only a newer client knows.
            if field.number > 5 && unknown < MAX_UNKNOWN {
                unknown = unknown.saturating_add(1);
                continue;
            }
            if question.ask.is_some() {
                return None;
            }
            let asked = step.slice_ref(value);
            question.ask = Some(match field.number {
                3 => Ask::Filter(Encoded::new(asked)),
                4 => Ask::Score(Encoded::new(asked)),
                5 => Ask::Place(Encoded::new(asked)),
                _ => return None,
            });
        }
        Some(question)
    }

    /// Returns the time that the answer may take, if the question gives one.
    ///
    /// # Errors
    /// The fault of that time, or that the question is missing.
    pub fn check(&self) -> Result<Option<Duration>, Violations> {
        let mut faults = Violations::default();
        if self.ask.is_none() {
            faults.add(Path::root("ask"), "is required");
        }
        let timeout = self.timeout.map(Duration::try_from);
        let timeout = match timeout {
            Some(Ok(timeout)) if !timeout.is_zero() => Some(timeout),
            Some(_) => {
                faults.add(Path::root("timeout"), "must be positive");
                None
            }
            None => None,
        };
        faults.finish(timeout)
    }
}

impl Ask {
    /// Returns the number of the request's bytes.
    pub fn len(&self) -> usize {
        match self {
            Self::Filter(encoded) => encoded.bytes.len(),
            Self::Score(encoded) => encoded.bytes.len(),
            Self::Place(encoded) => encoded.bytes.len(),
        }
    }
}

/// Reads the next field, which must hold bytes. Returns the field's number and bytes.
fn message_field<'a>(fields: &mut WireFields<'a>) -> Option<(u32, &'a [u8])> {
    let field = fields.next()??;
    Some((field.number, fields.content(&field)?))
}

/// The charges of a stream's steps; an extension of its request. Small steps have none.
#[derive(Clone, Default)]
pub struct StepCharges(Arc<Mutex<HandedOver>>);

#[derive(Default)]
struct HandedOver {
    /// The charges of steps that are not taken yet, in order.
    arrived: VecDeque<Option<Charge>>,
    /// The charge of the step that is being taken.
    current: Option<Charge>,
}

impl StepCharges {
    /// Hands over the charge of the next step that arrived.
    pub fn hand_over(&self, charge: Option<Charge>) {
        self.0.lock().arrived.push_back(charge);
    }

    /// Begins with the next step. At the end of the step its charge is given back, unless a
    /// question holds it.
    pub(super) fn next(&self) -> TakenStep {
        let mut charges = self.0.lock();
        charges.current = charges.arrived.pop_front().flatten();
        TakenStep(self.clone())
    }

    /// Holds the charge of the step that is being taken.
    pub(super) fn hold(&self) -> Option<Charge> {
        self.0.lock().current.take()
    }
}

/// A step that is being taken.
pub(super) struct TakenStep(StepCharges);

impl Drop for TakenStep {
    fn drop(&mut self) {
        self.0.0.lock().current = None;
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// A field of a question, or bytes that might be one.
    fn part() -> impl Strategy<Value = Vec<u8>> {
        let filter = |snapshot: &str| v1::FilterRequest {
            snapshot: snapshot.to_owned(),
            ..v1::FilterRequest::default()
        };
        let asks = [
            v1::question::Ask::Filter(filter("")),
            v1::question::Ask::Filter(filter("one")),
            v1::question::Ask::Score(v1::ScoreRequest::default()),
            v1::question::Ask::Place(v1::PlaceRequest::default()),
        ];
        let ask = (0..asks.len()).prop_map(move |at| {
            let ask = Some(asks[at].clone());
            let question = v1::Question {
                ask,
                ..v1::Question::default()
            };
            question.encode_to_vec()
        });
        prop_oneof![
            4 => ask,
            2 => (0..200_u8).prop_map(|id| vec![0x08, id, 1]),
            1 => (0..4_u8).prop_map(|seconds| vec![0x12, 2, 8, seconds]),
            1 => vec(any::<u8>(), 0..4),
            1 => Just(vec![0x1a, 2, 0x10, 0]),
        ]
    }

    proptest! {
        /// Reading a step without decoding gives the same as decoding, unless the decoder refuses
        /// the request. Such a request is refused later.
        #[test]
        fn a_step_is_read_as_it_is_decoded(parts in vec(part(), 0..4), more in vec(any::<u8>(), 0..3)) {
            let question = parts.concat();
            let mut step = vec![0x0a];
            prost::encoding::encode_varint(question.len() as u64, &mut step);
            step.extend(question);
            step.extend(more);
            let encoded = Encoded::<v1::DecideRequest>::new(step.into());
            let Some(outlined) = StreamedQuestion::outlined(&encoded.bytes) else {
                return Ok(());
            };
            let asked = match &outlined.ask {
                None => Ok(None),
                Some(Ask::Filter(ask)) => ask.decode().map(|ask| Some(v1::question::Ask::Filter(ask))),
                Some(Ask::Score(ask)) => ask.decode().map(|ask| Some(v1::question::Ask::Score(ask))),
                Some(Ask::Place(ask)) => ask.decode().map(|ask| Some(v1::question::Ask::Place(ask))),
            };
            match (encoded.decode().map(|it| it.step), asked) {
                (Ok(Some(v1::decide_request::Step::Question(question))), Ok(ask)) => {
                    assert_eq!((question.id, question.timeout), (outlined.id, outlined.timeout));
                    assert_eq!(question.ask, ask);
                }
                (Err(_), Err(_)) => {}
                other => panic!("{other:?}"),
            }
        }
    }
}

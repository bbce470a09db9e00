//! Decisions on their way into the decision log.

use tonic::Response;

use super::measured::Decision;
use crate::decision_log::{Brief, Pending};
use crate::proto::v1;

/// What the log says of an answer.
pub struct AnswerRecord {
    /// The answer in brief.
    pub brief: Brief,
    /// Epoch of the revision that it saw.
    pub epoch: String,
    /// That revision.
    pub revision: i64,
}

/// An answer that can be logged.
pub trait Loggable {
    /// What the log says of it; `None` if it is no answer.
    fn record(&self) -> Option<AnswerRecord>;
    /// Gives it the id that it has in the log.
    fn set_id(&mut self, id: String);
}

macro_rules! loggable {
    ($($answer:ident by $brief:ident;)*) => {$(
        impl Loggable for v1::$answer {
            fn record(&self) -> Option<AnswerRecord> {
                Some(AnswerRecord {
                    brief: Brief::$brief(self),
                    epoch: self.epoch.clone(),
                    revision: self.revision,
                })
            }
            fn set_id(&mut self, id: String) {
                self.decision_id = id;
            }
        }
    )*};
}

loggable! {
    PlaceResponse by of_place;
    ExplainResponse by of_explain;
}

/// Logs a decision, if it is to be logged. A refused request is no decision.
pub fn logged<T: Loggable>(pending: Option<Pending>, mut response: Response<T>) -> Response<T> {
    if let Some(pending) = pending
        && let Some(record) = response.get_ref().record()
    {
        let took = response.extensions().get().map(|d: &Decision| d.took);
        let AnswerRecord {
            brief,
            epoch,
            revision,
        } = record;
        let id = pending.finish(epoch, revision, took, brief);
        response.get_mut().set_id(id);
    }
    response
}

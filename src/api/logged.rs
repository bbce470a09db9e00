//! Decisions on their way into the decision log.

use tonic::Response;

use super::measured::Decision;
use crate::decision_log::{Brief, Pending};
use crate::proto::v1;

/// An answer that can be logged.
pub trait Loggable {
    /// The answer in brief.
    fn brief(&self) -> Brief;
    /// Epoch and revision that it saw.
    fn seen(&self) -> (&str, i64);
    /// Gives it the id that it has in the log.
    fn set_id(&mut self, id: String);
}

macro_rules! loggable {
    ($($answer:ident by $brief:ident;)*) => {$(
        impl Loggable for v1::$answer {
            fn brief(&self) -> Brief {
                Brief::$brief(self)
            }
            fn seen(&self) -> (&str, i64) {
                (&self.epoch, self.revision)
            }
            fn set_id(&mut self, id: String) {
                self.decision_id = id;
            }
        }
    )*};
}

loggable! {
    FilterResponse by of_filter;
    ScoreResponse by of_score;
    PlaceResponse by of_place;
    ExplainResponse by of_explain;
}

/// Logs a decision, if it is to be logged. A refused request is no decision.
pub fn logged<T: Loggable>(pending: Option<Pending>, mut response: Response<T>) -> Response<T> {
    if let Some(pending) = pending {
        let took = response.extensions().get().map(|d: &Decision| d.took);
        let answer = response.get_mut();
        let brief = answer.brief();
        let (epoch, revision) = answer.seen();
        let id = pending.finish(epoch, revision, took, brief);
        answer.set_id(id);
    }
    response
}

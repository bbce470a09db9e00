//! Decisions on their way into the decision log.

use std::time::Duration;

use tonic::Response;

use super::measured::Decision;
use crate::decision_log::{Brief, Pending};
use crate::proto::v1;

/// An answer that can be logged.
pub trait Loggable {
    /// Hands its record over, with what deciding took. Returns the id that it has in
    /// the log; `None` if it is no answer.
    fn record(&self, pending: Pending, took: Option<Duration>) -> Option<String>;
    /// Gives it the id that it has in the log.
    fn set_id(&mut self, id: String);
}

macro_rules! loggable {
    ($($answer:ident by $brief:ident;)*) => {$(
        impl Loggable for v1::$answer {
            fn record(&self, pending: Pending, took: Option<Duration>) -> Option<String> {
                let brief = Brief::$brief(self);
                Some(pending.finish(self.epoch.clone(), self.revision, took, brief))
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
        if let Some(id) = response.get_ref().record(pending, took) {
            response.get_mut().set_id(id);
        }
    }
    response
}

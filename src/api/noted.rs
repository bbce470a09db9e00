//! Facts about an answer: the size of its decision, the time that it took, and its record in the
//! decision log.

use std::time::{Duration, Instant};

use tonic::Response;

use super::answer::count;
use crate::decision_log::{Brief, Pending};
use crate::proto::v1;
use crate::snapshot::Snapshot;

/// The cost of a decision, without reading the request, waiting and writing the answer. It is an
/// extension of the response, for the metrics and traces of the server.
#[derive(Debug, Clone, Copy)]
pub struct Decision {
    /// The moment when the decision began.
    pub started: Instant,
    /// The time that the decision took.
    pub took: Duration,
    /// The size of the decision.
    pub size: Size,
}

/// The size of a decision.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Size {
    /// Nodes or clusters that were judged; for Place, the replicas that were asked for.
    pub nodes: i64,
    /// Domains, summed over the constraints.
    pub domains: i64,
    /// For Filter, nodes that may run the pod; for Score, nodes scored; for Place, replicas placed.
    pub feasible: i64,
}

/// An answer that can tell the size of its decision.
pub trait MeasuredAnswer {
    /// Returns the size of the decision.
    fn size(&self) -> Size;

    /// Fills in the epoch and age of the snapshot.
    fn note(&mut self, snapshot: &Snapshot);
}

macro_rules! answers {
    ($($answer:ident: $size:expr;)*) => {$(
        impl MeasuredAnswer for v1::$answer {
            fn size(&self) -> Size {
                $size(self)
            }

            fn note(&mut self, snapshot: &Snapshot) {
                snapshot.epoch().clone_into(&mut self.epoch);
                self.age = snapshot.age().map(Into::into);
            }
        }
    )*};
}

answers! {
    FilterResponse: |answer: &Self| Size {
        nodes: answer.node_count,
        domains: domains(&answer.constraints),
        feasible: answer.feasible_count,
    };
    ScoreResponse: |answer: &Self| Size {
        domains: domains(&answer.constraints),
        ..Size::default()
    };
    ExplainResponse: |answer: &Self| Size {
        nodes: answer.node_count,
        domains: domains(&answer.constraints),
        feasible: answer.feasible_count,
    };
    PlaceResponse: |answer: &Self| {
        let placed = count(answer.placements.len());
        Size {
            nodes: placed.saturating_add(answer.unplaced.into()),
            domains: domains(&answer.constraints),
            feasible: placed,
        }
    };
    // Plans and surveys have no one number of nodes.
    RebalanceResponse: |_| Size::default();
    PlanNodesResponse: |_| Size::default();
    RankRemovalsResponse: |_| Size::default();
    DescribeSpreadResponse: |_| Size::default();
}

fn domains(reports: &[v1::ConstraintReport]) -> i64 {
    reports.iter().map(|report| report.domain_count).sum()
}

/// Decides on a snapshot, and records the size of the decision and the time that it took.
///
/// # Errors
/// Those of `decide`.
pub fn try_measured<T: MeasuredAnswer, E>(
    snapshot: &Snapshot,
    decide: impl FnOnce() -> Result<T, E>,
) -> Result<Response<T>, E> {
    let started = Instant::now();
    let mut answer = decide()?;
    answer.note(snapshot);
    let decision = Decision {
        started,
        took: started.elapsed(),
        size: answer.size(),
    };
    let mut response = Response::new(answer);
    response.extensions_mut().insert(decision);
    Ok(response)
}

/// An answer that can be logged.
pub trait Loggable {
    /// Hands over the record of the answer, with the time that deciding took. Returns the record's
    /// id in the log; `None` if this is no answer.
    fn record(&self, pending: Pending, took: Option<Duration>) -> Option<String>;
    /// Writes the record's id into the answer.
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

/// Logs a decision, if decisions are logged. A refused request is no decision.
pub fn logged<T: Loggable>(pending: Option<Pending>, mut response: Response<T>) -> Response<T> {
    if let Some(pending) = pending {
        let took = response.extensions().get().map(|d: &Decision| d.took);
        if let Some(id) = response.get_ref().record(pending, took) {
            response.get_mut().set_id(id);
        }
    }
    response
}

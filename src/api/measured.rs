//! How large a decision was and how long it took: an extension of its response,
//! for the metrics and traces of the server. `api` itself does not read it.

use std::time::{Duration, Instant};

use tonic::Response;

use super::answer::count;
use crate::proto::v1;
use crate::snapshot::Snapshot;

/// What deciding took, without reading the request, waiting and writing the
/// answer.
#[derive(Debug, Clone, Copy)]
pub struct Decision {
    /// When it began.
    pub started: Instant,
    /// How long it took.
    pub took: Duration,
    /// How large it was.
    pub size: Size,
}

/// How large a decision was.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Size {
    /// Nodes or clusters judged, of Place: replicas asked for.
    pub nodes: i64,
    /// Domains, summed over the constraints.
    pub domains: i64,
    /// Of Filter: nodes that may run the pod; of Score: nodes scored; of
    /// Place: replicas placed.
    pub feasible: i64,
}

/// An answer that knows how large its decision was.
pub trait MeasuredAnswer {
    /// Returns how large.
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
    RebalanceResponse: |answer: &Self| Size {
        domains: answer
            .workloads
            .iter()
            .flat_map(|workload| &workload.before)
            .map(|topology| topology.domain_count)
            .sum(),
        feasible: count(answer.moves.len()),
        ..Size::default()
    };
    RankRemovalsResponse: |answer: &Self| Size {
        domains: answer.before.iter().map(|topology| topology.domain_count).sum(),
        feasible: count(answer.removals.len()),
        ..Size::default()
    };
    DescribeSpreadResponse: |answer: &Self| {
        let topologies = answer.workloads.iter().flat_map(|w| &w.topologies);
        Size {
            domains: topologies.map(|topology| topology.domain_count).sum(),
            ..Size::default()
        }
    };
}

fn domains(reports: &[v1::ConstraintReport]) -> i64 {
    reports.iter().map(|report| report.domain_count).sum()
}

/// Decides on a snapshot, and notes how large that was and how long it took.
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

//! How large a decision was and how long it took: an extension of its
//! response, for whoever watches the server. `api` itself does nothing with it.

use std::time::{Duration, Instant};

use tonic::Response;

use super::answer::count;
use crate::proto::v1;

/// What deciding took, apart from reading the request, waiting and writing the
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
pub trait Answer {
    /// How large.
    fn size(&self) -> Size;
}

impl Answer for v1::FilterResponse {
    fn size(&self) -> Size {
        Size {
            nodes: self.node_count,
            domains: domains(&self.constraints),
            feasible: self.feasible_count,
        }
    }
}

impl Answer for v1::ScoreResponse {
    fn size(&self) -> Size {
        let scored = count(self.scores.len().max(self.packed_scores.len()));
        Size {
            nodes: scored,
            domains: domains(&self.constraints),
            feasible: scored,
        }
    }
}

impl Answer for v1::ExplainResponse {
    fn size(&self) -> Size {
        Size {
            nodes: self.node_count,
            domains: domains(&self.constraints),
            feasible: self.feasible_count,
        }
    }
}

impl Answer for v1::DescribeSpreadResponse {
    fn size(&self) -> Size {
        let topologies = self.workloads.iter().flat_map(|w| &w.topologies);
        Size {
            domains: topologies.map(|topology| topology.domain_count).sum(),
            ..Size::default()
        }
    }
}

impl Answer for v1::PlaceResponse {
    fn size(&self) -> Size {
        let placed = count(self.placements.len());
        Size {
            nodes: placed + i64::from(self.unplaced),
            domains: domains(&self.constraints),
            feasible: placed,
        }
    }
}

fn domains(reports: &[v1::ConstraintReport]) -> i64 {
    reports.iter().map(|report| report.domain_count).sum()
}

/// Decides, and notes how.
///
/// # Errors
/// Those of `decide`.
pub fn try_measured<T: Answer, E>(decide: impl FnOnce() -> Result<T, E>) -> Result<Response<T>, E> {
    let started = Instant::now();
    let answer = decide()?;
    let decision = Decision {
        started,
        took: started.elapsed(),
        size: answer.size(),
    };
    let mut response = Response::new(answer);
    response.extensions_mut().insert(decision);
    Ok(response)
}

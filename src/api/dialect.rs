//! Dialects: the rules by which a pod is placed. A dialect is one type: it checks a pod, decides
//! about it and writes the answer.

use std::borrow::Cow;
use std::fmt::Debug;

use fixedbitset::FixedBitSet;
use prost::Message;

use super::answer::{self, Candidates, ListedAnswer};
use super::error::Error;
use super::placing::ValidPlacement;
use crate::matching::{Path, Violations};
use crate::proto::{count, v1};
use crate::snapshot::{Limits, ReadView, Slot, Stopped};
use crate::spread::fleet::PlacementSpec;
use crate::spread::{NodeChecks, NodeRefusal, PlaceOptions, Question, Report, Tallies};

/// A pod that was checked by the rules of a dialect.
pub trait Dialect: Debug + Send + Sync {
    /// The part of the pod that all dialects read.
    fn pod(&self) -> &Question;

    /// Answers `Filter`, with the fields that the decision did not check, but without the epoch and
    /// age of the snapshot.
    fn filter(
        &self,
        terms: &DecisionTerms,
        read_view: &ReadView<'_>,
    ) -> Result<ListedAnswer<v1::FilterResponse>, Stopped>;

    /// Answers `Score`, with the fields that the decision did not check, but without the epoch and
    /// age of the snapshot.
    fn score(
        &self,
        terms: &DecisionTerms,
        read_view: &ReadView<'_>,
    ) -> Result<ListedAnswer<v1::ScoreResponse>, Stopped>;

    /// Answers `Explain`, with the fields that the decision did not check, but without the epoch
    /// and age of the snapshot.
    fn explain(
        &self,
        terms: &DecisionTerms,
        read_view: &ReadView<'_>,
    ) -> Result<v1::ExplainResponse, Stopped>;

    /// Places pods, unless they wait for others, and completes the answer that was begun.
    fn place(
        &self,
        placing: &ValidPlacement,
        options: &PlaceOptions,
        waits: bool,
        begun: v1::PlaceResponse,
        read_view: &ReadView<'_>,
    ) -> Result<v1::PlaceResponse, Error>;
}

/// The nodes and checks of a decision, and the extent of its answer.
#[derive(Debug)]
pub struct DecisionTerms {
    /// The checks that nodes have to pass.
    pub checks: NodeChecks,
    /// The extent of the answer.
    pub view: v1::View,
    /// The number of domains that a report lists.
    pub max_domains: usize,
    /// The number of nodes to list, best first; `None` means all.
    pub top: Option<usize>,
    /// The nodes to decide about; `None` means all.
    pub candidates: Option<v1::NodeNames>,
    /// The number of pods like this one that wait, itself included. Only explanations read it.
    pub waiting: usize,
}

impl DecisionTerms {
    /// The nodes to decide about.
    pub fn candidates<'a>(&self, read_view: &ReadView<'a>) -> Result<Candidates<'a>, Stopped> {
        let named = self.candidates.as_ref();
        read_view
            .deadline
            .step(named.map_or(0, |named| named.names.len()))?;
        Ok(Candidates::of(named, read_view))
    }

    /// Begins the answer to a `Filter`: the candidates of which some pass, each as far as the answer is
    /// to tell. `refusal` says why the candidate at an index is refused.
    pub fn verdicts<'r>(
        &self,
        candidates: Candidates<'_>,
        pass: &FixedBitSet,
        refusal: impl Fn(usize, Slot) -> Result<Option<Cow<'r, NodeRefusal>>, Stopped>,
        reports: &mut [Report<'_>],
        read_view: &ReadView<'_>,
    ) -> Result<ListedAnswer<v1::FilterResponse>, Stopped> {
        let mut answer = ListedAnswer::<v1::FilterResponse>::default();
        let name = |at: usize| read_view.nodes.name(candidates.known[at]);
        if self.lists_nodes() {
            answer.feasible(pass.count_ones(..), pass.ones().map(name));
        }
        if self.view == v1::View::Full {
            let feasible: Vec<Slot> = pass.ones().map(|at| candidates.known[at]).collect();
            for report in reports {
                report.count_feasible(&feasible, read_view)?;
            }
            for at in pass.zeroes() {
                if let Some(refusal) = refusal(at, candidates.known[at])? {
                    answer.infeasible(name(at), &refusal, read_view.deadline)?;
                }
            }
        }
        if self.view == v1::View::Bitmap {
            answer.message.feasible_bitmap = candidates.bitmap(pass);
            answer.message.node_order_revision = candidates.ordered_at;
        }
        answer.message.unknown_candidates = candidates.unknown;
        Ok(answer)
    }

    /// Completes the answer to a `Filter` but for its reports.
    pub fn tallied(
        &self,
        pod: &Question,
        tallies: &Tallies,
        begun: v1::FilterResponse,
        read_view: &ReadView<'_>,
    ) -> Result<v1::FilterResponse, Stopped> {
        Ok(v1::FilterResponse {
            revision: read_view.revision,
            reasons: answer::reason_counts(&tallies.refused),
            feasible_count: count(tallies.feasible),
            node_count: count(tallies.judged),
            unchecked: pod.unchecked(self.checks, read_view)?,
            unknown_deletes: read_view.unknown_deletes.to_vec(),
            defaults: answer::defaults_kind(read_view.defaults),
            ..begun
        })
    }

    /// Returns whether the answer lists nodes by name.
    pub fn lists_nodes(&self) -> bool {
        matches!(
            self.view,
            v1::View::Unspecified | v1::View::Basic | v1::View::Full
        )
    }

    /// Returns the part of an answer to `Explain` about each node, by name: the reason of its
    /// refusal, and the facts that decided.
    pub fn explain_nodes<'n>(
        &self,
        pod: &Question,
        read_view: &ReadView<'_>,
        nodes: impl Iterator<Item = Result<(&'n str, Option<Cow<'n, NodeRefusal>>), Stopped>>,
    ) -> Result<v1::ExplainResponse, Stopped> {
        let lists_infeasible = matches!(self.view, v1::View::Unspecified | v1::View::Full);
        let mut response = v1::ExplainResponse {
            revision: read_view.revision,
            unchecked: pod.unchecked(self.checks, read_view)?,
            unknown_deletes: read_view.unknown_deletes.to_vec(),
            defaults: answer::defaults_kind(read_view.defaults),
            ..Default::default()
        };
        let (mut tallies, mut listed) = (Tallies::default(), 0_usize);
        for node in nodes {
            let (name, refused) = node?;
            response.node_count = response.node_count.saturating_add(1);
            match refused {
                Some(refusal) => {
                    for reason in refusal.reasons() {
                        tallies.refuse(reason.clone(), 1);
                    }
                    if lists_infeasible {
                        let verdict = refusal.to_wire(name.to_owned());
                        let length = verdict.encoded_len();
                        listed = listed.saturating_add(length);
                        response.infeasible.push(verdict);
                        // The answer is encoded beside the list, and moves to larger places then.
                        let needed = listed.saturating_mul(2);
                        read_view.deadline.entry(length, needed)?;
                    }
                }
                None => {
                    response.feasible_count = response.feasible_count.saturating_add(1);
                    let name = self.lists_nodes().then(|| name.to_owned());
                    response.feasible.extend(name);
                }
            }
        }
        response.reasons = answer::reason_counts(&tallies.refused);
        Ok(response)
    }
}

/// Checks and compiles the pod of a request in a dialect, whose field is at `path`. `request::known`
/// refuses an unknown dialect.
///
/// # Errors
/// Every fault of the pod.
pub fn compile(
    dialect: i32,
    pod: Option<v1::Pod>,
    limits: &Limits,
    path: Path<'_>,
) -> Result<Box<dyn Dialect>, Violations> {
    // Boxed, because the future of a call is moved often.
    Ok(match is_fleet(dialect) {
        true => Box::new(PlacementSpec::compile(pod, limits, path)?),
        false => Box::new(Question::compile(pod.as_ref(), limits, path)?),
    })
}

/// This is the one place that tells dialects apart.
pub fn is_fleet(dialect: i32) -> bool {
    dialect == i32::from(v1::Dialect::Fleet)
}

//! Dialects: the rules by which a pod is placed. A dialect is one type, which
//! checks a pod, decides about it and writes the answer.

use std::borrow::Cow;
use std::fmt::Debug;

use super::answer::{self, Candidates};
use super::written::Written;
use crate::matching::{Path, Violations};
use crate::proto::v1;
use crate::snapshot::{Limits, ReadView};
use crate::spread::{NodeChecks, NodeRefusal, Picker, Question, Report, Tallies, Wish, fleet};

/// A pod that was checked by the rules of a dialect.
pub trait Dialect: Debug + Send + Sync {
    /// Checks and compiles the pod of a request, whose field is at `path`.
    ///
    /// # Errors
    /// Every fault of the pod.
    fn compile(pod: Option<v1::Pod>, limits: &Limits, path: Path<'_>) -> Result<Self, Violations>
    where
        Self: Sized;

    /// Checks what a `Place` request wishes for.
    fn wish(request: &v1::PlaceRequest, limits: &Limits, faults: &mut Violations) -> Wish
    where
        Self: Sized;

    /// The part of the pod that all dialects read.
    fn pod(&self) -> &Question;

    /// Returns how many constraints are in force, at most.
    fn constraint_count(&self, read_view: &ReadView<'_>) -> usize;

    /// Returns what it costs to judge eight nodes by a constraint, in units.
    fn units_per_verdict(&self) -> usize;

    /// Returns what it takes in memory, in bytes, at most, for as long as it is asked.
    fn memory_bytes(&self) -> usize;

    /// Answers `Filter`, with what the decision did not look at, but without the epoch and
    /// age of the snapshot.
    fn filter(
        &self,
        terms: &DecisionTerms,
        read_view: &ReadView<'_>,
    ) -> Written<v1::FilterResponse>;

    /// Answers `Score`, with what the decision did not look at, but without the epoch and
    /// age of the snapshot.
    fn score(&self, terms: &DecisionTerms, read_view: &ReadView<'_>) -> Written<v1::ScoreResponse>;

    /// Answers `Explain`, with what the decision did not look at, but without the epoch and
    /// age of the snapshot.
    fn explain(&self, terms: &DecisionTerms, read_view: &ReadView<'_>) -> v1::ExplainResponse;

    /// Gathers what placing needs.
    fn plan(&self, checks: NodeChecks, wish: &Wish, read_view: &ReadView<'_>) -> Box<dyn Picker>;

    /// The numbers behind a constraint, for the wire.
    fn report(&self, report: &Report<'_>) -> v1::ConstraintReport;
}

/// What to decide about, and how much of the answer to write.
#[derive(Debug)]
pub struct DecisionTerms {
    /// What nodes are checked for.
    pub checks: NodeChecks,
    /// How much of the answer to write.
    pub view: v1::View,
    /// How many domains a report lists.
    pub max_domains: usize,
    /// How many to list, best first; `None` is all.
    pub top: Option<usize>,
    /// The nodes to decide about; `None` is all.
    pub candidates: Option<v1::NodeNames>,
}

impl DecisionTerms {
    /// The nodes to decide about.
    pub fn candidates<'a>(&self, read_view: &ReadView<'a>) -> Candidates<'a> {
        Candidates::of(self.candidates.as_ref(), read_view)
    }

    /// Returns whether the answer lists nodes by name.
    pub fn lists_nodes(&self) -> bool {
        matches!(
            self.view,
            v1::View::Unspecified | v1::View::Basic | v1::View::Full
        )
    }

    /// Returns what an answer to `Explain` about a pod says of each node, by name, with why
    /// it is refused, and of what was decided on.
    pub fn explain_nodes<'n>(
        &self,
        pod: &Question,
        read_view: &ReadView<'_>,
        nodes: impl Iterator<Item = (&'n str, Option<Cow<'n, NodeRefusal>>)>,
    ) -> v1::ExplainResponse {
        let lists_infeasible = matches!(self.view, v1::View::Unspecified | v1::View::Full);
        let mut response = v1::ExplainResponse {
            revision: read_view.revision,
            unchecked: pod.unchecked(self.checks, read_view),
            unknown_deletes: read_view.unknown_deletes.to_vec(),
            defaults: answer::defaults_kind(read_view.defaults),
            ..Default::default()
        };
        let mut tallies = Tallies::default();
        for (name, refused) in nodes {
            response.node_count = response.node_count.saturating_add(1);
            match refused {
                Some(refusal) => {
                    for reason in refusal.reasons() {
                        tallies.refuse(reason.clone(), 1);
                    }
                    let verdict = || answer::node_verdict(name.to_owned(), &refusal);
                    response.infeasible.extend(lists_infeasible.then(verdict));
                }
                None => {
                    response.feasible_count = response.feasible_count.saturating_add(1);
                    let name = self.lists_nodes().then(|| name.to_owned());
                    response.feasible.extend(name);
                }
            }
        }
        response.reasons = answer::reason_counts(&tallies.refused);
        response
    }
}

/// The question about a pod, if it is valid.
type CompiledDialect = Result<Box<dyn Dialect>, Violations>;

/// How requests of a dialect are checked.
#[derive(Clone, Copy)]
pub struct Checker {
    /// Checks the pod, as [`Dialect::compile`] does.
    pub pod: fn(Option<v1::Pod>, &Limits) -> CompiledDialect,
    /// Checks what `Place` wishes for, as [`Dialect::wish`] does.
    pub wish: fn(&v1::PlaceRequest, &Limits, &mut Violations) -> Wish,
}

impl Checker {
    /// The checker of the dialect that a request names. This is the one place
    /// that tells dialects apart. `request::known` refuses an unknown one.
    pub fn of(dialect: i32) -> Self {
        match v1::Dialect::try_from(dialect).unwrap_or_default() {
            v1::Dialect::Unspecified | v1::Dialect::Kubernetes => Self::by::<Question>(),
            v1::Dialect::Fleet => Self::by::<fleet::PlacementSpec>(),
        }
    }

    fn by<D: Dialect + 'static>() -> Self {
        Self {
            pod: |pod, limits| {
                // Boxed, because the future of a call is moved often.
                D::compile(pod, limits, Path::root("pod"))
                    .map(|pod| -> Box<dyn Dialect> { Box::new(pod) })
            },
            wish: D::wish,
        }
    }
}

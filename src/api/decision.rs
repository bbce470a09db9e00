//! A valid `Filter`, `Score` or `Explain` request.

use std::sync::Arc;

use super::asked::DecisionFields;
use super::dialect::DecisionTerms;
use super::error::Error;
use super::kept_questions::CompiledQuestion;
use super::reaching::AtLeast;
use super::request;
use crate::matching::{Path, Violations};
use crate::proto::v1;
use crate::snapshot::{Batch, Limits, ReadView};

/// What it costs to look a candidate up, in units.
const UNITS_PER_CANDIDATE: usize = 40;

/// What it costs to list a node or a domain.
const UNITS_PER_NAME: usize = 8;

/// A valid request about one pod.
#[derive(Debug)]
pub struct ValidDecision {
    /// The snapshot that it means.
    pub snapshot: String,
    /// What to wait for.
    pub at_least: AtLeast,
    /// The pod.
    pub question: Arc<CompiledQuestion>,
    /// What to decide about, and how much to write.
    pub terms: DecisionTerms,
    /// Changes to decide with, as if they had been made.
    pub overlay: Batch,
}

impl ValidDecision {
    /// Checks a request about a pod that was checked.
    ///
    /// # Errors
    /// Every fault of the request, with those of the pod.
    pub fn of(
        wire: DecisionFields,
        question: Result<Arc<CompiledQuestion>, Violations>,
        limits: &Limits,
    ) -> Result<Self, Error> {
        let mut faults = Violations::default();
        let snapshot = request::snapshot_name(&wire.snapshot, Path::root("snapshot"), &mut faults);
        let question = faults.collect(question);
        request::check_candidates(wire.candidates.as_ref(), limits, &mut faults);
        let checks = request::node_checks(wire.node_checks, &mut faults);
        let view = request::known(wire.view, Path::root("view"), &mut faults);
        let _: v1::Dialect = request::known(wire.dialect, Path::root("dialect"), &mut faults);
        let at_least = AtLeast::of(wire.min_revision, wire.epoch, limits, &mut faults);
        request::check_not_negative(wire.top.into(), Path::root("top"), &mut faults);
        let max_domains = request::max_domains(wire.max_domains, &mut faults);
        let overlay = request::overlay(wire.overlay, limits, &mut faults);
        let Some(question) = question else {
            return Err(faults.into());
        };
        let terms = DecisionTerms {
            checks,
            view,
            max_domains,
            top: usize::try_from(wire.top).ok().filter(|top| *top > 0),
            candidates: wire.candidates,
        };
        Ok(faults.finish(Self {
            snapshot,
            at_least,
            question,
            terms,
            overlay,
        })?)
    }

    /// What an answer costs once all is counted, in units.
    pub fn units(&self, read_view: &ReadView<'_>) -> usize {
        let nodes = read_view.nodes.len();
        let (named, judged) = match &self.terms.candidates {
            Some(candidates) => (candidates.names.len(), candidates.names.len()),
            None => (0, nodes),
        };
        let constraints = self.question.constraint_count(read_view);
        let listed = match self.terms.view {
            v1::View::Full => 3 * judged,
            _ if self.terms.lists_nodes() => judged,
            _ => judged / usize::BITS as usize,
        };
        let domains = constraints * self.terms.max_domains.min(nodes);
        let verdicts = judged * constraints * self.question.units_per_verdict() / 8;
        named * UNITS_PER_CANDIDATE + (listed + domains) * UNITS_PER_NAME + verdicts
    }
}

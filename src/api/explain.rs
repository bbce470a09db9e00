//! `Explain`: the decision of Filter, with what is to be said about it.

use std::collections::BTreeMap;

use super::answer;
use super::checked::Checked;
use super::{decide, fleet};
use crate::explain::{self, Case, Explanation};
use crate::proto::v1;
use crate::snapshot::{ReadView, Slot};
use crate::spread::fleet as placement;
use crate::spread::{Filter, Question, Report};

/// An `Explain` request as a `Filter` request: the fields that both have have
/// the same numbers and meanings.
pub fn as_filter(wire: v1::ExplainRequest) -> v1::FilterRequest {
    v1::FilterRequest {
        snapshot: wire.snapshot,
        pod: wire.pod,
        candidates: wire.candidates,
        node_checks: wire.node_checks,
        view: wire.view,
        min_revision: wire.min_revision,
        overlay: wire.overlay,
        dialect: wire.dialect,
        max_domains: wire.max_domains,
    }
}

/// Whether an answer says of each infeasible node why.
fn lists_infeasible(view: v1::View) -> bool {
    matches!(view, v1::View::Unspecified | v1::View::Full)
}

fn response(explanation: Explanation) -> v1::ExplainResponse {
    v1::ExplainResponse {
        summary: explanation.summary,
        hints: explanation.hints,
        insights: explanation.insights,
        ..Default::default()
    }
}

impl Checked<Question> {
    /// Answers as `Explain`, all but epoch and age.
    pub fn explain_on(&self, read_view: &ReadView<'_>) -> v1::ExplainResponse {
        let constraints = self.question.constraints_on(read_view);
        let filter = Filter::of(&self.question, &constraints, self.checks, read_view);
        let candidates = self.candidates(read_view);
        let known = &candidates.known;
        let case = Case::of(
            &self.question,
            &constraints,
            self.checks,
            &filter,
            known,
            read_view,
        );

        let mut all = decide::reports(&filter.reports(self.max_domains));
        all.extend(decide::reports(
            &case.soft_reports(&case.scores(), self.max_domains),
        ));
        all.sort_by_key(|report| report.constraint_index);
        let refused = || case.nodes.iter().filter_map(|n| Some((n.name, n.refusal?)));
        let mut reasons = BTreeMap::new();
        for (_, refusal) in refused() {
            *reasons.entry(refusal.reason).or_default() += 1;
        }
        let mut response = v1::ExplainResponse {
            revision: read_view.revision,
            constraints: all,
            reasons: answer::reason_counts(&reasons),
            feasible_count: answer::count(case.feasible_count()),
            node_count: answer::count(case.nodes.len()),
            ..response(explain::explain(&case, self.max_domains))
        };
        if self.lists_nodes() {
            response.feasible = case.feasible().map(|node| node.name.to_owned()).collect();
        }
        if lists_infeasible(self.view) {
            let verdicts =
                refused().map(|(name, refusal)| answer::node_verdict(name.to_owned(), &refusal));
            response.infeasible = verdicts.collect();
        }
        response.unknown_candidates = candidates.unknown;
        response
    }
}

impl Checked<placement::Question> {
    /// Answers as `Explain`, all but epoch and age.
    pub fn explain_on(&self, read_view: &ReadView<'_>) -> v1::ExplainResponse {
        let judge = placement::Judge::of(&self.question, self.checks, read_view);
        let candidates = self.candidates(read_view);
        let case = explain::fleet::Case::of(&self.question, &judge, &candidates.known, read_view);

        let mut reports: Vec<Report<'_>> = judge.reports(self.max_domains);
        reports.sort_by_key(|report| report.active.index);
        let clusters = || case.clusters.iter();
        let refused = || clusters().filter_map(|c| Some((c.slot, c.verdict.err()?)));
        let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
        for (_, refused) in refused() {
            *reasons.entry(refused.reason()).or_default() += 1;
        }
        let feasible = || clusters().filter(|c| c.verdict.is_ok());
        let mut response = v1::ExplainResponse {
            revision: read_view.revision,
            constraints: reports.iter().map(fleet::constraint_report).collect(),
            reasons: answer::reason_counts(&reasons),
            feasible_count: answer::count(feasible().count()),
            node_count: answer::count(case.clusters.len()),
            ..response(explain::fleet::explain(&case, self.max_domains))
        };
        let name = |slot: Slot| read_view.nodes.name(slot).to_owned();
        if self.lists_nodes() {
            response.feasible = feasible().map(|c| name(c.slot)).collect();
        }
        if lists_infeasible(self.view) {
            let verdicts =
                refused().map(|(slot, refused)| fleet::node_verdict(name(slot), &refused));
            response.infeasible = verdicts.collect();
        }
        response.unknown_candidates = candidates.unknown;
        response
    }
}

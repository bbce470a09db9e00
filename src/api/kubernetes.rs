//! The Kubernetes dialect: PodTopologySpread of kube-scheduler.

use std::borrow::Cow;

use super::answer;
use super::dialect::{DecisionTerms, Dialect};
use super::wish;
use crate::explain::{self, Case};
use crate::matching::{Path, Violations};
use crate::proto::v1;
use crate::snapshot::{Limits, ReadView, Slot};
use crate::spread::{
    Filter, Judgement, NodeChecks, Picker, Question, Report, Scores, Tallies, Wish, place,
};

impl Dialect for Question {
    fn compile(pod: Option<v1::Pod>, limits: &Limits, path: Path<'_>) -> Result<Self, Violations> {
        Self::compile(pod.as_ref(), limits, path)
    }

    fn wish(request: &v1::PlaceRequest, limits: &Limits, faults: &mut Violations) -> Wish {
        let fleet_only = [
            ("holders", request.holders.is_empty()),
            ("sticky", request.sticky.is_empty()),
        ];
        for (name, is_empty) in fleet_only {
            if !is_empty {
                faults.add(Path::root(name), "applies in the Fleet dialect only");
            }
        }
        let wish = wish::common(request, 1, limits, faults);
        Wish {
            capacities: wish::capacities(&request.capacities, limits, faults),
            ..wish
        }
    }

    fn pod(&self) -> &Question {
        self
    }

    fn constraint_count(&self, read_view: &ReadView<'_>) -> usize {
        let own = self.constraints.all.len();
        own.max(read_view.defaults.constraints.len())
    }

    // Nodes are judged many at once.
    fn units_per_verdict(&self) -> usize {
        4
    }

    fn filter(&self, terms: &DecisionTerms, read_view: &ReadView<'_>) -> v1::FilterResponse {
        let constraints = self.constraints_on(read_view);
        let filter = Filter::of(self, &constraints, terms.checks, read_view);
        let mut response = v1::FilterResponse {
            revision: read_view.revision,
            constraints: reports(&filter.reports(terms.max_domains)),
            ..Default::default()
        };
        let tallies = if terms.view == v1::View::Domains && terms.candidates.is_none() {
            filter.tally_all()
        } else {
            judge_candidates(&filter, terms, read_view, &mut response)
        };
        response.reasons = answer::reason_counts(&tallies.refused);
        response.feasible_count = answer::count(tallies.feasible);
        response.node_count = answer::count(tallies.judged);
        response
    }

    fn score(&self, terms: &DecisionTerms, read_view: &ReadView<'_>) -> v1::ScoreResponse {
        let constraints = self.constraints_on(read_view);
        let mut candidates = terms.candidates(read_view);
        // Named candidates are scored whatever Filter says.
        if terms.candidates.is_none() {
            let filter = Filter::of(self, &constraints, terms.checks, read_view);
            if !filter.passes_all() {
                let judged = filter.judge_all(&candidates.known);
                candidates.keep(judged.pass);
            }
        } else if terms.top.is_some() && terms.view != v1::View::Bitmap {
            candidates.sort_by_name(read_view.nodes);
        }
        let scores = Scores::of(&constraints, &candidates.known, read_view);

        let mut response = v1::ScoreResponse {
            revision: read_view.revision,
            skipped: scores.skipped,
            constraints: reports(&scores.reports(terms.max_domains)),
            ..Default::default()
        };
        let score = |index: usize| {
            let name = read_view.nodes.name(candidates.known[index]).to_owned();
            answer::node_score(name, &scores.node(index))
        };
        match (terms.view, terms.top) {
            (v1::View::Unspecified | v1::View::Basic | v1::View::Full, Some(top)) => {
                response.scores = scores.best(top).into_iter().map(score).collect();
            }
            (v1::View::Unspecified | v1::View::Basic | v1::View::Full, None) => {
                response.scores = (0..candidates.known.len()).map(score).collect();
            }
            (v1::View::Bitmap, _) => {
                response.scored_bitmap = candidates.known_bitmap();
                response.packed_scores = scores.packed();
            }
            (v1::View::Domains, _) => {}
        }
        response.unknown_candidates = candidates.unknown;
        response
    }

    fn explain(&self, terms: &DecisionTerms, read_view: &ReadView<'_>) -> v1::ExplainResponse {
        let constraints = self.constraints_on(read_view);
        let filter = Filter::of(self, &constraints, terms.checks, read_view);
        let candidates = terms.candidates(read_view);
        let known = &candidates.known;
        let case = Case::of(self, &constraints, terms.checks, &filter, known, read_view);

        let mut all = reports(&filter.reports(terms.max_domains));
        all.extend(reports(
            &case.soft_reports(&case.scores(), terms.max_domains),
        ));
        all.sort_by_key(|report| report.constraint_index);
        let explanation = explain::explain(&case, terms.max_domains);
        let nodes = case.nodes.iter().map(|node| {
            let refused = node.refusal.as_ref().map(Cow::Borrowed);
            (node.name, refused)
        });
        v1::ExplainResponse {
            revision: read_view.revision,
            constraints: all,
            summary: explanation.summary,
            hints: explanation.hints,
            insights: explanation.insights,
            unknown_candidates: candidates.unknown,
            ..terms.explain_nodes(nodes)
        }
    }

    fn plan(&self, checks: NodeChecks, wish: &Wish, read_view: &ReadView<'_>) -> Box<dyn Picker> {
        Box::new(place::Placer::of(self, checks, wish, read_view))
    }

    fn report(&self, report: &Report<'_>) -> v1::ConstraintReport {
        answer::constraint_report(report)
    }
}

/// Fills in what an answer says of each candidate.
fn judge_candidates(
    filter: &Filter<'_>,
    terms: &DecisionTerms,
    read_view: &ReadView<'_>,
    response: &mut v1::FilterResponse,
) -> Tallies {
    let candidates = terms.candidates(read_view);
    let Judgement { pass, tallies } = filter.judge_all(&candidates.known);
    let name = |slot: Slot| read_view.nodes.name(slot).to_owned();
    if terms.lists_nodes() {
        response.feasible.reserve_exact(tallies.feasible);
        let feasible = pass.ones().map(|at| name(candidates.known[at]));
        response.feasible.extend(feasible);
    }
    if terms.view == v1::View::Full {
        let verdict = |at: usize| {
            let slot = candidates.known[at];
            let affords = read_view.affords(filter.units_per_node());
            let refusal = affords.then(|| filter.judge(slot).err()).flatten()?;
            Some(answer::node_verdict(name(slot), &refusal))
        };
        response.infeasible = pass.zeroes().filter_map(verdict).collect();
    }
    if terms.view == v1::View::Bitmap {
        response.feasible_bitmap = candidates.bitmap(&pass);
    }
    response.unknown_candidates = candidates.unknown;
    tallies
}

/// The numbers behind constraints.
fn reports(reports: &[Report<'_>]) -> Vec<v1::ConstraintReport> {
    reports.iter().map(answer::constraint_report).collect()
}

//! The Kubernetes dialect: PodTopologySpread of kube-scheduler.

use super::answer;
use super::dialect::{DecisionTerms, Dialect};
use super::place_options;
use super::written::Written;
use crate::explain::{self, Case};
use crate::matching::{Path, Violations};
use crate::plan;
use crate::proto::v1;
use crate::snapshot::{Limits, ReadView, Slot};
use crate::spread::{
    Active, Filter, Judgement, NodeChecks, Picker, PlaceOptions, Question, Report, Scores, Tallies,
    place,
};

impl Dialect for Question {
    fn compile(pod: Option<v1::Pod>, limits: &Limits, path: Path<'_>) -> Result<Self, Violations> {
        Self::compile(pod.as_ref(), limits, path)
    }

    fn options(
        request: &v1::PlaceRequest,
        limits: &Limits,
        faults: &mut Violations,
    ) -> PlaceOptions {
        let fleet_only = [
            ("holders", request.holders.is_empty()),
            ("sticky", request.sticky.is_empty()),
        ];
        for (name, is_empty) in fleet_only {
            if !is_empty {
                faults.add(Path::root(name), "applies in the Fleet dialect only");
            }
        }
        let options = place_options::common(request, 1, limits, faults);
        PlaceOptions {
            capacities: place_options::capacities(&request.capacities, limits, faults),
            ..options
        }
    }

    fn pod(&self) -> &Question {
        self
    }

    fn constraint_count(&self, read_view: &ReadView<'_>) -> usize {
        let own = self.constraints.all.len();
        own.max(read_view.defaults.constraints.len())
    }

    // Eight nodes are judged at a time.
    fn units_per_verdict(&self) -> usize {
        4
    }

    fn memory_bytes(&self) -> usize {
        self.memory_bytes()
    }

    fn filter(
        &self,
        terms: &DecisionTerms,
        read_view: &ReadView<'_>,
    ) -> Written<v1::FilterResponse> {
        let constraints = self.constraints_on(read_view);
        let filter = Filter::of(self, &constraints, terms.checks, read_view);
        let mut answer = Written::of(read_view.revision);
        let mut reports = filter.reports(terms.max_domains);
        let tallies = if terms.view == v1::View::Domains && terms.candidates.is_none() {
            filter.tally_all()
        } else {
            judge_candidates(&filter, terms, read_view, &mut answer, &mut reports)
        };
        answer.constraints(&reports, Active::to_wire);
        answer.tallies(&tallies);
        answer.terms(&self.unchecked(terms.checks, read_view), read_view);
        answer
    }

    fn score(&self, terms: &DecisionTerms, read_view: &ReadView<'_>) -> Written<v1::ScoreResponse> {
        let constraints = self.constraints_on(read_view);
        let mut candidates = terms.candidates(read_view);
        // Named candidates are scored whether or not Filter refuses them.
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

        let mut answer = Written::<v1::ScoreResponse>::of(read_view.revision);
        answer.skipped(scores.skipped);
        answer.constraints(&scores.reports(terms.max_domains), Active::to_wire);
        let mut score = |index: usize| {
            let name = read_view.nodes.name(candidates.known[index]);
            answer.score(name, &scores.node(index));
        };
        match (terms.view, terms.top) {
            (v1::View::Unspecified | v1::View::Basic | v1::View::Full, Some(top)) => {
                scores.best(top).into_iter().for_each(score);
            }
            (v1::View::Unspecified | v1::View::Basic | v1::View::Full, None) => {
                (0..candidates.known.len()).for_each(&mut score);
            }
            (v1::View::Bitmap, _) => {
                answer.packed(&scores.packed());
                answer.bitmap(&candidates.known_bitmap(), candidates.ordered_at);
            }
            (v1::View::Domains, _) => {}
        }
        answer.unknown_candidates(&candidates.unknown);
        answer.terms(&self.unscored(terms.checks, read_view), read_view);
        answer
    }

    fn explain(&self, terms: &DecisionTerms, read_view: &ReadView<'_>) -> v1::ExplainResponse {
        let constraints = self.constraints_on(read_view);
        let filter = Filter::of(self, &constraints, terms.checks, read_view);
        let candidates = terms.candidates(read_view);
        let known = &candidates.known;
        let mut case = Case::of(self, &constraints, terms.checks, &filter, known, read_view);
        case.waiting = terms.waiting;

        let mut all = reports(&filter.reports(terms.max_domains));
        all.extend(reports(
            &case.soft_reports(&case.scores(), terms.max_domains),
        ));
        all.sort_by_key(|report| report.constraint_index);
        let explanation = explain::explain(&case, terms.max_domains);
        let nodes = case.nodes.iter();
        let nodes = nodes.map(|node| (node.name, case.whole_refusal(node)));
        v1::ExplainResponse {
            constraints: all,
            summary: explanation.summary,
            hints: explanation.hints,
            insights: explanation.insights,
            unknown_candidates: candidates.unknown,
            ..terms.explain_nodes(self, read_view, nodes)
        }
    }

    fn plan(
        &self,
        checks: NodeChecks,
        options: &PlaceOptions,
        read_view: &ReadView<'_>,
    ) -> Box<dyn Picker> {
        plan::picker(place::Placer::of(self, checks, options, read_view), options)
    }

    fn report(&self, report: &Report<'_>) -> v1::ConstraintReport {
        answer::constraint_report(report)
    }
}

/// Writes the verdict on each candidate into an answer.
fn judge_candidates(
    filter: &Filter<'_>,
    terms: &DecisionTerms,
    read_view: &ReadView<'_>,
    answer: &mut Written<v1::FilterResponse>,
    reports: &mut [Report<'_>],
) -> Tallies {
    let candidates = terms.candidates(read_view);
    let Judgement { pass, tallies } = filter.judge_all(&candidates.known);
    let name = |at: usize| read_view.nodes.name(candidates.known[at]);
    if terms.lists_nodes() {
        answer.expect_names(tallies.feasible);
        answer.feasible(pass.ones().map(name));
    }
    if terms.view == v1::View::Full {
        let feasible: Vec<Slot> = pass.ones().map(|at| candidates.known[at]).collect();
        for report in reports {
            report.count_feasible(&feasible, read_view);
        }
        for at in pass.zeroes() {
            let affords = read_view.affords(filter.units_per_node());
            let refusal = affords.then(|| filter.judge(candidates.known[at]).err());
            if let Some(refusal) = refusal.flatten()
                && !read_view.holds(answer.infeasible(name(at), &refusal))
            {
                break;
            }
        }
    }
    if terms.view == v1::View::Bitmap {
        answer.bitmap(&candidates.bitmap(&pass), candidates.ordered_at);
    }
    answer.unknown_candidates(&candidates.unknown);
    tallies
}

/// The numbers behind constraints.
fn reports(reports: &[Report<'_>]) -> Vec<v1::ConstraintReport> {
    reports.iter().map(answer::constraint_report).collect()
}

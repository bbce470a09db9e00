//! `Filter` and `Score` in the Kubernetes dialect.

use super::answer;
use super::checked::{Ask, Checked};
use crate::matching::{Path, Violations};
use crate::proto::v1;
use crate::snapshot::{Limits, ReadView, Slot};
use crate::spread::{Filter, Judged, Question, Report, Scores, Tallies};

impl Ask for Question {
    fn compile(pod: Option<v1::Pod>, limits: &Limits, path: Path<'_>) -> Result<Self, Violations> {
        Self::compile(pod.as_ref(), limits, path)
    }

    fn namespace(&self) -> &str {
        &self.namespace
    }

    // Nodes are judged many at once.
    const UNITS_PER_VERDICT: usize = 4;

    fn constraints(&self, read_view: &ReadView<'_>) -> usize {
        self.constraints
            .all
            .len()
            .max(read_view.defaults.constraints.len())
    }

    fn filter(asked: &Checked<Self>, read_view: &ReadView<'_>) -> v1::FilterResponse {
        asked.filter_on(read_view)
    }

    fn score(asked: &Checked<Self>, read_view: &ReadView<'_>) -> v1::ScoreResponse {
        asked.score_on(read_view)
    }

    fn explain(asked: &Checked<Self>, read_view: &ReadView<'_>) -> v1::ExplainResponse {
        asked.explain_on(read_view)
    }
}

impl Checked<Question> {
    fn filter_on(&self, read_view: &ReadView<'_>) -> v1::FilterResponse {
        let constraints = self.question.constraints_on(read_view);
        let filter = Filter::of(&self.question, &constraints, self.checks, read_view);
        let mut response = v1::FilterResponse {
            revision: read_view.revision,
            constraints: reports(&filter.reports(self.max_domains)),
            ..Default::default()
        };
        let tallies = if self.view == v1::View::Domains && !self.names_candidates() {
            filter.tally_all()
        } else {
            self.judge_candidates(&filter, read_view, &mut response)
        };
        response.reasons = answer::reason_counts(&tallies.refused);
        response.feasible_count = answer::count(tallies.feasible);
        response.node_count = answer::count(tallies.judged);
        response
    }

    /// Fills in what an answer says of each candidate.
    fn judge_candidates(
        &self,
        filter: &Filter<'_>,
        read_view: &ReadView<'_>,
        response: &mut v1::FilterResponse,
    ) -> Tallies {
        let candidates = self.candidates(read_view);
        let Judged { pass, tallies } = filter.judge_all(&candidates.known);
        let name = |slot: Slot| read_view.nodes.name(slot).to_owned();
        if self.lists_nodes() {
            response.feasible.reserve_exact(tallies.feasible);
            let feasible = pass.ones().map(|at| name(candidates.known[at]));
            response.feasible.extend(feasible);
        }
        if self.view == v1::View::Full {
            let verdict = |at: usize| {
                let slot = candidates.known[at];
                let refusal = filter.judge(slot).err()?;
                Some(answer::node_verdict(name(slot), &refusal))
            };
            response.infeasible = pass.zeroes().filter_map(verdict).collect();
        }
        if self.view == v1::View::Bitmap {
            response.feasible_bitmap = candidates.bitmap(&pass);
        }
        response.unknown_candidates = candidates.unknown;
        tallies
    }

    fn score_on(&self, read_view: &ReadView<'_>) -> v1::ScoreResponse {
        let constraints = self.question.constraints_on(read_view);
        let mut candidates = self.candidates(read_view);
        // Candidates that the caller names are scored whatever Filter says.
        if !self.names_candidates() {
            let filter = Filter::of(&self.question, &constraints, self.checks, read_view);
            if !filter.passes_all() {
                let judged = filter.judge_all(&candidates.known);
                candidates.keep(judged.pass);
            }
        } else if self.top.is_some() && self.view != v1::View::Bitmap {
            candidates.sort_by_name(read_view.nodes);
        }
        let scores = Scores::of(&constraints, &candidates.known, read_view);

        let mut response = v1::ScoreResponse {
            revision: read_view.revision,
            skipped: scores.skipped,
            constraints: reports(&scores.reports(self.max_domains)),
            ..Default::default()
        };
        let score = |index: usize| {
            let name = read_view.nodes.name(candidates.known[index]).to_owned();
            answer::node_score(name, &scores.node(index))
        };
        match (self.view, self.top) {
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
}

/// The numbers behind constraints.
pub fn reports(reports: &[Report<'_>]) -> Vec<v1::ConstraintReport> {
    reports.iter().map(answer::constraint_report).collect()
}

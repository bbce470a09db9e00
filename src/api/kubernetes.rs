//! The Kubernetes dialect: PodTopologySpread of kube-scheduler.

use std::borrow::Cow;

use super::answer::{self, ListedAnswer};
use super::dialect::{DecisionTerms, Dialect};
use super::error::Error;
use super::placing::ValidPlacement;
use crate::explain::{self, Case};
use crate::proto::v1;
use crate::snapshot::{ReadView, Stopped};
use crate::spread::place::Placer;
use crate::spread::{Filter, Judgement, PlaceOptions, Question, Report, Scores};

impl Dialect for Question {
    fn pod(&self) -> &Question {
        self
    }

    fn filter(
        &self,
        terms: &DecisionTerms,
        read_view: &ReadView<'_>,
    ) -> Result<ListedAnswer<v1::FilterResponse>, Stopped> {
        let constraints = self.constraints_on(read_view)?;
        let filter = Filter::of(self, &constraints, terms.checks, read_view)?;
        let mut reports = filter.reports(terms.max_domains)?;
        let (mut answer, tallies) = if terms.view == v1::View::Domains && terms.candidates.is_none()
        {
            (ListedAnswer::default(), filter.tally_all()?)
        } else {
            let candidates = terms.candidates(read_view)?;
            let Judgement { pass, tallies } = filter.judge_all(&candidates.known)?;
            let refusal = |_, slot| Ok(filter.judge(slot)?.err().map(Cow::Owned));
            let answer = terms.verdicts(candidates, &pass, refusal, &mut reports, read_view)?;
            (answer, tallies)
        };
        answer.message = v1::FilterResponse {
            constraints: constraint_reports(&reports),
            ..terms.tallied(self, &tallies, answer.message, read_view)?
        };
        Ok(answer)
    }

    fn score(
        &self,
        terms: &DecisionTerms,
        read_view: &ReadView<'_>,
    ) -> Result<ListedAnswer<v1::ScoreResponse>, Stopped> {
        let constraints = self.constraints_on(read_view)?;
        let mut candidates = terms.candidates(read_view)?;
        // Named candidates are scored whether or not Filter refuses them.
        if terms.candidates.is_none() {
            let filter = Filter::of(self, &constraints, terms.checks, read_view)?;
            if !filter.passes_all() {
                let judged = filter.judge_all(&candidates.known)?;
                candidates.keep(judged.pass);
            }
        } else if terms.top.is_some() && terms.view != v1::View::Bitmap {
            candidates.sort_by_name(read_view.nodes);
        }
        let scores = Scores::of(&constraints, &candidates.known, read_view)?;

        let mut answer = ListedAnswer::<v1::ScoreResponse>::default();
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
                answer.message.scored_bitmap = candidates.known_bitmap();
                answer.message.node_order_revision = candidates.ordered_at;
            }
            (v1::View::Domains, _) => {}
        }
        answer.message = v1::ScoreResponse {
            revision: read_view.revision,
            skipped: scores.skipped,
            constraints: constraint_reports(&scores.reports(terms.max_domains)),
            unknown_candidates: candidates.unknown,
            unchecked: self.unscored(terms.checks, read_view)?,
            unknown_deletes: read_view.unknown_deletes.to_vec(),
            defaults: answer::defaults_kind(read_view.defaults),
            ..answer.message
        };
        Ok(answer)
    }

    fn explain(
        &self,
        terms: &DecisionTerms,
        read_view: &ReadView<'_>,
    ) -> Result<v1::ExplainResponse, Stopped> {
        let constraints = self.constraints_on(read_view)?;
        let filter = Filter::of(self, &constraints, terms.checks, read_view)?;
        let candidates = terms.candidates(read_view)?;
        let known = &candidates.known;
        let mut case = Case::of(self, &constraints, terms.checks, &filter, known, read_view)?;
        case.waiting = terms.waiting;

        let mut all = constraint_reports(&filter.reports(terms.max_domains)?);
        let scores = case.scores()?;
        all.extend(constraint_reports(
            &case.soft_reports(&scores, terms.max_domains),
        ));
        all.sort_by_key(|report| report.constraint_index);
        let explanation = explain::explain(&case, terms.max_domains)?;
        let nodes = case.nodes.iter();
        let nodes = nodes.map(|node| Ok((node.name, case.whole_refusal(node)?)));
        Ok(v1::ExplainResponse {
            constraints: all,
            summary: explanation.summary,
            hints: explanation.hints,
            insights: explanation.insights,
            unknown_candidates: candidates.unknown,
            ..terms.explain_nodes(self, read_view, nodes)?
        })
    }

    fn place(
        &self,
        placing: &ValidPlacement,
        options: &PlaceOptions,
        waits: bool,
        begun: v1::PlaceResponse,
        read_view: &ReadView<'_>,
    ) -> Result<v1::PlaceResponse, Error> {
        let constraints = self.constraints_on(read_view)?;
        let picker = Placer::of(self, &constraints, placing.checks, options, read_view)?;
        placing.pick(picker, answer::constraint_report, waits, begun, read_view)
    }
}

/// The numbers behind constraints.
fn constraint_reports(reports: &[Report<'_>]) -> Vec<v1::ConstraintReport> {
    reports.iter().map(answer::constraint_report).collect()
}

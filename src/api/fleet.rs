//! The Fleet dialect: the topology spread of KubeFleet's scheduler.

use std::borrow::Cow;
use std::cmp::Reverse;

use super::answer::{self, ListedAnswer};
use super::dialect::{DecisionTerms, Dialect};
use super::error::Error;
use super::placing::ValidPlacement;
use crate::explain;
use crate::proto::v1;
use crate::snapshot::{ReadView, Slot, Stopped, bits};
use crate::spread::fleet::{self, Judge, PlacementSpec};
use crate::spread::{self, NodeRefusal, NodeScore, PlaceOptions, Report, Tallies};

impl Dialect for PlacementSpec {
    fn pod(&self) -> &spread::Question {
        &self.pod
    }

    fn filter(
        &self,
        terms: &DecisionTerms,
        read_view: &ReadView<'_>,
    ) -> Result<ListedAnswer<v1::FilterResponse>, Stopped> {
        let judge = Judge::of(self, terms.checks, read_view)?;
        let candidates = terms.candidates(read_view)?;
        let judged = candidates.known.iter().map(|slot| judge.judge(*slot));
        let judged: Vec<Result<i64, NodeRefusal>> = judged.collect::<Result<_, Stopped>>()?;
        let pass = bits(&judged, Result::is_ok);
        let mut tallies = Tallies {
            judged: judged.len(),
            feasible: pass.count_ones(..),
            ..Tallies::default()
        };
        let refusals = judged.iter().filter_map(|verdict| verdict.as_ref().err());
        for reason in refusals.flat_map(NodeRefusal::reasons) {
            tallies.refuse(reason.clone(), 1);
        }
        let mut reports = judge.reports(terms.max_domains);
        let refusal = |at: usize, _| Ok(judged[at].as_ref().err().map(Cow::Borrowed));
        let mut answer = terms.verdicts(candidates, &pass, refusal, &mut reports, read_view)?;
        let hard = |report: &&Report<'_>| report.active.constraint.is_hard();
        answer.message = v1::FilterResponse {
            constraints: reports.iter().filter(hard).map(constraint_report).collect(),
            ..terms.tallied(&self.pod, &tallies, answer.message, read_view)?
        };
        Ok(answer)
    }

    fn score(
        &self,
        terms: &DecisionTerms,
        read_view: &ReadView<'_>,
    ) -> Result<ListedAnswer<v1::ScoreResponse>, Stopped> {
        let judge = Judge::of(self, terms.checks, read_view)?;
        let candidates = terms.candidates(read_view)?;
        // A cluster that a hard constraint refuses has no score, whether or not it was named.
        let score_of = |slot| match terms.candidates {
            None if judge.checks.judge(slot)?.is_err() => Ok(None),
            _ => Ok(fleet::score(&judge.spreads, slot).ok()),
        };
        let known = candidates.known.iter();
        let all = known.clone().map(|slot| score_of(*slot));
        let all: Vec<Option<i64>> = all.collect::<Result<_, Stopped>>()?;
        let scored = known
            .zip(&all)
            .filter_map(|(slot, score)| Some((*slot, (*score)?)));
        let mut scored: Vec<(Slot, i64)> = scored.collect();

        let skipped = judge.spreads.is_empty() || read_view.nodes.is_empty();
        let mut answer = ListedAnswer::<v1::ScoreResponse>::default();
        match terms.view {
            v1::View::Unspecified | v1::View::Basic | v1::View::Full => {
                if let Some(top) = terms.top {
                    let rank = |(slot, score): &(Slot, i64)| {
                        (Reverse(*score), read_view.nodes.name(*slot))
                    };
                    scored.sort_unstable_by(|a, b| rank(a).cmp(&rank(b)));
                    scored.truncate(top);
                }
                for (slot, score) in &scored {
                    // The score of a cluster needs no normalization.
                    let score = NodeScore {
                        score: *score,
                        raw: *score,
                        ignored: false,
                    };
                    answer.score(read_view.nodes.name(*slot), &score);
                }
            }
            v1::View::Bitmap => {
                let packed = |(_, score): &(Slot, i64)| i32::try_from(*score);
                let packed = scored.iter().map(|s| packed(s).unwrap_or(i32::MIN));
                answer.packed_wide(packed.collect());
                let is_scored: Vec<bool> = all.iter().map(Option::is_some).collect();
                let is_scored = bits(&is_scored, |scored| *scored);
                answer.message.scored_bitmap = candidates.bitmap(&is_scored);
                answer.message.node_order_revision = candidates.ordered_at;
            }
            v1::View::Domains => {}
        }
        let mut reports = match skipped {
            true => Vec::new(),
            false => judge.reports(terms.max_domains),
        };
        reports.sort_by_key(|report| report.active.index);
        answer.message = v1::ScoreResponse {
            revision: read_view.revision,
            skipped,
            constraints: reports.iter().map(constraint_report).collect(),
            unknown_candidates: candidates.unknown,
            unchecked: self.pod.unchecked(terms.checks, read_view)?,
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
        let judge = Judge::of(self, terms.checks, read_view)?;
        let candidates = terms.candidates(read_view)?;
        let case = explain::fleet::PlacementCase::of(self, &judge, &candidates.known, read_view)?;

        let mut reports: Vec<Report<'_>> = judge.reports(terms.max_domains);
        reports.sort_by_key(|report| report.active.index);
        let explanation = explain::fleet::explain(&case, terms.max_domains)?;
        let nodes = case.clusters.iter().map(|cluster| {
            let name = read_view.nodes.name(cluster.slot);
            let refused = cluster.verdict.as_ref().err();
            Ok((name, refused.map(Cow::Borrowed)))
        });
        Ok(v1::ExplainResponse {
            constraints: reports.iter().map(constraint_report).collect(),
            summary: explanation.summary,
            hints: explanation.hints,
            insights: explanation.insights,
            unknown_candidates: candidates.unknown,
            ..terms.explain_nodes(&self.pod, read_view, nodes)?
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
        let picker = fleet::PickN::of(self, placing.checks, options, read_view)?;
        placing.pick(picker, constraint_report, waits, begun, read_view)
    }
}

/// A constraint's report without the fields that Fleet does not know.
fn constraint_report(report: &Report<'_>) -> v1::ConstraintReport {
    v1::ConstraintReport {
        constraint: Some(fleet::to_wire(report.active)),
        ..answer::constraint_report(report)
    }
}

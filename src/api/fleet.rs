//! `Filter` and `Score` in the Fleet dialect.

use std::collections::BTreeMap;

use super::answer;
use super::checked::{Ask, Checked};
use crate::matching::{Path, Violations};
use crate::proto::v1;
use crate::snapshot::{Limits, ReadView, Slot, bits};
use crate::spread::Report;
use crate::spread::fleet::{Judge, Question, Refused};

impl Ask for Question {
    fn compile(pod: Option<v1::Pod>, limits: &Limits, path: Path<'_>) -> Result<Self, Violations> {
        Self::compile(pod, limits, path)
    }

    fn namespace(&self) -> &str {
        &self.placement.namespace
    }

    // Each cluster is looked up in the order of all domains.
    const UNITS_PER_VERDICT: usize = 240;

    fn constraints(&self, _: &ReadView<'_>) -> usize {
        self.constraints.len()
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
        let judge = Judge::of(&self.question, self.checks, read_view);
        let candidates = self.candidates(read_view);
        let known = candidates.known.iter().copied();
        let judged: Vec<(Slot, Result<i64, Refused<'_>>)> =
            known.map(|slot| (slot, judge.judge(slot))).collect();
        let name = |slot: Slot| read_view.nodes.name(slot).to_owned();
        let feasible = || judged.iter().filter(|(_, v)| v.is_ok()).map(|(s, _)| *s);
        let refused = || {
            judged
                .iter()
                .filter_map(|(s, v)| Some((*s, v.as_ref().err()?)))
        };
        let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
        for (_, refused) in refused() {
            *reasons.entry(refused.reason()).or_default() += 1;
        }
        let hard = |report: &Report<'_>| report.active.constraint.is_hard();
        let mut reports = judge.reports(self.max_domains);
        reports.retain(hard);

        let mut response = v1::FilterResponse {
            revision: read_view.revision,
            constraints: reports.iter().map(constraint_report).collect(),
            reasons: answer::reason_counts(&reasons),
            feasible_count: answer::count(feasible().count()),
            node_count: answer::count(judged.len()),
            ..Default::default()
        };
        match self.view {
            v1::View::Unspecified | v1::View::Basic | v1::View::Full => {
                response.feasible = feasible().map(name).collect();
            }
            v1::View::Bitmap => {
                let pass: Vec<bool> = judged.iter().map(|(_, v)| v.is_ok()).collect();
                response.feasible_bitmap = candidates.bitmap(&bits(&pass, |pass| *pass));
            }
            v1::View::Domains => {}
        }
        if self.view == v1::View::Full {
            let verdict = |(slot, refused): (Slot, &Refused<'_>)| node_verdict(name(slot), refused);
            response.infeasible = refused().map(verdict).collect();
        }
        response.unknown_candidates = candidates.unknown;
        response
    }

    fn score_on(&self, read_view: &ReadView<'_>) -> v1::ScoreResponse {
        let judge = Judge::of(&self.question, self.checks, read_view);
        let candidates = self.candidates(read_view);
        // A cluster that a hard constraint refuses has no score, named or not.
        let named = self.names_candidates();
        let score_of = |slot| {
            if named {
                judge.score(slot)
            } else {
                judge.judge(slot)
            }
        };
        let known = candidates.known.iter();
        let all: Vec<Option<i64>> = known.clone().map(|slot| score_of(*slot).ok()).collect();
        let scored = known
            .zip(&all)
            .filter_map(|(slot, score)| Some((*slot, (*score)?)));
        let mut scored: Vec<(Slot, i64)> = scored.collect();
        let name = |slot: Slot| read_view.nodes.name(slot).to_owned();

        let mut response = v1::ScoreResponse {
            revision: read_view.revision,
            skipped: judge.spreads().is_empty() || read_view.nodes.is_empty(),
            ..Default::default()
        };
        match self.view {
            v1::View::Unspecified | v1::View::Basic | v1::View::Full => {
                if let Some(top) = self.top {
                    let rank = |(slot, score): &(Slot, i64)| (-score, read_view.nodes.name(*slot));
                    scored.sort_unstable_by(|a, b| rank(a).cmp(&rank(b)));
                    scored.truncate(top);
                }
                let score = |(slot, score): &(Slot, i64)| node_score(name(*slot), *score);
                response.scores = scored.iter().map(score).collect();
            }
            v1::View::Bitmap => {
                let packed = |(_, score): &(Slot, i64)| i32::try_from(*score);
                let packed = scored.iter().map(|s| packed(s).unwrap_or(i32::MIN));
                response.packed_scores = packed.collect();
                let is_scored: Vec<bool> = all.iter().map(Option::is_some).collect();
                response.scored_bitmap = candidates.bitmap(&bits(&is_scored, |scored| *scored));
            }
            v1::View::Domains => {}
        }
        if !response.skipped {
            let mut reports = judge.reports(self.max_domains);
            reports.sort_by_key(|report| report.active.index);
            response.constraints = reports.iter().map(constraint_report).collect();
        }
        response.unknown_candidates = candidates.unknown;
        response
    }
}

/// A constraint's report without the fields that Fleet does not know.
pub fn constraint_report(report: &Report<'_>) -> v1::ConstraintReport {
    let mut wire = answer::constraint_report(report);
    if let Some(constraint) = &mut wire.constraint {
        constraint.min_domains = None;
        constraint.node_affinity_policy = None;
        constraint.node_taints_policy = None;
    }
    wire
}

/// A cluster's score.
pub fn node_score(node: String, score: i64) -> v1::NodeScore {
    v1::NodeScore {
        node,
        score,
        raw: score,
        ignored: false,
    }
}

/// A refused cluster.
pub fn node_verdict(node: String, refused: &Refused<'_>) -> v1::NodeVerdict {
    match refused {
        Refused::ByCheck(refusal) => answer::node_verdict(node, refusal),
        Refused::BySpread {
            spread,
            holders,
            skew,
        } => spread_verdict(node, spread.refusal(), spread.active.index, *holders, *skew),
    }
}

/// A cluster that a hard constraint refuses.
pub fn spread_verdict(
    node: String,
    reason: String,
    constraint_index: usize,
    holders: u32,
    skew: i64,
) -> v1::NodeVerdict {
    v1::NodeVerdict {
        node,
        code: v1::Code::Unschedulable.into(),
        reason,
        constraint_index: i32::try_from(constraint_index).unwrap_or(-1),
        matching_pods: holders.into(),
        skew,
    }
}

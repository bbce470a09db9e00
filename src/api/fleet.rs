//! `Filter` and `Score` in the Fleet dialect.

use std::collections::BTreeMap;

use super::answer::{self, Candidates};
use super::error::Error;
use super::request;
use crate::matching::{Path, Violations};
use crate::proto::v1;
use crate::snapshot::{Batch, Cut, Limits, Slot, Snapshot, bits};
use crate::spread::fleet::{Judge, Question, Refused};
use crate::spread::{NodeChecks, Report};

/// A valid `Filter` or `Score` request in the Fleet dialect.
#[derive(Debug)]
pub struct Checked {
    /// The snapshot that it means.
    pub snapshot: String,
    /// The revision to wait for.
    pub min_revision: i64,
    question: Question,
    candidates: Option<v1::NodeNames>,
    checks: NodeChecks,
    view: v1::View,
    overlay: Batch,
    max_domains: usize,
    top: Option<usize>,
}

impl Checked {
    /// Checks a request.
    ///
    /// # Errors
    /// Every fault of the request.
    pub fn of(wire: v1::ScoreRequest, limits: &Limits) -> Result<Self, Error> {
        let mut faults = Violations::default();
        let snapshot = request::snapshot_name(&wire.snapshot, Path::root("snapshot"), &mut faults);
        let question = faults.collect(Question::compile(wire.pod, limits, Path::root("pod")));
        request::check_candidates(wire.candidates.as_ref(), limits, &mut faults);
        let checks = request::node_checks(wire.node_checks, &mut faults);
        let view = request::known(wire.view, Path::root("view"), &mut faults);
        request::check_not_negative(wire.min_revision, Path::root("minRevision"), &mut faults);
        request::check_not_negative(wire.top.into(), Path::root("top"), &mut faults);
        let max_domains = request::max_domains(wire.max_domains, &mut faults);
        let overlay = request::overlay(wire.overlay, limits, &mut faults);
        let Some(question) = question else {
            return Err(faults.into());
        };
        Ok(faults.finish(Self {
            snapshot,
            min_revision: wire.min_revision,
            question,
            candidates: wire.candidates,
            checks,
            view,
            overlay,
            max_domains,
            top: usize::try_from(wire.top).ok().filter(|top| *top > 0),
        })?)
    }

    /// Answers as `Filter`.
    pub fn answer_filter(mut self, snapshot: &Snapshot) -> v1::FilterResponse {
        let overlay = std::mem::take(&mut self.overlay);
        let namespace = &self.question.placement.namespace;
        let mut response = snapshot.read(namespace, overlay, |cut| self.filter_on(&cut));
        response.epoch = snapshot.epoch().to_owned();
        response
    }

    /// Answers as `Score`.
    pub fn answer_score(mut self, snapshot: &Snapshot) -> v1::ScoreResponse {
        let overlay = std::mem::take(&mut self.overlay);
        let namespace = &self.question.placement.namespace;
        let mut response = snapshot.read(namespace, overlay, |cut| self.score_on(&cut));
        response.epoch = snapshot.epoch().to_owned();
        response
    }

    fn filter_on(&self, cut: &Cut<'_>) -> v1::FilterResponse {
        let judge = Judge::of(&self.question, self.checks, cut);
        let candidates = Candidates::of(self.candidates.as_ref(), cut);
        let known = candidates.known.iter().copied();
        let judged: Vec<(Slot, Result<i64, Refused<'_>>)> =
            known.map(|slot| (slot, judge.judge(slot))).collect();
        let name = |slot: Slot| cut.nodes.name(slot).to_owned();
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
            revision: cut.revision,
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

    fn score_on(&self, cut: &Cut<'_>) -> v1::ScoreResponse {
        let judge = Judge::of(&self.question, self.checks, cut);
        let candidates = Candidates::of(self.candidates.as_ref(), cut);
        // A cluster that a hard constraint refuses has no score, named or not.
        let named = self.candidates.is_some();
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
        let name = |slot: Slot| cut.nodes.name(slot).to_owned();

        let mut response = v1::ScoreResponse {
            revision: cut.revision,
            skipped: judge.spreads().is_empty() || cut.nodes.is_empty(),
            ..Default::default()
        };
        match self.view {
            v1::View::Unspecified | v1::View::Basic | v1::View::Full => {
                if let Some(top) = self.top {
                    let rank = |(slot, score): &(Slot, i64)| (-score, cut.nodes.name(*slot));
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
fn node_verdict(node: String, refused: &Refused<'_>) -> v1::NodeVerdict {
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

//! `Filter` and `Score`: what they share, and how each is answered.

use super::answer::{self, Candidates};
use super::error::Error;
use super::request;
use crate::matching::{Path, Violations};
use crate::proto::v1;
use crate::snapshot::{Batch, Cut, Limits, Slot, Snapshot};
use crate::spread::{Constraints, Filter, NodeChecks, NodeScore, Question, Refusal, Scores};

/// A valid `Filter` or `Score` request.
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
    /// Checks a `Filter` request.
    ///
    /// # Errors
    /// Every fault of the request.
    pub fn filter(wire: v1::FilterRequest, limits: &Limits) -> Result<Self, Error> {
        Self::score(request::as_score(wire), limits)
    }

    /// Checks a `Score` request.
    ///
    /// # Errors
    /// Every fault of the request.
    pub fn score(wire: v1::ScoreRequest, limits: &Limits) -> Result<Self, Error> {
        let mut faults = Violations::default();
        let snapshot = request::snapshot_name(&wire.snapshot, Path::root("snapshot"), &mut faults);
        let path = Path::root("pod");
        let question = faults.collect(Question::compile(wire.pod.as_ref(), limits, path));
        request::check_candidates(wire.candidates.as_ref(), limits, &mut faults);
        let checks = request::node_checks(wire.node_checks, &mut faults);
        let view = request::known(wire.view, Path::root("view"), &mut faults);
        let _: v1::Dialect = request::known(wire.dialect, Path::root("dialect"), &mut faults);
        request::check_not_negative(wire.min_revision, Path::root("minRevision"), &mut faults);
        request::check_not_negative(wire.top.into(), Path::root("top"), &mut faults);
        let max_domains = request::max_domains(wire.max_domains, &mut faults);
        let overlay = request::overlay(wire.overlay, limits, &mut faults);
        let question = match question {
            Some(question) => faults.finish(question)?,
            None => return Err(faults.into()),
        };
        Ok(Self {
            snapshot,
            min_revision: wire.min_revision,
            question,
            candidates: wire.candidates,
            checks,
            view,
            overlay,
            max_domains,
            top: usize::try_from(wire.top).ok().filter(|top| *top > 0),
        })
    }

    /// Runs an answer on one cut of the snapshot; `None` if it has not
    /// reached the revision to wait for.
    fn read<T>(&mut self, snapshot: &Snapshot, answer: impl FnOnce(&Self, &Cut<'_>) -> T) -> T {
        let overlay = std::mem::take(&mut self.overlay);
        let namespace = self.question.namespace.clone();
        snapshot.read(&namespace, overlay, |cut| answer(self, &cut))
    }

    /// Answers as `Filter`.
    pub fn answer_filter(mut self, snapshot: &Snapshot) -> v1::FilterResponse {
        let epoch = snapshot.epoch().to_owned();
        self.read(snapshot, |this, cut| v1::FilterResponse {
            epoch,
            ..this.filter_on(cut)
        })
    }

    /// Answers as `Score`.
    pub fn answer_score(mut self, snapshot: &Snapshot) -> v1::ScoreResponse {
        let epoch = snapshot.epoch().to_owned();
        self.read(snapshot, |this, cut| v1::ScoreResponse {
            epoch,
            ..this.score_on(cut)
        })
    }

    fn filter_on(&self, cut: &Cut<'_>) -> v1::FilterResponse {
        let constraints = Constraints::of(&self.question, cut);
        let filter = Filter::of(&self.question, &constraints, self.checks, cut);
        let candidates = Candidates::of(self.candidates.as_ref(), *cut);
        let judged: Vec<(Slot, Result<(), Refusal>)> = candidates
            .known()
            .map(|slot| (slot, filter.judge(slot)))
            .collect();
        let feasible = || {
            judged
                .iter()
                .filter(|(_, v)| v.is_ok())
                .map(|(slot, _)| *slot)
        };
        let refused = || {
            judged
                .iter()
                .filter_map(|(slot, v)| Some((*slot, v.err()?)))
        };

        let mut response = v1::FilterResponse {
            revision: cut.revision,
            constraints: reports(filter.reports(self.max_domains)),
            reasons: answer::reason_counts(refused().map(|(_, refusal)| refusal.reason)),
            feasible_count: answer::count(feasible().count()),
            node_count: answer::count(judged.len()),
            ..Default::default()
        };
        if matches!(
            self.view,
            v1::View::Unspecified | v1::View::Basic | v1::View::Full
        ) {
            response.feasible = feasible().map(|slot| candidates.name(slot)).collect();
        }
        if self.view == v1::View::Full {
            let verdict = |(slot, refusal): (Slot, Refusal)| {
                answer::node_verdict(candidates.name(slot), &refusal)
            };
            response.infeasible = refused().map(verdict).collect();
        }
        if self.view == v1::View::Bitmap {
            response.feasible_bitmap = candidates.bitmap(|slot| filter.judge(slot).is_ok());
        }
        response.unknown_candidates = candidates.unknown;
        response
    }

    fn score_on(&self, cut: &Cut<'_>) -> v1::ScoreResponse {
        let constraints = Constraints::of(&self.question, cut);
        let filter = Filter::of(&self.question, &constraints, self.checks, cut);
        let candidates = Candidates::of(self.candidates.as_ref(), *cut);
        // Candidates that the caller names are scored whatever Filter says.
        let named = self.candidates.is_some();
        let is_scored = |slot: Slot| named || filter.judge(slot).is_ok();
        let scored: Vec<Slot> = candidates.known().filter(|slot| is_scored(*slot)).collect();
        let mut scores = Scores::of(&constraints, &scored, cut);

        let mut response = v1::ScoreResponse {
            revision: cut.revision,
            skipped: scores.skipped,
            ..Default::default()
        };
        match self.view {
            v1::View::Unspecified | v1::View::Basic | v1::View::Full => {
                if let Some(top) = self.top {
                    scores.keep_best(top, cut.nodes);
                }
                let score =
                    |score: &NodeScore| answer::node_score(candidates.name(score.slot), score);
                response.scores = scores.nodes.iter().map(score).collect();
            }
            v1::View::Bitmap => {
                let packed = |score: &NodeScore| i32::try_from(score.score);
                response.packed_scores = scores
                    .nodes
                    .iter()
                    .map(|s| packed(s).unwrap_or(i32::MAX))
                    .collect();
                response.scored_bitmap = candidates.bitmap(is_scored);
            }
            v1::View::Domains => {}
        }
        response.constraints = reports(scores.reports(self.max_domains));
        response.unknown_candidates = candidates.unknown;
        response
    }
}

fn reports(reports: Vec<crate::spread::Report<'_>>) -> Vec<v1::ConstraintReport> {
    reports.iter().map(answer::constraint_report).collect()
}

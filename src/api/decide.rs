//! `Filter` and `Score`: what they share, and how each is answered.

use super::answer::{self, Candidates};
use super::error::Error;
use super::request;
use crate::matching::{Path, Violations};
use crate::proto::v1;
use crate::snapshot::{Batch, Cut, Limits, Slot, Snapshot};
use crate::spread::{Constraints, Filter, Judged, NodeChecks, Question, Report, Scores, Tallies};

/// A valid `Filter` or `Score` request.
#[derive(Debug)]
pub struct Checked {
    /// The snapshot that it means.
    pub snapshot: String,
    /// The revision to wait for.
    pub min_revision: i64,
    /// Apart, because a call in flight is moved about.
    question: Box<Question>,
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
        let question =
            faults.collect(Question::compile(wire.pod.as_ref(), limits, path).map(Box::new));
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

    /// Runs an answer on one cut of the snapshot, with the overlay applied.
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
        let mut response = v1::FilterResponse {
            revision: cut.revision,
            constraints: reports(&filter.reports(self.max_domains)),
            ..Default::default()
        };
        let tallies = if self.view == v1::View::Domains && self.candidates.is_none() {
            filter.tally_all()
        } else {
            self.judge_candidates(&filter, cut, &mut response)
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
        cut: &Cut<'_>,
        response: &mut v1::FilterResponse,
    ) -> Tallies {
        let candidates = Candidates::of(self.candidates.as_ref(), cut);
        let Judged { pass, tallies } = filter.judge_all(&candidates.known);
        let name = |slot: Slot| cut.nodes.name(slot).to_owned();
        if matches!(
            self.view,
            v1::View::Unspecified | v1::View::Basic | v1::View::Full
        ) {
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

    fn score_on(&self, cut: &Cut<'_>) -> v1::ScoreResponse {
        let constraints = Constraints::of(&self.question, cut);
        let mut candidates = Candidates::of(self.candidates.as_ref(), cut);
        // Candidates that the caller names are scored whatever Filter says.
        if self.candidates.is_none() {
            let filter = Filter::of(&self.question, &constraints, self.checks, cut);
            if !filter.passes_all() {
                let judged = filter.judge_all(&candidates.known);
                candidates.keep(judged.pass);
            }
        } else if self.top.is_some() && self.view != v1::View::Bitmap {
            candidates.sort_by_name(cut.nodes);
        }
        let scores = Scores::of(&constraints, &candidates.known, cut);

        let mut response = v1::ScoreResponse {
            revision: cut.revision,
            skipped: scores.skipped,
            constraints: reports(&scores.reports(self.max_domains)),
            ..Default::default()
        };
        let score = |index: usize| {
            let name = cut.nodes.name(candidates.known[index]).to_owned();
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

fn reports(reports: &[Report<'_>]) -> Vec<v1::ConstraintReport> {
    reports.iter().map(answer::constraint_report).collect()
}

//! Comparisons between the server and kube-scheduler, and the differences.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel::proto::v1::{FilterResponse, ScoreResponse};
use serde_json::Value;

use crate::kubernetes::scheduler::Decision;

/// The comparisons, and the differences.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) bound: usize,
    pub(crate) pending: usize,
    /// Pending pods for which victims were ended.
    pub(crate) nominated: usize,
    /// Pods whose nodes were scored by spread.
    pub(crate) scored: usize,
    pub(crate) wrong_sets: Vec<String>,
    pub(crate) wrong_scores: Vec<String>,
    pub(crate) wrong_reasons: Vec<String>,
    /// Pods that controllers made.
    pub(crate) made: usize,
    /// Pods with claims or disks.
    pub(crate) stored: usize,
    /// Waiting pods that the command was asked about.
    pub(crate) explained: usize,
    pub(crate) wrong_words: Vec<String>,
    /// The changes between a question and the scheduler's decision. With any, comparing the two is
    /// a matter of luck.
    changes: Vec<String>,
}

impl Findings {
    pub(crate) fn compare(
        &mut self,
        pod: &Value,
        decision: &Decision,
        filter: &FilterResponse,
        score: &ScoreResponse,
    ) {
        self.changes.extend(decision.changes.iter().cloned());
        self.stored += usize::from(pod["spec"]["volumes"].is_array());
        let feasible: BTreeSet<String> = filter.feasible.iter().cloned().collect();
        if feasible != decision.feasible {
            let wanted = &decision.feasible;
            let more: Vec<_> = feasible.difference(wanted).collect();
            let less: Vec<_> = wanted.difference(&feasible).collect();
            let infeasible = filter.infeasible.iter();
            let why: Vec<_> = infeasible.filter(|it| wanted.contains(&it.node)).collect();
            self.wrong_sets.push(format!(
                "{more:?} too many, {less:?} missing for {why:?}, of {pod}"
            ));
        }
        if decision.feasible.is_empty() {
            self.pending += 1;
            let reasons: BTreeMap<String, i64> = filter
                .reasons
                .iter()
                .map(|reason| (reason.reason.clone(), reason.count))
                .collect();
            if reasons != decision.reasons {
                self.wrong_reasons
                    .push(format!("{reasons:?}, not {:?}, of {pod}", decision.reasons));
            }
            return;
        }
        self.bound += 1;
        let Some(wanted) = &decision.scores else {
            return;
        };
        self.scored += usize::from(!wanted.is_empty());
        let scores: BTreeMap<String, i64> = match score.skipped {
            true => BTreeMap::new(),
            false => score
                .scores
                .iter()
                .map(|score| (score.node.clone(), score.score))
                .collect(),
        };
        if scores != *wanted {
            self.wrong_scores
                .push(format!("{scores:?}, not {wanted:?}, of {pod}"));
        }
    }

    #[track_caller]
    pub(crate) fn agree(&self) {
        let wrong = [
            &self.wrong_sets,
            &self.wrong_scores,
            &self.wrong_reasons,
            &self.wrong_words,
            &self.changes,
        ];
        for (what, wrong) in ["set", "scores", "reasons", "words", "changes meanwhile"]
            .iter()
            .zip(wrong)
        {
            for one in wrong.iter().take(5) {
                println!("wrong {what}: {one}");
            }
        }
        assert!(
            wrong.iter().all(|wrong| wrong.is_empty()),
            "{}",
            self.summary()
        );
    }

    pub(crate) fn summary(&self) -> String {
        format!(
            "{} bound, {} of them scored, {} pending, {} nominated, {} made by controllers, {} with volumes, {} explained; \
             wrong: {} sets, {} scores, {} reasons, {} explanations, {} changes meanwhile",
            self.bound,
            self.scored,
            self.pending,
            self.nominated,
            self.made,
            self.stored,
            self.explained,
            self.wrong_sets.len(),
            self.wrong_scores.len(),
            self.wrong_reasons.len(),
            self.wrong_words.len(),
            self.changes.len()
        )
    }
}

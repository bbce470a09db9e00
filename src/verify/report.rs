//! What a verification answers.

use super::finding::Findings;

/// What was verified, and what differed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verification {
    /// The revision that was copied.
    pub revision: i64,
    /// How many nodes it has.
    pub nodes: usize,
    /// How many pods it has, counted or not.
    pub pods: usize,
    /// How many tables of label sets were compared with the pods.
    pub label_sets: usize,
    /// How many partitions were compared with the nodes.
    pub partitions: usize,
    /// How many live views were compared with both.
    pub views: usize,
    /// What differed.
    pub findings: Findings,
}

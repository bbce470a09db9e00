//! The order of workloads in `DescribeSpread`, and the ends of its pages.

use std::cmp::Reverse;

use crate::spread::describe::{Balance, JudgedWorkload, WorkloadId};

/// The rank of a workload among all, worst first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct WorkloadRank {
    hard_excess: Reverse<i64>,
    soft_excess: Reverse<i64>,
    skew: Reverse<i64>,
    namespace: String,
    workload: WorkloadId,
}

impl WorkloadRank {
    /// The rank of a workload of a namespace.
    pub fn of(namespace: &str, judged: &JudgedWorkload) -> Self {
        let excess = |hard: bool| {
            let alike = judged.balances.iter().filter(|b| b.is_hard() == hard);
            Reverse(alike.map(Balance::excess).max().unwrap_or(0))
        };
        let skew = judged.balances.iter().map(|balance| balance.skew).max();
        Self {
            hard_excess: excess(true),
            soft_excess: excess(false),
            skew: Reverse(skew.unwrap_or(0)),
            namespace: namespace.to_owned(),
            workload: judged.workload.clone(),
        }
    }

    /// Returns whether the workload violates a hard constraint.
    pub fn violates(&self) -> bool {
        self.hard_excess.0 > 0
    }

    /// Returns whether the workload violates no hard constraint, and exceeds the max skew of a soft
    /// one.
    pub fn exceeds(&self) -> bool {
        !self.violates() && self.soft_excess.0 > 0
    }

    /// Returns the rank as text, for page tokens.
    pub fn to_text(&self) -> String {
        let WorkloadId { kind, name, labels } = &self.workload;
        let numbers = (self.hard_excess.0, self.soft_excess.0, self.skew.0);
        let text = (numbers, &self.namespace, kind, name, labels);
        serde_json::to_string(&text).expect("numbers and texts can be written")
    }

    /// Returns the rank that was written as this text.
    pub fn from_text(text: &str) -> Option<Self> {
        let rank = serde_json::from_str(text).ok()?;
        let ((hard, soft, skew), namespace, kind, name, labels) = rank;
        Some(Self {
            hard_excess: Reverse(hard),
            soft_excess: Reverse(soft),
            skew: Reverse(skew),
            namespace,
            workload: WorkloadId { kind, name, labels },
        })
    }
}

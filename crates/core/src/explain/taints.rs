//! The words for nodes with taints that a pod does not tolerate.

use std::time::{Duration, UNIX_EPOCH};

use super::case::{Case, JudgedNode};
use crate::matching::Taint;

/// The taints by which Kubernetes itself marks nodes in trouble, each with what is wrong.
const TROUBLES: [(&str, &str); 2] = [
    ("node.kubernetes.io/unreachable", "unreachable"),
    ("node.kubernetes.io/not-ready", "not ready"),
];

/// What keeps a pod off a tainted node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct TaintedNode {
    /// What the node is: `unreachable`, or `tainted with gpu:NoSchedule`.
    pub what: String,
    /// The time since when, in seconds since 1970, if it is known and matters.
    pub since: Option<i64>,
}

impl TaintedNode {
    /// The words for a node; `None` if the pod tolerates its taints.
    pub fn of<'a>(case: &Case<'a>, node: &JudgedNode<'a>) -> Option<Self> {
        let taints: Vec<&Taint> = case.untolerated(node).collect();
        for (key, what) in TROUBLES {
            let mut all = taints.iter().filter(|taint| &*taint.key == key).peekable();
            if all.peek().is_some() {
                return Some(Self {
                    what: what.to_owned(),
                    since: all.filter_map(|taint| taint.time_added).min(),
                });
            }
        }
        let Taint {
            key, value, effect, ..
        } = taints.first()?;
        let effect = effect.as_str();
        let what = match &**value {
            "" => format!("tainted with {key}:{effect}"),
            value => format!("tainted with {key}={value}:{effect}"),
        };
        Some(Self { what, since: None })
    }
}

/// The clause that says since when, if it is known.
pub fn since(seconds: Option<i64>) -> String {
    let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok());
    let time = seconds.and_then(|it| UNIX_EPOCH.checked_add(Duration::from_secs(it)));
    let since = |time| format!(" since {}", humantime::format_rfc3339_seconds(time));
    time.map_or_else(String::new, since)
}

//! The check that each reservation kept the hard constraints, by what clients were told.

use std::collections::{BTreeMap, HashMap};

use super::{Event, Life, What};

/// The bounds that hard constraints set, in histories in which no reservation expires.
#[derive(Debug, Clone)]
pub struct Rules {
    /// The zone of each node.
    pub zones: BTreeMap<String, String>,
    /// The number of pods that fit on a node.
    pub room: i64,
    pub max_skew: i64,
}

/// Checks that after each reservation there is room on its node, and the skew of its zone is
/// allowed. Where a reservation may have ended, the count that excuses more is taken.
pub(super) fn are_kept(
    history: &[&Event],
    lives: &HashMap<&str, Life<'_>>,
    rules: &Rules,
    faults: &mut Vec<String>,
) {
    /// The changes of the least and of the most pods that may be on a node.
    #[derive(Default)]
    struct Change<'a> {
        least: Vec<(&'a str, i64)>,
        most: Vec<(&'a str, i64)>,
    }
    let mut changes: BTreeMap<i64, Change<'_>> = BTreeMap::new();
    for life in lives.values() {
        let made = changes.entry(life.made).or_default();
        made.least.push((life.node, 1));
        made.most.push((life.node, 1));
        if let Some((after, by)) = life.vacated {
            // The place counts until the revision before its end.
            let first = changes.entry((after + 1).max(life.made)).or_default();
            first.least.push((life.node, -1));
            changes.entry(by).or_default().most.push((life.node, -1));
        }
    }
    let picked: BTreeMap<i64, &Event> = history
        .iter()
        .filter(|event| matches!(&event.what, What::Reserved { picks, .. } if !picks.is_empty()))
        .map(|event| (event.revision, *event))
        .collect();
    let (mut least, mut most) = (BTreeMap::new(), BTreeMap::new());
    for (revision, change) in changes {
        add(&mut least, change.least);
        add(&mut most, change.most);
        let Some(event) = picked.get(&revision) else {
            continue;
        };
        let What::Reserved { picks, .. } = &event.what else {
            continue;
        };
        let zone = |counts: &BTreeMap<&str, i64>, zone: &str| -> i64 {
            let of_zone = counts
                .iter()
                .filter(|(node, _)| rules.zones[**node] == zone);
            of_zone.map(|(_, count)| count).sum()
        };
        let emptiest = rules.zones.values().map(|name| zone(&most, name)).min();
        for (_, node) in picks {
            if least[&**node] > rules.room {
                faults.push(format!("no room on {node}: {event:?}"));
            }
            let skew = zone(&least, &rules.zones[node]) - emptiest.unwrap_or(0);
            if skew > rules.max_skew {
                faults.push(format!("skew {skew}: {event:?}"));
            }
        }
    }
}

fn add<'a>(counts: &mut BTreeMap<&'a str, i64>, changes: Vec<(&'a str, i64)>) {
    for (node, change) in changes {
        *counts.entry(node).or_default() += change;
    }
}

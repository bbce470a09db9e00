//! A selector is refused, or matches what the naive matcher says, in every
//! form that it takes.

use evenkeel::matching::{Path, Selector, Violations};
use evenkeel::proto::v1::{LabelSelector, ReplicaSet};
use prost::Message;
use support::recount::{self, LabelMap};

/// The input is a replica set: its labels are one label set, its selector the
/// selector.
pub fn check(input: &[u8]) {
    let Ok(wire) = ReplicaSet::decode(input) else {
        return;
    };
    let Some(wanted) = wire.spec.and_then(|spec| spec.selector) else {
        return;
    };
    let Some(selector) = compile(&wanted) else {
        return;
    };
    let rewritten = selector.to_wire().expect("it is not absent");
    let again = compile(&rewritten).expect("what was compiled is valid");
    assert_eq!(again, selector, "written as {rewritten:?}");
    let symbols = selector.map(|text| text.to_string());
    for labels in label_sets(wire.metadata.unwrap_or_default().labels, &wanted) {
        let matches = recount::selector_matches(Some(&wanted), &labels);
        assert_eq!(
            selector.matches_labels(&labels),
            matches,
            "{wanted:?} on {labels:?}"
        );
        let interned = symbols.matches::<str>(|key| labels.get(key).map(String::as_str));
        assert_eq!(interned, matches, "mapped {wanted:?} on {labels:?}");
        if let Some((key, value)) = selector.required_pair().filter(|_| matches) {
            assert_eq!(labels.get(key).map(String::as_str), Some(value));
        }
    }
}

fn compile(wire: &LabelSelector) -> Option<Selector> {
    let mut faults = Violations::default();
    let selector = Selector::compile(Some(wire), Path::root("selector"), &mut faults);
    faults.finish(selector).ok()
}

/// The label sets that are near the selector: without one of its keys, or with
/// one of its values in it.
fn label_sets(labels: LabelMap, selector: &LabelSelector) -> Vec<LabelMap> {
    let pairs = selector.match_labels.iter().map(|(k, v)| (k, vec![v]));
    let expressions = selector.match_expressions.iter();
    let expressions = expressions.map(|e| (&e.key, e.values.iter().collect()));
    let mentioned: Vec<(&String, Vec<&String>)> = pairs.chain(expressions).collect();
    let mut all = LabelMap::new();
    for (key, values) in &mentioned {
        let value = values.first().map_or(String::new(), |v| (*v).clone());
        all.insert((*key).clone(), value);
    }
    let mut sets = vec![LabelMap::new(), labels.clone(), all.clone()];
    for base in [labels, all] {
        for (key, values) in &mentioned {
            let mut without = base.clone();
            without.remove(*key);
            sets.push(without);
            for value in values.iter().copied().chain([&String::new()]) {
                let mut with = base.clone();
                with.insert((*key).clone(), value.clone());
                sets.push(with);
            }
        }
    }
    sets
}

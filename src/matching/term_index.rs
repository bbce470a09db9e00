//! Terms of node affinity. An index finds, among many, those that can match a node
//! at all, so that a node is not checked against each of them.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;

use super::ranges::{Range, Ranges};
use super::requirement::{Operator, Requirement, parse_int};
use crate::account::heap;

/// What node affinity reads from a node.
pub trait NodeLabels<V: ?Sized + 'static> {
    /// The node's name.
    fn name(&self) -> &V;
    /// The value of a label.
    fn label(&self, key: &V) -> Option<&V>;
    /// All labels: keys and values.
    fn labels(&self) -> impl Iterator<Item = (&V, &V)>;
    /// Reads a label value.
    fn text<'v>(&'v self, value: &'v V) -> &'v str;
}

/// A term of required node affinity. A node matches it when it meets all of its
/// requirements.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct NodeTerm<A> {
    /// Of labels.
    pub labels: Box<[Requirement<A>]>,
    /// Of the name.
    pub names: Box<[Requirement<A>]>,
}

impl<A> NodeTerm<A> {
    /// How many requirements it has.
    pub fn len(&self) -> usize {
        self.labels.len() + self.names.len()
    }
}

/// Terms by a label that they require. A term is listed once, or under each of
/// the values that it allows.
#[derive(Debug, Clone)]
pub(super) struct TermIndex<A> {
    by_name: HashMap<A, Vec<usize>>,
    by_label: HashMap<A, HashMap<A, Vec<usize>>>,
    by_key: HashMap<A, Vec<usize>>,
    /// Terms that ask for an integer, by its key.
    by_range: HashMap<A, Ranges>,
    /// Terms that may match any node.
    rest: Vec<usize>,
    /// Upper estimate of how many requirements a node is checked against.
    pub per_node: usize,
}

/// How many of a node's labels are assumed to lead to terms, when the cost of a
/// node is estimated.
const LEADING_LABELS: usize = 4;

impl<A: Hash + Eq + Clone> TermIndex<A> {
    pub(super) fn of(terms: &[NodeTerm<A>]) -> Self {
        let mut index = Self {
            by_name: HashMap::new(),
            by_label: HashMap::new(),
            by_key: HashMap::new(),
            by_range: HashMap::new(),
            rest: Vec::new(),
            per_node: 0,
        };
        let mut ranges: HashMap<A, Vec<Range>> = HashMap::new();
        for (i, term) in terms.iter().enumerate() {
            index.add(i, term, &mut ranges);
        }
        // A term that is a range and nothing else matches if it is found.
        let beside = |range: &Range| match terms[range.term].len() {
            len if len > range.requirements => len,
            _ => 0,
        };
        let of_ranges = ranges.values().flatten().map(beside).sum::<usize>();
        let by_range = ranges.into_iter();
        index.by_range = by_range.map(|(key, all)| (key, Ranges::of(all))).collect();
        let size = |all: &Vec<usize>| all.iter().map(|i| terms[*i].len()).sum::<usize>();
        let by_value = index.by_label.values().flat_map(HashMap::values);
        let most = by_value.chain(index.by_name.values()).map(size).max();
        let always = index.by_key.values().map(size).sum::<usize>() + size(&index.rest) + of_ranges;
        index.per_node = always + LEADING_LABELS * (most.unwrap_or(0) + 1);
        index
    }

    fn add(&mut self, i: usize, term: &NodeTerm<A>, ranges: &mut HashMap<A, Vec<Range>>) {
        if let Some((_, values)) = least_values(&term.names) {
            for value in values {
                self.by_name.entry(value.clone()).or_default().push(i);
            }
        } else if let Some((key, values)) = least_values(&term.labels) {
            let by_value = self.by_label.entry(key.clone()).or_default();
            for value in values {
                by_value.entry(value.clone()).or_default().push(i);
            }
        } else if let Some((key, range)) = Range::narrowest(i, &term.labels) {
            ranges.entry(key.clone()).or_default().push(range);
        } else if let Some(there) = term.labels.iter().find(|r| r.operator.wants_value()) {
            self.by_key.entry(there.key.clone()).or_default().push(i);
        } else {
            self.rest.push(i);
        }
    }
}

impl TermIndex<Box<str>> {
    /// Its size on the heap, in bytes.
    pub(super) fn heap_bytes(&self) -> usize {
        let lists = |map: &HashMap<Box<str>, Vec<usize>>| {
            let texts = map.keys().map(|text| heap::block(text.len()));
            let terms = map.values().map(|t| heap::list::<usize>(t.capacity()));
            heap::table::<Box<str>, Vec<usize>>(map.capacity())
                + texts.sum::<usize>()
                + terms.sum::<usize>()
        };
        let by_label = self.by_label.iter();
        let by_label = by_label.map(|(key, values)| heap::block(key.len()) + lists(values));
        heap::table::<Box<str>, HashMap<Box<str>, Vec<usize>>>(self.by_label.capacity())
            + by_label.sum::<usize>()
            + lists(&self.by_name)
            + lists(&self.by_key)
            + heap::table::<Box<str>, Ranges>(self.by_range.capacity())
            + self
                .by_range
                .iter()
                .map(|(key, ranges)| heap::block(key.len()) + ranges.heap_bytes())
                .sum::<usize>()
            + heap::list::<usize>(self.rest.capacity())
    }
}

impl<A: Hash + Eq> TermIndex<A> {
    /// Whether one of the terms that can match a node `does` match it.
    pub(super) fn any<V>(&self, node: &impl NodeLabels<V>, does: impl Fn(usize) -> bool) -> bool
    where
        A: Borrow<V>,
        V: Hash + Eq + ?Sized + 'static,
    {
        let any = |terms: Option<&Vec<usize>>| terms.into_iter().flatten().any(|i| does(*i));
        any(Some(&self.rest))
            || any(self.by_name.get(node.name()))
            || node.labels().any(|(key, value)| {
                let of_key = self.by_label.get(key);
                any(of_key.and_then(|by_value| by_value.get(value)))
                    || any(self.by_key.get(key))
                    || self.by_range.get(key).is_some_and(|ranges| {
                        let value = parse_int(node.text(value));
                        value.is_some_and(|value| ranges.any(value, &does))
                    })
            })
    }
}

/// The requirement that allows the fewest values.
fn least_values<A>(all: &[Requirement<A>]) -> Option<(&A, &[A])> {
    let values = all.iter().filter_map(|r| match &r.operator {
        Operator::In(values) => Some((&r.key, &**values)),
        _ => None,
    });
    values.min_by_key(|(_, values)| values.len())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::BTreeMap;

    use crate::matching::{NodeAffinity, NodeLabels, Path, Violations};
    use crate::proto::v1;

    /// A node that counts how often its labels are looked up.
    struct LabeledNode {
        name: &'static str,
        labels: BTreeMap<&'static str, String>,
        looked: Cell<usize>,
    }

    impl LabeledNode {
        fn of(name: &'static str, labels: &[(&'static str, &str)]) -> Self {
            let labels = labels.iter().map(|(key, value)| (*key, value.to_string()));
            Self {
                name,
                labels: labels.collect(),
                looked: Cell::new(0),
            }
        }
    }

    impl NodeLabels<str> for LabeledNode {
        fn name(&self) -> &str {
            self.name
        }

        fn label(&self, key: &str) -> Option<&str> {
            self.looked.set(self.looked.get() + 1);
            self.labels.get(key).map(String::as_str)
        }

        fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
            self.labels.iter().map(|(key, value)| (*key, &**value))
        }

        fn text<'v>(&'v self, value: &'v str) -> &'v str {
            value
        }
    }

    fn requirement(key: &str, operator: &str, values: &[&str]) -> v1::NodeSelectorRequirement {
        v1::NodeSelectorRequirement {
            key: key.to_owned(),
            operator: operator.to_owned(),
            values: values.iter().map(ToString::to_string).collect(),
        }
    }

    /// Terms of every kind, alone and two at a time.
    fn terms() -> Vec<v1::NodeSelectorTerm> {
        let mut expressions = Vec::new();
        for key in ["a", "b"] {
            for (operator, values) in [
                ("In", &["1"][..]),
                ("In", &["2", "3"]),
                ("NotIn", &["1", "2"]),
                ("Exists", &[]),
                ("DoesNotExist", &[]),
                ("Gt", &["1"]),
                ("Gt", &["2"]),
                ("Gt", &["9223372036854775807"]),
                ("Lt", &["2"]),
                ("Lt", &["3"]),
                ("Lt", &["-9223372036854775808"]),
            ] {
                expressions.push(requirement(key, operator, values));
            }
        }
        let mut terms = Vec::new();
        for (i, one) in expressions.iter().enumerate() {
            for other in &expressions[i..] {
                let term = v1::NodeSelectorTerm {
                    match_expressions: vec![one.clone(), other.clone()],
                    ..Default::default()
                };
                let named = requirement("metadata.name", "In", &["n1"]);
                terms.push(v1::NodeSelectorTerm {
                    match_fields: vec![named],
                    ..term.clone()
                });
                terms.push(term);
            }
        }
        terms
    }

    fn affinity(terms: Vec<v1::NodeSelectorTerm>) -> NodeAffinity {
        let required = v1::NodeSelector {
            node_selector_terms: terms,
        };
        let spec = v1::PodSpec {
            affinity: Some(v1::Affinity {
                node_affinity: Some(v1::NodeAffinity {
                    required_during_scheduling_ignored_during_execution: Some(required),
                    ..Default::default()
                }),
                ..Default::default()
            }),
            ..Default::default()
        };
        let mut faults = Violations::default();
        let affinity = NodeAffinity::compile(&spec, Path::root("spec"), &mut faults);
        assert!(faults.is_empty(), "{faults}");
        affinity
    }

    #[test]
    fn many_terms_match_what_one_of_them_matches_alone() {
        let values = [None, Some("1"), Some("2"), Some("3"), Some("x")];
        let mut nodes = Vec::new();
        for (a, b) in values.iter().flat_map(|a| values.map(|b| (*a, b))) {
            let labels = [a.map(|a| ("a", a)), b.map(|b| ("b", b))];
            let labels: Vec<_> = labels.into_iter().flatten().collect();
            nodes.extend(["n1", "n2"].map(|name| LabeledNode::of(name, &labels)));
        }
        let (all, mut matching) = (terms(), 0);
        let alone: Vec<NodeAffinity> = all.iter().map(|t| affinity(vec![t.clone()])).collect();
        for first in 0..all.len() - 12 {
            // Close to each other, and far apart.
            for step in [1, 7, 13] {
                let chosen = || (first..all.len()).step_by(step).take(12);
                let many = affinity(chosen().map(|i| all[i].clone()).collect());
                for node in &nodes {
                    let wanted = chosen().any(|i| alone[i].matches::<str>(node));
                    assert_eq!(many.matches::<str>(node), wanted, "from {first} by {step}");
                    matching += usize::from(wanted);
                }
            }
        }
        assert!(matching > 1_000, "{matching} tell little");
    }

    /// A term for each range of integers under a key.
    fn ranges(all: impl Iterator<Item = (i64, i64)>) -> Vec<v1::NodeSelectorTerm> {
        let term = |(above, below): (i64, i64)| v1::NodeSelectorTerm {
            match_expressions: vec![
                requirement("a", "Gt", &[&above.to_string()]),
                requirement("a", "Lt", &[&below.to_string()]),
            ],
            ..Default::default()
        };
        all.map(term).collect()
    }

    #[test]
    fn a_node_is_held_against_few_of_many_ranges() {
        const MANY: i64 = 10_000;
        for (what, all) in [
            ("apart", ranges((0..MANY).map(|i| (10 * i, 10 * i + 5)))),
            ("nested", ranges((0..MANY).map(|i| (i, 100_000 - i)))),
            ("open above", ranges((0..MANY).map(|i| (10 * i, i64::MAX)))),
            ("empty", ranges((0..MANY).map(|i| (i, i)))),
        ] {
            let affinity = affinity(all.clone());
            assert!(affinity.per_node() < 100, "{what}: {}", affinity.per_node());
            for value in [-5, 0, 3, 7, 50_000, 99_998, 1_000_000] {
                let node = LabeledNode::of("n", &[("a", &value.to_string())]);
                let bound =
                    |r: &v1::NodeSelectorRequirement| r.values[0].parse::<i64>().expect("a number");
                let wanted = all.iter().any(|term| {
                    let [above, below] = &*term.match_expressions else {
                        panic!("two bounds");
                    };
                    bound(above) < value && value < bound(below)
                });
                assert_eq!(affinity.matches::<str>(&node), wanted, "{what}: {value}");
                let looked = node.looked.get();
                assert!(looked < 10, "{what}: {value}: {looked}");
            }
        }
    }
}

//! A requirement on the labels of an object, which label selectors and node affinity share.

use std::borrow::Borrow;
use std::collections::BTreeMap;

use super::names;
use super::sets::set_of;
use super::violations::{Path, Violations};

/// A requirement on the value of a key, which may have no value.
///
/// `A` represents a string: a text when a request is compiled, an interned symbol when the
/// requirement is matched against many label sets.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Requirement<A> {
    /// The label key, or the name of a field.
    pub key: A,
    /// The condition.
    pub operator: Operator<A>,
}

/// The condition of a [`Requirement`] on a value.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Operator<A> {
    /// The value is one of these (sorted).
    In(Box<[A]>),
    /// There is no value, or it is none of these (sorted).
    NotIn(Box<[A]>),
    /// There is a value.
    Exists,
    /// There is no value.
    DoesNotExist,
    /// The value is a base-10 `i64` greater than this.
    Gt(i64),
    /// The value is a base-10 `i64` less than this.
    Lt(i64),
}

impl<A> Requirement<A> {
    /// Returns whether `value` satisfies the requirement; `text` reads the value.
    pub fn holds<'v, V>(&self, value: Option<&'v V>, text: impl Fn(&'v V) -> &'v str) -> bool
    where
        A: Borrow<V>,
        V: Ord + ?Sized,
    {
        let among = |values: &[A], value: &V| {
            let found = values.binary_search_by(|other| other.borrow().cmp(value));
            found.is_ok()
        };
        match (&self.operator, value) {
            (Operator::In(values), Some(value)) => among(values, value),
            (Operator::NotIn(values), Some(value)) => !among(values, value),
            (Operator::Exists, value) => value.is_some(),
            (Operator::DoesNotExist, value) => value.is_none(),
            (Operator::Gt(bound), Some(value)) => {
                parse_int(text(value)).is_some_and(|v| v > *bound)
            }
            (Operator::Lt(bound), Some(value)) => {
                parse_int(text(value)).is_some_and(|v| v < *bound)
            }
            (Operator::NotIn(_), None) => true,
            (Operator::In(_) | Operator::Gt(_) | Operator::Lt(_), None) => false,
        }
    }

    /// The same requirement with another representation of its strings.
    pub fn map<B: Ord>(&self, mut f: impl FnMut(&A) -> B) -> Requirement<B> {
        let mut set = |values: &[A]| set_of(values.iter().map(&mut f));
        let operator = match &self.operator {
            Operator::In(values) => Operator::In(set(values)),
            Operator::NotIn(values) => Operator::NotIn(set(values)),
            Operator::Exists => Operator::Exists,
            Operator::DoesNotExist => Operator::DoesNotExist,
            Operator::Gt(bound) => Operator::Gt(*bound),
            Operator::Lt(bound) => Operator::Lt(*bound),
        };
        Requirement {
            key: f(&self.key),
            operator,
        }
    }
}

impl<A> Operator<A> {
    /// The value of an `In` that has only one value.
    pub(super) fn only(&self) -> Option<&A> {
        match self {
            Self::In(values) if values.len() == 1 => values.first(),
            _ => None,
        }
    }
}

/// A base-10 `i64` as Go's `strconv.ParseInt(s, 10, 64)` reads it: an optional
/// sign and digits, nothing else.
fn parse_int(text: &str) -> Option<i64> {
    text.parse().ok()
}

/// The kind of object whose labels a requirement matches.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum LabelsOf {
    /// Labels of pods: the requirement is part of a label selector, which checks its values itself.
    Pods,
    /// Labels of nodes. Values may be compared as numbers. A requirement with an invalid label
    /// value matches nothing.
    Nodes,
}

impl Operator<Box<str>> {
    /// Checks and compiles the operator of the requirement at `path`. `None` when it is
    /// invalid, or a value does not parse.
    pub(super) fn compile(
        operator: &str,
        values: &[String],
        of: LabelsOf,
        path: Path<'_>,
        faults: &mut Violations,
    ) -> Option<Self> {
        let count = values.len();
        let (valid_count, rule) = match operator {
            "In" | "NotIn" => (count > 0, "is required when operator is In or NotIn"),
            "Exists" | "DoesNotExist" => (
                count == 0,
                "must be empty when operator is Exists or DoesNotExist",
            ),
            "Gt" | "Lt" if of == LabelsOf::Nodes => {
                (count == 1, "must be exactly one when operator is Gt or Lt")
            }
            _ => {
                let known = match of {
                    LabelsOf::Pods => "must be In, NotIn, Exists or DoesNotExist",
                    LabelsOf::Nodes => "must be In, NotIn, Exists, DoesNotExist, Gt or Lt",
                };
                faults.unknown_value(path.field("operator"), operator, known);
                return None;
            }
        };
        if !valid_count {
            faults.add(path.field("values"), rule);
            return None;
        }
        let set = || {
            let parses = of == LabelsOf::Pods || values.iter().all(names::is_label_value);
            parses.then(|| set_of(values.iter().map(|value| value.as_str().into())))
        };
        Some(match operator {
            "In" => Self::In(set()?),
            "NotIn" => Self::NotIn(set()?),
            "Exists" => Self::Exists,
            "DoesNotExist" => Self::DoesNotExist,
            "Gt" => Self::Gt(parse_int(&values[0])?),
            _ => Self::Lt(parse_int(&values[0])?),
        })
    }

    /// Kubernetes' name of the operator, and its values.
    pub(super) fn to_wire(&self) -> (&'static str, Vec<String>) {
        let texts = |values: &[Box<str>]| values.iter().map(ToString::to_string).collect();
        match self {
            Self::In(values) => ("In", texts(values)),
            Self::NotIn(values) => ("NotIn", texts(values)),
            Self::Exists => ("Exists", Vec::new()),
            Self::DoesNotExist => ("DoesNotExist", Vec::new()),
            Self::Gt(bound) => ("Gt", vec![bound.to_string()]),
            Self::Lt(bound) => ("Lt", vec![bound.to_string()]),
        }
    }
}

impl Requirement<Box<str>> {
    /// The requirement that a label has this value.
    pub(super) fn equals(key: &str, value: &str) -> Self {
        Self {
            key: key.into(),
            operator: Operator::In([value.into()].into()),
        }
    }

    /// The requirements that an object has all of these labels.
    pub(super) fn pairs(labels: &BTreeMap<String, String>) -> impl Iterator<Item = Self> {
        labels.iter().map(|(key, value)| Self::equals(key, value))
    }
}

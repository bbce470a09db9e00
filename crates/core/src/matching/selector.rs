//! Label selectors, and the requirements on labels that they share with node affinity
//! (`docs/semantics.md`, "Matching").

use std::borrow::Borrow;
use std::collections::BTreeMap;

use super::names;
use super::violations::{Path, Violations};
use crate::proto::v1;

/// A compiled label selector. Views use this form as their key, and a recount reads it from the
/// wire.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Selector<A = Box<str>> {
    /// Matches no label set: the selector was absent.
    Nothing,
    /// Matches the label sets that meet all of these requirements; sorted, without repetitions.
    All(Box<[Requirement<A>]>),
}

impl Selector {
    /// Compiles a selector from the wire; an absent one matches nothing.
    pub fn compile(
        wire: Option<&v1::LabelSelector>,
        path: Path<'_>,
        faults: &mut Violations,
    ) -> Self {
        let Some(wire) = wire else {
            return Self::Nothing;
        };
        names::check_labels(&wire.match_labels, path.field("matchLabels"), faults);
        let pairs = Requirement::pairs(&wire.match_labels);
        let list = path.field("matchExpressions");
        let expressions = list.each(&wire.match_expressions);
        let compile = |(path, wire)| compile_expression(wire, path, faults);
        Self::All(set_of(pairs.chain(expressions.filter_map(compile))))
    }

    /// The selector of a map of labels: a label set must have all pairs.
    pub fn from_labels(labels: &BTreeMap<String, String>) -> Self {
        Self::All(set_of(Requirement::pairs(labels)))
    }

    /// This selector with `key = value` for each of `labels` ANDed to it. A
    /// selector that matches nothing still does.
    #[must_use]
    pub fn and_labels<'a>(self, labels: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let labels = labels.into_iter();
        self.and(labels.map(|(key, value)| Requirement::equals(key, value)))
    }

    /// This selector with `requirements` ANDed to it. A selector that matches
    /// nothing still does.
    #[must_use]
    pub fn and(self, requirements: impl IntoIterator<Item = Requirement<Box<str>>>) -> Self {
        match self {
            Self::Nothing => Self::Nothing,
            Self::All(own) => Self::All(set_of(own.into_iter().chain(requirements))),
        }
    }

    /// The selector that matches the label sets that all of `selectors` match. Without selectors it
    /// matches every label set.
    pub fn all_of<'s>(selectors: impl Iterator<Item = &'s Self>) -> Self {
        selectors.fold(Self::All(Box::default()), |all, one| match one {
            Self::Nothing => Self::Nothing,
            Self::All(requirements) => all.and(requirements.iter().cloned()),
        })
    }

    /// Returns whether a map of labels matches.
    pub fn matches_labels(&self, labels: &BTreeMap<String, String>) -> bool {
        self.matches::<str>(|key| labels.get(key).map(String::as_str))
    }

    /// A pair that every matching label set has, if the selector names one.
    pub fn required_pair(&self) -> Option<(&str, &str)> {
        let Self::All(requirements) = self else {
            return None;
        };
        requirements
            .iter()
            .find_map(|requirement| Some((&*requirement.key, &**requirement.operator.only()?)))
    }

    /// The selector for the wire, with `matchLabels` where possible. `None` if it matches nothing.
    pub fn to_wire(&self) -> Option<v1::LabelSelector> {
        let Self::All(requirements) = self else {
            return None;
        };
        let mut wire = v1::LabelSelector::default();
        for Requirement { key, operator } in requirements {
            if let Some(only) = operator.only()
                && !wire.match_labels.contains_key(&**key)
            {
                wire.match_labels.insert(key.to_string(), only.to_string());
                continue;
            }
            let (operator, values) = operator.to_wire();
            wire.match_expressions.push(v1::LabelSelectorRequirement {
                key: key.to_string(),
                operator: operator.to_owned(),
                values,
            });
        }
        Some(wire)
    }
}

impl<A> Selector<A> {
    /// Returns the number of requirements.
    pub fn len(&self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::All(requirements) => requirements.len(),
        }
    }

    /// Returns whether the selector is `{}`, which matches every label set. Some constraints count
    /// no pod by `{}`; their callers test for that.
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::All(requirements) if requirements.is_empty())
    }

    /// The same selector with another representation of its strings.
    pub fn map<B: Ord>(&self, mut f: impl FnMut(&A) -> B) -> Selector<B> {
        match self {
            Self::Nothing => Selector::Nothing,
            Self::All(requirements) => {
                Selector::All(requirements.iter().map(|r| r.map(&mut f)).collect())
            }
        }
    }

    /// Returns whether a label set matches; `get` looks up a key in the label set.
    pub fn matches<'v, V>(&self, get: impl Fn(&V) -> Option<&'v V>) -> bool
    where
        A: Borrow<V>,
        V: Ord + ?Sized + 'v,
    {
        match self {
            Self::Nothing => false,
            // Label selectors have no operator that reads the text of a value.
            Self::All(all) => all.iter().all(|r| r.holds(get(r.key.borrow()), |_| "")),
        }
    }
}

fn compile_expression(
    wire: &v1::LabelSelectorRequirement,
    path: Path<'_>,
    faults: &mut Violations,
) -> Option<Requirement<Box<str>>> {
    names::check_label_key(&wire.key, path.field("key"), faults);
    let values = path.field("values");
    for (path, value) in values.each(&wire.values) {
        names::check_label_value(value, path, faults);
    }
    Some(Requirement {
        key: wire.key.as_str().into(),
        operator: Operator::compile(&wire.operator, &wire.values, LabelsOf::Pods, path, faults)?,
    })
}

/// A selector in kubectl's notation, e.g. `app=web,tier in (a,b),!canary`. The empty selector gives
/// an empty text.
pub fn selector_text(selector: &v1::LabelSelector) -> String {
    let pairs = selector
        .match_labels
        .iter()
        .map(|(key, value)| format!("{key}={value}"));
    let requirements = selector.match_expressions.iter().map(requirement_text);
    pairs.chain(requirements).collect::<Vec<_>>().join(",")
}

fn requirement_text(requirement: &v1::LabelSelectorRequirement) -> String {
    let key = &requirement.key;
    let values = requirement.values.join(",");
    match requirement.operator.as_str() {
        "In" => format!("{key} in ({values})"),
        "NotIn" => format!("{key} notin ({values})"),
        "Exists" => key.clone(),
        "DoesNotExist" => format!("!{key}"),
        other => format!("{key} {other} ({values})"),
    }
}

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

/// The values in order, without repetitions, so that equal sets are equal lists.
pub(super) fn set_of<T: Ord>(values: impl IntoIterator<Item = T>) -> Box<[T]> {
    let mut values: Vec<T> = values.into_iter().collect();
    values.sort_unstable();
    values.dedup();
    values.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_are_written_as_kubectl_writes_them() {
        let cases = [
            (r#"{}"#, ""),
            (
                r#"{"matchLabels":{"tier":"a","app":"web"}}"#,
                "app=web,tier=a",
            ),
            (
                r#"{"matchLabels":{"app":"web"},"matchExpressions":[
                    {"key":"tier","operator":"In","values":["a","b"]},
                    {"key":"zone","operator":"NotIn","values":["x"]},
                    {"key":"gpu","operator":"Exists"},
                    {"key":"canary","operator":"DoesNotExist"}]}"#,
                "app=web,tier in (a,b),zone notin (x),gpu,!canary",
            ),
        ];
        for (selector, expected) in cases {
            let selector = serde_json::from_str(selector).expect("the case is a selector");
            assert_eq!(selector_text(&selector), expected);
        }
    }
}

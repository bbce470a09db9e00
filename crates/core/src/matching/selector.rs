//! Label selectors (`docs/semantics.md`, "Matching").

use std::borrow::Borrow;
use std::collections::BTreeMap;

use super::names;
use super::requirement::{LabelsOf, Operator, Requirement};
use super::sets::set_of;
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

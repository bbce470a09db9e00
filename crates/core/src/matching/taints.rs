//! Taints and tolerations (`docs/semantics.md`, "Matching").

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use super::names;
use super::selector::set_of;
use super::violations::{Path, Violations};
use crate::proto::v1;

/// The effect of a taint on pods that do not tolerate it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Effect {
    /// Keeps new pods off.
    NoSchedule,
    /// Prefers to keep pods off. No decision reads this effect.
    PreferNoSchedule,
    /// Keeps new pods off and evicts running ones.
    NoExecute,
}

/// A mark on a node that keeps pods away.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Taint {
    /// Key of the taint.
    pub key: Box<str>,
    /// Value of the taint; may be empty.
    pub value: Box<str>,
    /// The effect on pods that do not tolerate the taint.
    pub effect: Effect,
    /// The time at which it was added, in seconds since 1970, if known.
    pub time_added: Option<i64>,
}

/// The taints that a pod tolerates; sorted, without repetitions. Copies share one value.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Tolerations(Arc<[Toleration]>);

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Toleration {
    /// `None` tolerates every key.
    key: Option<Box<str>>,
    value: ToleratedValue<Box<str>>,
    /// `None` tolerates every effect.
    effect: Option<Effect>,
}

/// The values of a taint that a toleration accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum ToleratedValue<T> {
    Any,
    Equal(T),
    /// Integers that are smaller.
    Below(i64),
    /// Integers that are larger.
    Above(i64),
}

impl ToleratedValue<Box<str>> {
    fn as_deref(&self) -> ToleratedValue<&str> {
        match self {
            Self::Any => ToleratedValue::Any,
            Self::Equal(value) => ToleratedValue::Equal(value),
            Self::Below(bound) => ToleratedValue::Below(*bound),
            Self::Above(bound) => ToleratedValue::Above(*bound),
        }
    }

    /// Returns whether this is a comparison that the integer satisfies.
    fn compares(&self, value: i64) -> bool {
        match self {
            Self::Any | Self::Equal(_) => false,
            Self::Below(bound) => value < *bound,
            Self::Above(bound) => value > *bound,
        }
    }
}

/// A decimal integer as Kubernetes reads it: with neither a plus sign nor leading zeros.
fn integer(text: &str) -> Option<i64> {
    let value: i64 = text.parse().ok()?;
    (value.to_string() == text).then_some(value)
}

const EFFECTS: &str = "must be NoSchedule, PreferNoSchedule or NoExecute";

impl Effect {
    /// The value in Kubernetes' API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoSchedule => "NoSchedule",
            Self::PreferNoSchedule => "PreferNoSchedule",
            Self::NoExecute => "NoExecute",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let all = [Self::NoSchedule, Self::PreferNoSchedule, Self::NoExecute];
        all.into_iter().find(|effect| effect.as_str() == text)
    }
}

impl Taint {
    /// Compiles the taints of a node.
    pub fn compile(wire: &[v1::Taint], path: Path<'_>, faults: &mut Violations) -> Box<[Self]> {
        let mut taints: Vec<Self> = Vec::with_capacity(wire.len());
        let mut seen = HashSet::new();
        for (path, taint) in path.each(wire) {
            names::check_label_key(&taint.key, path.field("key"), faults);
            names::check_label_value(&taint.value, path.field("value"), faults);
            let Some(effect) = Effect::parse(&taint.effect) else {
                faults.unknown_value(path.field("effect"), &taint.effect, EFFECTS);
                continue;
            };
            names::check_time(taint.time_added.as_ref(), path.field("timeAdded"), faults);
            if !seen.insert((&*taint.key, effect)) {
                faults.add(path, "repeats the key and effect of another taint");
            }
            taints.push(Self {
                key: taint.key.as_str().into(),
                value: taint.value.as_str().into(),
                effect,
                time_added: taint.time_added.as_ref().map(|time| time.seconds),
            });
        }
        taints.into()
    }

    /// Returns whether the taint keeps off pods that do not tolerate it.
    pub fn repels(&self) -> bool {
        self.effect != Effect::PreferNoSchedule
    }
}

impl Tolerations {
    /// Compiles the tolerations of a pod. Without `compare`, tolerations that compare numbers
    /// tolerate nothing.
    pub fn compile(
        wire: &[v1::Toleration],
        compare: bool,
        path: Path<'_>,
        faults: &mut Violations,
    ) -> Self {
        let compile = |(path, wire)| Toleration::compile(wire, compare, path, faults);
        Self(set_of(path.each(wire).filter_map(compile)).into())
    }

    /// Returns the number of tolerations.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there are no tolerations.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether a pod with these tolerations may run on a node with `taints`.
    pub fn tolerate_all(&self, taints: &[Taint]) -> bool {
        self.untolerated(taints).next().is_none()
    }

    /// The taints that keep a pod with these tolerations off.
    pub fn untolerated<'t>(&self, taints: &'t [Taint]) -> impl Iterator<Item = &'t Taint> {
        let repelling = taints.iter().filter(|taint| taint.repels());
        repelling.filter(|it| !self.tolerate(&it.key, &it.value, it.effect))
    }

    /// Returns whether any toleration covers a taint of this key, value and effect.
    pub fn tolerate(&self, key: &str, value: &str, effect: Effect) -> bool {
        // Key, value and effect are each set or open, so there are eight look-ups.
        let values = [ToleratedValue::Any, ToleratedValue::Equal(value)];
        let is_listed = [None, Some(key)].into_iter().any(|key| {
            values.into_iter().any(|value| {
                [None, Some(effect)].into_iter().any(|effect| {
                    let wanted = (key, value, effect);
                    self.0.binary_search_by(|t| t.parts().cmp(&wanted)).is_ok()
                })
            })
        });
        let is_open = |t: &Toleration| {
            t.key.as_deref().is_none_or(|own| own == key)
                && t.effect.is_none_or(|own| own == effect)
        };
        let compares = |value| {
            let mut all = self.0.iter();
            all.any(|t| t.value.compares(value) && is_open(t))
        };
        is_listed || integer(value).is_some_and(compares)
    }
}

impl Toleration {
    fn parts(&self) -> (Option<&str>, ToleratedValue<&str>, Option<Effect>) {
        (self.key.as_deref(), self.value.as_deref(), self.effect)
    }

    /// Compiles a toleration. `None` when it is invalid, or tolerates nothing.
    fn compile(
        wire: &v1::Toleration,
        compare: bool,
        path: Path<'_>,
        faults: &mut Violations,
    ) -> Option<Self> {
        let exists = wire.operator == "Exists";
        if !wire.key.is_empty() {
            names::check_label_key(&wire.key, path.field("key"), faults);
        } else if !exists {
            faults.add(path.field("operator"), "must be Exists when key is empty");
        }
        if wire.toleration_seconds.is_some() && wire.effect != Effect::NoExecute.as_str() {
            faults.add(
                path.field("effect"),
                "must be NoExecute when tolerationSeconds is set",
            );
        }
        let compares = ["Gt", "Lt"].contains(&&*wire.operator);
        // Kubernetes reports a bad value at the operator.
        if exists && !wire.value.is_empty() {
            let rule = "must have an empty value when it is Exists";
            faults.add(path.field("operator"), rule);
        } else if !compares && !names::is_label_value(&wire.value) {
            let rule = "must have a label value when it is Equal";
            faults.add(path.field("operator"), rule);
        }
        let effect = Effect::parse(&wire.effect);
        if effect.is_none() && !wire.effect.is_empty() {
            faults.unknown_value(path.field("effect"), &wire.effect, EFFECTS);
        }
        let value = match &*wire.operator {
            "Exists" => ToleratedValue::Any,
            "" | "Equal" => ToleratedValue::Equal(wire.value.as_str().into()),
            "Gt" | "Lt" if !compare => return None,
            operator @ ("Gt" | "Lt") => {
                let Some(bound) = integer(&wire.value) else {
                    let rule = "must be an integer when operator is Gt or Lt";
                    faults.add(path.field("value"), rule);
                    return None;
                };
                match operator {
                    "Gt" => ToleratedValue::Above(bound),
                    _ => ToleratedValue::Below(bound),
                }
            }
            other => {
                let known = "must be Exists or Equal";
                faults.unknown_value(path.field("operator"), other, known);
                return None;
            }
        };
        Some(Self {
            key: (!wire.key.is_empty()).then(|| wire.key.as_str().into()),
            value,
            effect,
        })
    }
}

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
    /// The words for a node with these taints; `None` if all are tolerated.
    pub fn of(tolerations: &Tolerations, taints: &[Taint]) -> Option<Self> {
        let untolerated: Vec<&Taint> = tolerations.untolerated(taints).collect();
        for (key, what) in TROUBLES {
            if untolerated.iter().any(|taint| &*taint.key == key) {
                // A taint that the pod tolerates for a while says it too.
                let all = taints.iter().filter(|taint| &*taint.key == key);
                return Some(Self {
                    what: what.to_owned(),
                    since: all.filter_map(|taint| taint.time_added).min(),
                });
            }
        }
        let Taint {
            key, value, effect, ..
        } = untolerated.first()?;
        let effect = effect.as_str();
        let what = match &**value {
            "" => format!("tainted with {key}:{effect}"),
            value => format!("tainted with {key}={value}:{effect}"),
        };
        Some(Self { what, since: None })
    }

    /// The clause that says since when, if it is known.
    pub fn since(seconds: Option<i64>) -> String {
        let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok());
        let time = seconds.and_then(|it| UNIX_EPOCH.checked_add(Duration::from_secs(it)));
        let since = |time| format!(" since {}", humantime::format_rfc3339_seconds(time));
        time.map_or_else(String::new, since)
    }
}

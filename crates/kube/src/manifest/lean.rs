//! Reads an object without the fields that are never used, before its kind is known.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use evenkeel_core::matching::storage;

/// Fields that no decision reads but that make up most bytes of a cluster. They are dropped while
/// reading if their value is a list or a map. Plain values are kept, because a label may have any
/// of these names.
const BULKY: [&str; 17] = [
    "args",
    "command",
    "data",
    "env",
    "envFrom",
    "ephemeralContainers",
    "images",
    "lastState",
    "lifecycle",
    "livenessProbe",
    "managedFields",
    "readinessProbe",
    "securityContext",
    "startupProbe",
    "state",
    "volumeMounts",
    "volumesAttached",
];

/// The annotations that are kept: those that the controllers of ReplicaSets, Deployments and Rollouts read,
/// those that keep a pod where it is, and those of claims and volumes.
const KEPT_ANNOTATIONS: [&str; 10] = [
    DELETION_COST,
    MAX_REPLICAS,
    SCALE_DOWN_DEADLINE,
    STAYING[0].0,
    STAYING[1].0,
    STAYING[2].0,
    SCALE_DOWN_DISABLED,
    storage::BIND_COMPLETED,
    storage::SELECTED_NODE,
    storage::BETA_CLASS,
];

/// The annotation with the cost of deleting a pod.
pub(super) const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// The annotation that keeps a node from going; so does [`DO_NOT_DISRUPT`].
pub(super) const SCALE_DOWN_DISABLED: &str = "cluster-autoscaler.kubernetes.io/scale-down-disabled";

/// The annotation that says whether a pod may be evicted.
pub(super) const SAFE_TO_EVICT: &str = "cluster-autoscaler.kubernetes.io/safe-to-evict";

/// The annotation that keeps pods and nodes where they are.
pub(super) const DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";

/// The annotation of a ReplicaSet with the most pods that its Deployment might have.
pub(super) const MAX_REPLICAS: &str = "deployment.kubernetes.io/max-replicas";

/// The annotation of a ReplicaSet that its Rollout keeps until this time.
pub(super) const SCALE_DOWN_DEADLINE: &str = "scale-down-deadline";

/// The annotations that keep a pod where it is, each with its value; empty means any value.
pub(super) const STAYING: [(&str, &str); 3] = [
    (SAFE_TO_EVICT, "false"),
    ("descheduler.alpha.kubernetes.io/prefer-no-eviction", ""),
    (DO_NOT_DISRUPT, "true"),
];

/// The way in which a value is read. Fields that are null are left out, because Kubernetes takes
/// them as unset.
#[derive(Clone, Copy)]
pub(super) enum Lean {
    /// Keeps lists and maps, including the bulky ones.
    Complete,
    /// Keeps lists and maps, except the bulky ones.
    Whole,
    /// Skips lists and maps, which become null.
    PlainOnly,
    /// Skips lists, and keeps only the known annotations of a map.
    Annotations,
}

/// A value read by [`Lean::Whole`], e.g. an object in a list of an API server, where objects do not
/// have their kind.
#[derive(Debug, Clone)]
pub struct LeanValue(pub(super) Value);

impl<'de> serde::Deserialize<'de> for LeanValue {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        Lean::Whole.deserialize(input).map(LeanValue)
    }
}

/// [`Lean::Complete`] for parsers that ask for a type.
pub(super) struct CompleteValue(pub(super) Value);

impl<'de> serde::Deserialize<'de> for CompleteValue {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        Lean::Complete.deserialize(input).map(CompleteValue)
    }
}

/// Reads the value of `key` into `fields`, if it is worth keeping.
pub(super) fn read_field<'de, A: MapAccess<'de>>(
    fields: &mut Map<String, Value>,
    key: String,
    map: &mut A,
    how: Lean,
) -> Result<(), A::Error> {
    let how = match how {
        Lean::Whole if key == "annotations" => Lean::Annotations,
        Lean::Annotations if KEPT_ANNOTATIONS.contains(&key.as_str()) => Lean::PlainOnly,
        Lean::Annotations => {
            map.next_value::<IgnoredAny>()?;
            return Ok(());
        }
        Lean::Whole if BULKY.contains(&key.as_str()) => Lean::PlainOnly,
        how => how,
    };
    let value = map.next_value_seed(how)?;
    if !value.is_null() {
        fields.insert(key, value);
    }
    Ok(())
}

impl<'de> DeserializeSeed<'de> for Lean {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<Value, D::Error> {
        input.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Lean {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, input: D) -> Result<Value, D::Error> {
        self.deserialize(input)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        if matches!(self, Lean::PlainOnly | Lean::Annotations) {
            while seq.next_element::<IgnoredAny>()?.is_some() {}
            return Ok(Value::Null);
        }
        let mut values = Vec::new();
        while let Some(value) = seq.next_element_seed(self)? {
            values.push(value);
        }
        Ok(values.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        if matches!(self, Lean::PlainOnly) {
            while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            return Ok(Value::Null);
        }
        let mut fields = Map::new();
        while let Some(key) = map.next_key()? {
            read_field(&mut fields, key, &mut map, self)?;
        }
        if matches!(self, Lean::Annotations) && fields.is_empty() {
            return Ok(Value::Null);
        }
        Ok(fields.into())
    }
}

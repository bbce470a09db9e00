//! The JSON form of types that Kubernetes writes in an unusual way.

use std::fmt;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::v1::{IntOrString, Quantity, Volume, VolumeSource};

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.string)
    }
}

/// Reads a quantity from a text, or from a number, because manifests have numbers too.
impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(QuantityVisitor)
    }
}

struct QuantityVisitor;

impl Visitor<'_> for QuantityVisitor {
    type Value = Quantity;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a quantity such as 500m or 1.5Gi")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Quantity, E> {
        Ok(quantity(text))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Quantity, E> {
        Ok(quantity(number))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Quantity, E> {
        Ok(quantity(number))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Quantity, E> {
        Ok(quantity(number))
    }
}

fn quantity(text: impl ToString) -> Quantity {
    Quantity {
        string: text.to_string(),
    }
}

impl Serialize for IntOrString {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.r#type {
            0 => to.serialize_i32(self.int_val),
            _ => to.serialize_str(&self.str_val),
        }
    }
}

impl<'de> Deserialize<'de> for IntOrString {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "a number, or a percentage such as \"25%\"")]
        enum NumberOrText {
            Number(i32),
            Text(String),
        }
        Ok(match NumberOrText::deserialize(from)? {
            NumberOrText::Number(int_val) => Self {
                int_val,
                ..Self::default()
            },
            NumberOrText::Text(str_val) => Self {
                r#type: 1,
                str_val,
                ..Self::default()
            },
        })
    }
}

/// A volume in its JSON form, in which the fields of its source are beside its name.
#[derive(Serialize, Deserialize)]
struct FlatVolume {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    name: String,
    #[serde(flatten)]
    source: VolumeSource,
}

impl Serialize for Volume {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let (name, source) = (self.name.clone(), self.source().into_owned());
        FlatVolume { name, source }.serialize(to)
    }
}

impl<'de> Deserialize<'de> for Volume {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let FlatVolume { name, source } = FlatVolume::deserialize(from)?;
        Ok(Self {
            name,
            volume_source: Some(source),
            ..Self::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::proto::v1;

    #[test]
    fn quantities_and_volumes_are_read_as_kubernetes_writes_them() {
        let spec = r#"{"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "x"}},
            {"name": "tmp", "emptyDir": {}}],
            "containers": [{"name": "c", "image": "i", "ports": [{"hostPort": 80, "hostIP": "::"}],
              "resources": {"requests": {"cpu": 0.5, "memory": "1Gi", "a.b/c": 2}, "limits": {"cpu": 1}}}]}"#;
        let spec: v1::PodSpec = serde_json::from_str(spec).expect("a spec");
        let claimed = |volume: &v1::Volume| {
            let source = volume.volume_source.as_ref();
            source.is_some_and(|source| source.persistent_volume_claim.is_some())
        };
        assert_eq!(
            spec.volumes.iter().map(claimed).collect::<Vec<_>>(),
            [true, false]
        );
        let written = serde_json::to_value(&spec).expect("JSON");
        assert_eq!(
            written["containers"][0],
            serde_json::json!({
                "name": "c",
                "ports": [{"hostPort": 80, "hostIP": "::"}],
                "resources": {"requests": {"a.b/c": "2", "cpu": "0.5", "memory": "1Gi"}},
            })
        );
        assert_eq!(
            written["volumes"][0],
            serde_json::json!({"name": "data", "persistentVolumeClaim": {"claimName": "x"}})
        );
    }
}

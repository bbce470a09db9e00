//! Where objects keep pod templates: known kinds by name, all others by shape.

use serde_json::Value;

use super::item::text;

/// Where an object has a pod template, or is a pod itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TemplatePath {
    /// As a JSON pointer; empty for a Pod.
    pub(super) pointer: String,
    /// As the path of a field, e.g. `spec.template`; empty for a Pod.
    pub(crate) field: String,
}

impl TemplatePath {
    /// The path of a template that is no item of a list.
    fn of(pointer: &str) -> Self {
        Self {
            pointer: pointer.to_owned(),
            field: pointer.trim_start_matches('/').replace('/', "."),
        }
    }

    fn with_key(&self, key: &str) -> Self {
        let escaped = key.replace('~', "~0").replace('/', "~1");
        let field = match &*self.field {
            "" => key.to_owned(),
            field => format!("{field}.{key}"),
        };
        Self {
            pointer: format!("{}/{escaped}", self.pointer),
            field,
        }
    }

    fn with_index(&self, index: usize) -> Self {
        Self {
            pointer: format!("{}/{index}", self.pointer),
            field: format!("{}[{index}]", self.field),
        }
    }
}

/// Where a kind of Kubernetes' own keeps its pod template; none for a kind that
/// has no pods.
pub(super) fn path_of_kind(kind: &str) -> Option<&'static str> {
    match kind {
        "Pod" => Some(""),
        "Deployment"
        | "ReplicaSet"
        | "StatefulSet"
        | "DaemonSet"
        | "Job"
        | "ReplicationController" => Some("/spec/template"),
        "CronJob" => Some("/spec/jobTemplate/spec/template"),
        _ => None,
    }
}

/// All pod templates of an object, in the order of their paths. An object of
/// another kind has one wherever a `template`, or a field that ends with
/// `Template`, has a `spec` with `containers`.
pub(super) fn template_paths(object: &Value) -> Vec<TemplatePath> {
    let known = path_of_kind(text(object, "kind"));
    if let Some(path) = known.filter(|path| object.pointer(path).is_some()) {
        return vec![TemplatePath::of(path)];
    }
    let mut found = Vec::new();
    search(object, &TemplatePath::default(), &mut found);
    found
}

fn search(value: &Value, path: &TemplatePath, found: &mut Vec<TemplatePath>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                let is_template = key == "template" || key.ends_with("Template");
                let containers = value.pointer("/spec/containers");
                if is_template && containers.is_some_and(Value::is_array) {
                    found.push(path.with_key(key));
                } else if value.is_object() || value.is_array() {
                    search(value, &path.with_key(key), found);
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                search(item, &path.with_index(index), found);
            }
        }
        _ => {}
    }
}

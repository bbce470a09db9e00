//! Detects templates with placeholders that were not rendered.

use serde_json::Value;

/// The start of a placeholder.
pub(super) const PLACEHOLDER: &str = "{{";

/// The message about a template with placeholders.
pub(super) const UNRENDERED: &str =
    "this is a template with placeholders: lint what it is rendered to, e.g. by `helm template`";

/// Returns whether an object has placeholders, except in fields where a program may expect its own.
pub(super) fn has_placeholder(value: &Value) -> bool {
    const OF_PROGRAMS: [&str; 5] = [
        "annotations",
        "containers",
        "ephemeralContainers",
        "initContainers",
        "volumes",
    ];
    match value {
        Value::String(text) => text.contains(PLACEHOLDER),
        Value::Array(items) => items.iter().any(has_placeholder),
        Value::Object(fields) => fields.iter().any(|(key, value)| {
            key.contains(PLACEHOLDER) || !OF_PROGRAMS.contains(&&**key) && has_placeholder(value)
        }),
        _ => false,
    }
}

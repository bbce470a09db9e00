//! Detects templates with placeholders that were not filled in.

use serde_json::Value;

use crate::manifest::{Position, Template};

/// The starts of placeholders of Helm and Go, of Jinja, and of ERB.
const STARTS: [&str; 3] = ["{{", "{%", "<%"];

/// The message about a template with placeholders.
pub(super) const UNRENDERED: &str = "this is a template with placeholders: lint what it is filled in \
                                     to, e.g. by `helm template`, `envsubst` or `flux build`";

/// The message about a Kustomization with patches.
pub(super) const PATCHES: &str = "the patches of this Kustomization are not applied: lint what \
                                  `kustomize build` prints";

/// Returns whether a template has placeholders, except in fields where a program may expect its
/// own.
pub(super) fn has_placeholder(template: &Template) -> bool {
    template.read_parts().into_iter().any(in_value)
}

fn in_value(value: &Value) -> bool {
    const OF_PROGRAMS: [&str; 5] = [
        "annotations",
        "containers",
        "ephemeralContainers",
        "initContainers",
        "volumes",
    ];
    match value {
        Value::String(text) => {
            STARTS.iter().any(|start| text.contains(start)) || has_variable(text)
        }
        Value::Array(items) => items.iter().any(in_value),
        Value::Object(fields) => fields.iter().any(|(key, value)| {
            STARTS.iter().any(|start| key.contains(start))
                || has_braced_variable(key)
                || !OF_PROGRAMS.contains(&&**key) && in_value(value)
        }),
        _ => false,
    }
}

/// Returns whether a text that cannot be parsed has placeholders, which may be the reason. Variables
/// are also those of scripts, so they count only near the position where parsing stopped.
pub(super) fn in_text(text: &str, stopped: Option<Position>) -> bool {
    let line = stopped.map_or(0, |at| at.line);
    let mut near = text.lines().skip(line.saturating_sub(2)).take(2);
    STARTS.iter().any(|start| text.contains(start)) || near.any(has_braced_variable)
}

/// Returns whether a text has a variable such as `${NAME}`, `$(NAME)`, `#{NAME}#` or `$NAME`, as
/// Flux, OpenShift, Kustomize and envsubst replace them.
fn has_variable(text: &str) -> bool {
    let is_name = |rest: &str| rest.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    has_braced_variable(text) || text.split('$').skip(1).any(is_name)
}

fn has_braced_variable(text: &str) -> bool {
    ["${", "$(", "#{"].iter().any(|start| text.contains(start))
}

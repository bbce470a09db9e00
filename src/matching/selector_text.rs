//! Selectors in kubectl's notation.

use crate::proto::v1::{LabelSelector, LabelSelectorRequirement};

/// E.g. `app=web,tier in (a,b),!canary`. Empty for the empty selector.
pub fn selector_text(selector: &LabelSelector) -> String {
    let pairs = selector
        .match_labels
        .iter()
        .map(|(key, value)| format!("{key}={value}"));
    let requirements = selector.match_expressions.iter().map(requirement_text);
    pairs.chain(requirements).collect::<Vec<_>>().join(",")
}

fn requirement_text(requirement: &LabelSelectorRequirement) -> String {
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

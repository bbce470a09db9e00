//! Parses label selectors in kubectl's notation: `app=web,tier in (a, b),!legacy`.

use anyhow::Result;

use crate::matching::{Path, Selector, Violations};
use crate::proto::v1::{LabelSelector, LabelSelectorRequirement};

/// Compiles a selector of the command line, for matching in this process.
///
/// # Errors
/// All invalid keys and values.
pub(crate) fn compile(selector: &LabelSelector) -> Result<Selector> {
    let mut faults = Violations::default();
    let compiled = Selector::compile(Some(selector), Path::root("--selector"), &mut faults);
    anyhow::ensure!(faults.is_empty(), "{faults}");
    Ok(compiled)
}

/// Parses a selector. Keys and values are not checked here, but by the server.
pub(crate) fn parse(text: &str) -> Result<LabelSelector, String> {
    let mut selector = LabelSelector::default();
    for part in parts(text) {
        let expression = requirement(part.trim())?;
        match &expression.values[..] {
            [value]
                if expression.operator == "In"
                    && !selector.match_labels.contains_key(&expression.key) =>
            {
                selector.match_labels.insert(expression.key, value.clone());
            }
            _ => selector.match_expressions.push(expression),
        }
    }
    Ok(selector)
}

/// Splits at commas outside of parentheses.
fn parts(text: &str) -> Vec<&str> {
    if text.trim().is_empty() {
        return Vec::new();
    }
    let mut depth = 0;
    let split = text.split(move |c: char| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        c == ',' && depth == 0
    });
    split.collect()
}

fn requirement(text: &str) -> Result<LabelSelectorRequirement, String> {
    let of = |key: &str, operator: &str, values: Vec<String>| LabelSelectorRequirement {
        key: key.trim().to_owned(),
        operator: operator.to_owned(),
        values,
    };
    let one = |value: &str| vec![value.trim().to_owned()];
    if let Some((head, values)) = text.strip_suffix(')').and_then(|t| t.split_once('(')) {
        let values = values.split(',').map(|value| value.trim().to_owned());
        let (key, operator) = match head.split_whitespace().collect::<Vec<_>>()[..] {
            [key, "in"] => (key, "In"),
            [key, "notin"] => (key, "NotIn"),
            _ => {
                return Err(format!(
                    "{text:?} is neither KEY in (...) nor KEY notin (...)"
                ));
            }
        };
        return Ok(of(key, operator, values.collect()));
    }
    let parsed = if let Some((key, value)) = text.split_once("!=") {
        of(key, "NotIn", one(value))
    } else if let Some((key, value)) = text.split_once("==").or_else(|| text.split_once('=')) {
        of(key, "In", one(value))
    } else if let Some(key) = text.strip_prefix('!') {
        of(key, "DoesNotExist", Vec::new())
    } else {
        of(text, "Exists", Vec::new())
    };
    match parsed.key.is_empty() || parsed.key.contains(char::is_whitespace) {
        true => Err(format!(
            "{text:?} is none of KEY=VALUE, KEY!=VALUE, KEY in (...), KEY notin (...), KEY and !KEY"
        )),
        false => Ok(parsed),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn selectors_are_read_as_kubectl_reads_them() {
        let cases = [
            ("", json!({})),
            ("app=web", json!({"matchLabels": {"app": "web"}})),
            (
                "app == web , tier!=db",
                json!({"matchLabels": {"app": "web"}, "matchExpressions": [
                    {"key": "tier", "operator": "NotIn", "values": ["db"]}]}),
            ),
            (
                "env in (a, b),env notin (c),app=",
                json!({"matchLabels": {"app": ""}, "matchExpressions": [
                    {"key": "env", "operator": "In", "values": ["a", "b"]},
                    {"key": "env", "operator": "NotIn", "values": ["c"]}]}),
            ),
            (
                "app=a,app=b",
                json!({"matchLabels": {"app": "a"}, "matchExpressions": [
                    {"key": "app", "operator": "In", "values": ["b"]}]}),
            ),
            (
                "app,!old",
                json!({"matchExpressions": [
                    {"key": "app", "operator": "Exists"},
                    {"key": "old", "operator": "DoesNotExist"}]}),
            ),
        ];
        for (text, expected) in cases {
            let got = serde_json::to_value(parse(text).expect(text)).expect("it can be written");
            assert_eq!(got, expected, "{text}");
        }
        for bad in [",", "a=b,", "=web", "a b", "a within (b)"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}

//! Findings as SARIF 2.1.0, for code scanning.

use clap::ValueEnum;
use serde_json::{Value, json};

use super::finding::LintFinding;
use super::rule::LintRule;

/// A log with one run, all rules and all findings.
pub(crate) fn log(findings: &[LintFinding]) -> Value {
    let rules: Vec<Value> = LintRule::value_variants().iter().map(rule).collect();
    let results: Vec<Value> = findings.iter().map(result).collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "evenkeel",
                "version": env!("CARGO_PKG_VERSION"),
                "semanticVersion": env!("CARGO_PKG_VERSION"),
                "rules": rules,
            }},
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    })
}

fn rule(rule: &LintRule) -> Value {
    json!({
        "id": rule.id(),
        "shortDescription": {"text": sentence(&rule.help())},
        "fullDescription": {"text": sentence(&rule.help())},
        "defaultConfiguration": {"enabled": rule.is_on(), "level": rule.severity().as_str()},
        "help": {"text": help(*rule)},
    })
}

fn help(rule: LintRule) -> String {
    match rule.is_on() {
        true => format!("`evenkeel lint --ignore {}` leaves it out.", rule.id()),
        false => format!("`evenkeel lint --enable {}` turns it on.", rule.id()),
    }
}

fn result(finding: &LintFinding) -> Value {
    let index = LintRule::value_variants()
        .iter()
        .position(|rule| *rule == finding.rule);
    let mut physical = json!({
        "artifactLocation": {"uri": uri(&finding.file)},
    });
    if finding.line > 0 {
        physical["region"] = json!({
            "startLine": finding.line,
            "startColumn": finding.column,
        });
    }
    let mut location = json!({"physicalLocation": physical});
    if !finding.object.is_empty() {
        location["logicalLocations"] = json!([{
            "name": finding.object,
            "fullyQualifiedName": format!("{} {}", finding.object, finding.path),
            "kind": "object",
        }]);
    }
    json!({
        "ruleId": finding.rule.id(),
        "ruleIndex": index,
        "level": finding.severity.as_str(),
        "message": {"text": sentence(&finding.message)},
        "locations": [location],
    })
}

/// The text with a full stop at its end.
fn sentence(text: &str) -> String {
    match text.ends_with('.') {
        true => text.to_owned(),
        false => format!("{text}."),
    }
}

/// A path as a URI, with escapes. A relative path becomes a relative reference.
fn uri(path: &str) -> String {
    let scheme = if path.starts_with('/') { "file://" } else { "" };
    let mut uri = scheme.to_owned();
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' | b'~' => {
                uri.push(char::from(byte));
            }
            _ => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri
}

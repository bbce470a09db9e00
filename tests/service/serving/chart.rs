//! The schema of the chart's values knows the settings of `evenkeel serve`, and
//! no others: Helm refuses what the server would refuse at its start.

use std::fs;
use std::path::Path;

use clap::{Arg, ArgAction};
use evenkeel::limits::Limit;
use serde_json::{Map, Value, json};

use crate::serving::operations::serve;

/// Settings that the chart makes from other values.
const MADE_BY_THE_CHART: [&str; 20] = [
    "access-file",
    "admin-listen",
    "allow-plaintext",
    "durability",
    "expect-snapshot",
    "fleet",
    "kubernetes",
    "kubernetes-scheduler-config",
    "kubernetes-snapshot",
    "listen",
    "log",
    "log-ca",
    "log-certificate",
    "log-credentials",
    "log-key",
    "log-replicas",
    "state-dir",
    "tls-cert",
    "tls-client-ca",
    "tls-key",
];

/// The flag that names the file of the other settings.
const FILE: &str = "config";

fn read(file: &str) -> String {
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/helm/evenkeel");
    fs::read_to_string(chart.join(file)).expect("the file can be read")
}

/// Returns the schema of one value of a flag.
fn value(arg: &Arg) -> Value {
    let possible: Vec<_> = arg.get_possible_values();
    let possible: Vec<&str> = possible.iter().map(|value| value.get_name()).collect();
    let named = arg.get_value_names().unwrap_or_default();
    let limit = Limit::named(arg.get_long().unwrap_or_default()).map(Limit::row);
    match named.first().map_or("", |name| name.as_str()) {
        _ if !arg.get_action().takes_values() => json!({ "type": "boolean" }),
        _ if !possible.is_empty() => json!({ "enum": possible }),
        "COUNT" | "BYTES" => {
            let least = limit.map_or(1, |row| row.least);
            match limit.map_or(usize::MAX, |row| row.most) {
                usize::MAX => json!({ "type": "integer", "minimum": least }),
                most => json!({ "type": "integer", "minimum": least, "maximum": most }),
            }
        }
        "RATE" | "RATIO" => json!({ "type": "number", "minimum": 0, "maximum": 1 }),
        "DURATION" => json!({ "type": "string", "pattern": "^[0-9]+ *[a-z]+( *[0-9]+ *[a-z]+)*$" }),
        _ => json!({ "type": "string", "minLength": 1 }),
    }
}

fn setting(arg: &Arg) -> Value {
    let one = value(arg);
    if matches!(arg.get_action(), ArgAction::Append) {
        return json!({ "anyOf": [one, { "type": "array", "items": one }] });
    }
    one
}

#[test]
fn the_schema_has_the_settings_of_the_server() {
    let serve = serve();
    let elsewhere = |name: &&str| MADE_BY_THE_CHART.contains(name) || *name == FILE;
    let settings: Map<String, Value> = serve
        .get_arguments()
        .filter_map(|arg| Some((arg.get_long()?, arg)))
        .filter(|(name, _)| !elsewhere(name))
        .map(|(name, arg)| (name.to_owned(), setting(arg)))
        .collect();
    let expected = json!({
        "type": "object",
        "additionalProperties": false,
        "properties": settings,
    });
    let schema: Value = serde_json::from_str(&read("values.schema.json")).expect("JSON");
    assert_eq!(
        schema["properties"]["settings"], expected,
        "in values.schema.json, put this for `settings`:\n{expected:#}"
    );
}

#[test]
fn the_chart_makes_the_other_settings() {
    let helpers = read("templates/_helpers.tpl");
    for name in MADE_BY_THE_CHART {
        assert!(helpers.contains(&format!("\"{name}\"")), "{name}");
    }
}

//! `evenkeel lint`: the settings, flags and annotations that turn rules on and off.

use std::fs;

use serde_json::Value;
use tempfile::TempDir;

use super::process;

/// A Deployment with `of_spec` beside its replicas, and `of_pod` in the template's spec, which
/// begins on line 8.
fn deployment(of_spec: &str, of_pod: &str) -> String {
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: web}}\nspec: \n  replicas: 3\n  \
         template:\n    metadata: {{labels: {{app: web}}}}\n    spec:\n      containers: []\n{of_pod}{of_spec}"
    )
}

/// Settings, a manifest, flags, the rules that are found, and the exit code.
type Case<'a> = (&'a str, &'a str, &'a [&'a str], &'a [&'a str], i32);

#[test]
fn rules_are_turned_on_and_off() {
    let directory = TempDir::new().expect("a directory");
    let here = directory.path();
    let bare = deployment("", "");
    let ignoring = |rules: &str| {
        bare.replace(
            "{name: web}",
            &format!("{{name: web, annotations: {{evenkeel.dev/lint-ignore: {rules:?}}}}}"),
        )
    };
    let in_template = bare.replace(
        "{labels: {app: web}}",
        "{labels: {app: web}, annotations: {evenkeel.dev/lint-ignore: no-constraints}}",
    );
    let on = "[rules]\nno-constraints = \"error\"\n";
    let cases: [Case<'_>; 10] = [
        ("", &bare, &[], &[], 0),
        (
            "",
            &bare,
            &["--enable", "no-constraints"],
            &["no-constraints"],
            1,
        ),
        (on, &bare, &[], &["no-constraints"], 1),
        (on, &bare, &["--ignore", "no-constraints"], &[], 0),
        (on, &ignoring("no-constraints, single-replica"), &[], &[], 0),
        (on, &in_template, &[], &[], 0),
        (
            on,
            &ignoring("no-constraint"),
            &[],
            &["unknown-rule", "no-constraints"],
            1,
        ),
        (
            "fail-on = \"error\"\n[rules]\nno-constraints = \"on\"\n",
            &bare,
            &[],
            &["no-constraints"],
            0,
        ),
        (
            "fail-on = \"error\"\n[rules]\nno-constraints = \"on\"\n",
            &bare,
            &["--strict"],
            &["no-constraints"],
            1,
        ),
        (
            "[rules]\nno-constraints = \"note\"\n",
            &bare,
            &["--strict"],
            &["no-constraints"],
            0,
        ),
    ];
    for (settings, text, flags, rules, code) in cases {
        fs::write(here.join(".evenkeel-lint.toml"), settings).expect("it can be written");
        fs::create_dir_all(here.join("below")).expect("it can be made");
        fs::write(here.join("below/a.yaml"), text).expect("it can be written");
        let mut command = process::command(&["lint", "-o", "json", "-f", "a.yaml"]);
        command.args(flags).current_dir(here.join("below"));
        let output = process::run(command);
        let answer: Value = serde_json::from_slice(&output.stdout).expect("it prints JSON");
        let found = answer["findings"].as_array().expect("a list").iter();
        let found: Vec<&str> = found
            .filter_map(|finding| finding["rule"].as_str())
            .collect();
        assert_eq!(found, rules, "{settings}{flags:?}\n{text}");
        assert_eq!(
            output.status.code(),
            Some(code),
            "{settings}{flags:?}\n{text}"
        );
    }
}

#[test]
fn a_settings_file_that_says_nothing_known_is_refused_by_name() {
    let cases = [
        ("strct = true\n", "line 1: unknown field `strct`"),
        (
            "[rules]\nsingle-replicas = \"off\"\n",
            "rules: no rule is called \"single-replicas\", did you mean single-replica?",
        ),
        (
            "[rules]\nsingle-replica = \"loud\"\n",
            "line 2: unknown variant `loud`",
        ),
        ("fail-on = \n", "line 1: "),
    ];
    for (settings, expected) in cases {
        let directory = TempDir::new().expect("a directory");
        fs::write(directory.path().join("a.yaml"), deployment("", "")).expect("it can be written");
        fs::write(directory.path().join("mine.toml"), settings).expect("it can be written");
        let mut command = process::command(&["lint", "-f", "a.yaml", "--config", "mine.toml"]);
        command.current_dir(directory.path());
        let output = process::run(command);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(&format!("mine.toml: {expected}")), "{said}");
        assert_eq!(output.status.code(), Some(2), "{said}");
    }
}

/// The document lists the rules and severities of the program.
#[test]
fn the_document_lists_every_rule() {
    let document = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/explaining.md");
    let document = fs::read_to_string(document).expect("the document");
    let (_, table) = document
        .split_once("| rule | severity | finds |")
        .expect("a table");
    let rows = table
        .lines()
        .skip(2)
        .take_while(|line| line.starts_with('|'));
    let mut listed: Vec<(String, String)> = rows
        .map(|row| {
            let mut cells = row.trim_matches('|').split(" | ").map(str::trim);
            let mut cell = || cells.next().expect("a cell").trim_matches('`').to_owned();
            (cell(), cell())
        })
        .collect();
    listed.sort();
    let directory = TempDir::new().expect("a directory");
    fs::write(directory.path().join("a.yaml"), "").expect("it can be written");
    let mut command = process::command(&["lint", "-f", "a.yaml", "-o", "sarif"]);
    command.current_dir(directory.path());
    let log: Value = serde_json::from_slice(&process::run(command).stdout).expect("it prints JSON");
    let rules = log["runs"][0]["tool"]["driver"]["rules"]
        .as_array()
        .expect("rules");
    let mut known: Vec<(String, String)> = rules
        .iter()
        .map(|rule| {
            let level = rule["defaultConfiguration"]["level"]
                .as_str()
                .expect("a level");
            let severity = match rule["defaultConfiguration"]["enabled"] == true {
                true => level.to_owned(),
                false => format!("{level}, off"),
            };
            (rule["id"].as_str().expect("an id").to_owned(), severity)
        })
        .collect();
    known.sort();
    assert_eq!(listed, known);
}

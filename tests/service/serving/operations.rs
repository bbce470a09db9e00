//! `docs/operations.md` names every flag of the server and every metric, and
//! has a runbook for every alert.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use clap::{Command, CommandFactory};
use evenkeel::cli::Cli;

use crate::serving::metrics::Page;
use crate::serving::process::Server;

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(path).expect("the file can be read")
}

/// The command `serve`, with its flags.
pub(crate) fn serve() -> Command {
    let cli = Cli::command();
    let serve = cli.find_subcommand("serve");
    serve.expect("there is a command serve").clone()
}

/// People cannot know more.
#[test]
fn settings_are_few_and_none_is_hidden() {
    let serve = serve();
    assert!(serve.get_arguments().all(|arg| !arg.is_hide_set()));
    assert!(serve.get_arguments().count() <= 55);
}

#[test]
fn every_flag_is_told_with_its_default() {
    let document = read("docs/operations.md");
    let serve = serve();
    for arg in serve.get_arguments() {
        let flag = format!("`--{}`", arg.get_long().expect("a setting has a flag"));
        let row = document
            .lines()
            .find(|line| line.starts_with(&format!("| {flag} ")));
        let row = row.unwrap_or_else(|| panic!("{flag} is not told"));
        if let [default] = arg.get_default_values() {
            let default = default.to_str().expect("defaults are text");
            let told = row.split('|').nth(2).unwrap_or_default().replace(',', "");
            assert_eq!(told.trim(), default, "{row}");
        }
    }
}

#[test]
fn no_flag_is_told_that_is_not_there() {
    let serve = serve();
    let flags: BTreeSet<_> = serve
        .get_arguments()
        .filter_map(|arg| arg.get_long())
        .collect();
    let document = read("docs/operations.md");
    let rows = document
        .lines()
        .filter_map(|line| line.strip_prefix("| `--"));
    for told in rows.filter_map(|row| row.split('`').next()) {
        assert!(flags.contains(told), "--{told} is no flag");
    }
}

#[test]
fn every_metric_is_told_with_its_type() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let log = directory.path().join("decisions");
    let mut server = Server::start(&[
        "--admin-listen",
        "127.0.0.1:0",
        "--kubernetes",
        "--kubeconfig=/nowhere",
        "--decision-log",
        log.to_str().expect("a text path"),
    ]);
    let page = Page::of(&server.logged("admin listening", "address"));
    let document = read("docs/operations.md");
    for (name, kind) in page.families() {
        let name = match kind.as_str() {
            "counter" => format!("{name}_total"),
            "info" => format!("{name}_info"),
            _ => name,
        };
        let mut told = document.lines().filter_map(|line| line.split_once(' '));
        let is_told = told.any(|(told, rest)| {
            told == kind.as_str() && rest.trim_start().split('{').next() == Some(name.as_str())
        });
        assert!(is_told, "{kind} {name} is not told");
    }
}

#[test]
fn every_alert_has_a_runbook_and_every_runbook_an_alert() {
    let alerts = read("deploy/prometheus/alerts.yaml");
    let alerts: BTreeSet<_> = alerts
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- alert: "))
        .map(str::to_owned)
        .collect();
    assert!(alerts.len() > 10, "{alerts:?}");
    let document = read("docs/operations.md");
    let headings = document
        .lines()
        .filter_map(|line| line.strip_prefix("### "));
    let runbooks: BTreeSet<_> = headings
        .filter(|heading| heading.starts_with("Evenkeel"))
        .map(str::to_owned)
        .collect();
    assert_eq!(alerts, runbooks);
}

#[test]
fn every_alert_links_to_its_runbook() {
    let rules = read("deploy/prometheus/alerts.yaml");
    let mut links = rules
        .lines()
        .filter_map(|line| line.trim().strip_prefix("runbook_url: "));
    let alerts = rules
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- alert: "));
    for alert in alerts {
        let link = links.next().expect("each alert has a link");
        let (page, anchor) = link.split_once('#').expect("links lead to a heading");
        let document = read(page);
        let mut headings = document.lines().filter_map(|l| l.strip_prefix("### "));
        // The heading is one word, so its anchor is that word in lower case.
        let runbook = headings.find(|heading| heading.to_lowercase() == anchor);
        assert_eq!(runbook, Some(alert), "{link}");
    }
    assert_eq!(links.next(), None);
    // The chart replaces this text by another address.
    let rule = read("deploy/helm/evenkeel/templates/prometheusrule.yaml");
    assert!(rule.contains("\"runbook_url: docs/operations.md#\""));
}

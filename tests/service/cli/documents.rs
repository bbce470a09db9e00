//! What commands print, as documents show it: each document beside this file is a test.

use std::collections::BTreeMap;
use std::path::Path;

macro_rules! documents {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            let name = concat!("tests/service/cli/", stringify!($name), ".md");
            support::sessions::check(&Path::new(env!("CARGO_MANIFEST_DIR")).join(name));
        })*
    };
}

documents! {
    advice bad_pods credentials drawn endless gates in_process lint lint_cluster lint_custom lint_named lint_parts lint_settings lint_written made_pods matched
    named narrow new_workloads nodes nodes_cases odds place reassuring rebalance rebalance_reported refused remote report reservations
    rollouts scale_down scheduler_plugins serve_settings spread spread_cases stateful_sets stories unchecked what_if worked_examples
}

/// The table of the README says first what `scheduler_plugins` shows of each plugin.
#[test]
fn the_readme_says_what_of_each_plugin_is_checked() {
    let readme = include_str!("../../../README.md");
    let (_, table) = readme
        .split_once("| plugin | Filter | Score |\n|---|---|---|\n")
        .expect("the table");
    let document = include_str!("scheduler_plugins.md");
    for (column, method) in [(1, "filter"), (2, "score")] {
        let command = format!("$ sh each.sh {method} < lines\n");
        let (_, shown) = document.split_once(&command).expect("the command");
        let shown = shown.lines().map_while(|line| line.split_once(": "));
        let shown: BTreeMap<&str, &str> = shown.collect();
        let rows = table.lines().take_while(|line| line.starts_with('|'));
        let told = rows.map(|row| {
            let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
            let word = cells[column].split([' ', ':']).next().unwrap_or_default();
            (cells[0], word)
        });
        let told = told.filter(|(_, word)| *word != "–").collect();
        assert_eq!(shown, told, "{method}");
    }
}

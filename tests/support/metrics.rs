//! Reading a page of metrics.

#![allow(dead_code, reason = "each test file uses its part")]

use std::collections::BTreeSet;

use crate::http::get;

/// What an admin port tells.
#[derive(Debug)]
pub(crate) struct Page(String);

impl Page {
    /// Scrapes an admin port.
    pub(crate) fn of(address: &str) -> Self {
        let answer = get(address, "/metrics");
        assert_eq!(answer.status, 200, "{answer:?}");
        Self(answer.body)
    }

    pub(crate) fn text(&self) -> &str {
        &self.0
    }

    /// The value of a sample by its name and some of its labels, each as
    /// `key="value"`.
    pub(crate) fn sample(&self, name: &str, labels: &[&str]) -> Option<f64> {
        let line = self.0.lines().find(|line| {
            let (series, _) = line.rsplit_once(' ').unwrap_or_default();
            let (found, rest) = series.split_once('{').unwrap_or((series, ""));
            found == name && labels.iter().all(|label| rest.contains(label))
        })?;
        line.rsplit_once(' ')?.1.parse().ok()
    }

    /// The value of a sample that must be there.
    #[track_caller]
    pub(crate) fn value(&self, name: &str, labels: &[&str]) -> f64 {
        let value = self.sample(name, labels);
        value.unwrap_or_else(|| panic!("no {name} {labels:?} in\n{}", self.0))
    }

    /// The families, by name, each with its type.
    pub(crate) fn families(&self) -> BTreeSet<(String, String)> {
        let types = self
            .0
            .lines()
            .filter_map(|line| line.strip_prefix("# TYPE "));
        let pair = |line: &str| {
            let (name, kind) = line.split_once(' ').expect("a type follows the name");
            (name.to_owned(), kind.to_owned())
        };
        types.map(pair).collect()
    }
}

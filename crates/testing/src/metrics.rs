//! Reading a page of metrics.

use std::collections::BTreeSet;

use crate::http::get;

/// A page of an admin port.
#[derive(Debug)]
pub struct Page(String);

impl Page {
    /// Scrapes an admin port.
    pub fn of(address: &str) -> Self {
        let answer = get(address, "/metrics");
        assert_eq!(answer.status, 200, "{answer:?}");
        Self(answer.body)
    }

    pub fn text(&self) -> &str {
        &self.0
    }

    /// The value of a sample by its name and some of its labels, each as
    /// `key="value"`.
    pub fn sample(&self, name: &str, labels: &[&str]) -> Option<f64> {
        let line = self.0.lines().find(|line| {
            let (series, _) = line.rsplit_once(' ').unwrap_or_default();
            let (found, rest) = series.split_once('{').unwrap_or((series, ""));
            found == name && labels.iter().all(|label| rest.contains(label))
        })?;
        line.rsplit_once(' ')?.1.parse().ok()
    }

    /// The value of a sample that must be there.
    #[track_caller]
    pub fn value(&self, name: &str, labels: &[&str]) -> f64 {
        let value = self.sample(name, labels);
        value.unwrap_or_else(|| panic!("no {name} {labels:?} in\n{}", self.0))
    }

    /// The sum of a family's samples.
    pub fn sum(&self, family: &str) -> f64 {
        let samples = self.0.lines().filter_map(|line| line.strip_prefix(family));
        let value = |sample: &str| {
            let (labels, value) = sample.rsplit_once(' ')?;
            (labels.is_empty() || labels.starts_with('{')).then(|| value.parse::<f64>().ok())?
        };
        samples.filter_map(value).sum()
    }

    /// The families, by name, each with its type.
    pub fn families(&self) -> BTreeSet<(String, String)> {
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

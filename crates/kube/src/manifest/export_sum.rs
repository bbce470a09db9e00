//! The sum by which a reader of an export checks that it is whole.

use evenkeel_core::proto::v1;
use ring::digest::{Context, SHA256};
use serde::Serialize;

/// Counts the objects of an export and sums them up as
/// [`v1::ExportSummary`] says.
#[derive(Clone)]
pub struct ExportSum {
    objects: i64,
    sum: Context,
}

impl Default for ExportSum {
    fn default() -> Self {
        Self {
            objects: 0,
            sum: Context::new(&SHA256),
        }
    }
}

impl ExportSum {
    /// Adds the default constraints of an export. They come first.
    pub fn add_defaults(&mut self, defaults: &v1::DefaultConstraints) {
        self.add_line(defaults);
    }

    /// Adds the next object.
    pub fn add(&mut self, change: &v1::Change) {
        self.objects = self.objects.saturating_add(1);
        self.add_line(change);
    }

    /// Adds the next part of an export.
    pub fn add_update(&mut self, update: &v1::UpdateSnapshotRequest) {
        if let Some(defaults) = &update.default_constraints {
            self.add_defaults(defaults);
        }
        update.changes.iter().for_each(|change| self.add(change));
    }

    /// The summary of all that was added.
    pub fn finish(self) -> v1::ExportSummary {
        v1::ExportSummary {
            object_count: self.objects,
            sha256: self.sum.finish().as_ref().to_vec().into(),
        }
    }

    fn add_line(&mut self, message: &impl Serialize) {
        // Converts to a value first, so that the fields of each object are sorted.
        let value = serde_json::to_value(message).expect("messages have a JSON form");
        let mut line = value.to_string();
        line.push('\n');
        self.sum.update(line.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Clients in other languages have to get the same sum.
    #[test]
    fn sums_are_of_json_with_sorted_keys() {
        let defaults: v1::DefaultConstraints = serde_json::from_value(json!({})).expect("valid");
        let pod = json!({"pod": {
            "spec": {"tolerations": [{"tolerationSeconds": "300", "key": "k"}], "nodeName": "a"},
            "metadata": {"uid": "\u{e9}\n\"", "name": "p", "labels": {"z": "", "a/b": "1"}},
        }});
        let mut sum = ExportSum::default();
        sum.add_defaults(&defaults);
        sum.add(&serde_json::from_value(pod).expect("a pod"));
        let line = concat!(
            r#"{"pod":{"metadata":{"labels":{"a/b":"1","z":""},"name":"p","uid":"é\n\""},"#,
            r#""spec":{"nodeName":"a","tolerations":[{"key":"k","tolerationSeconds":"300"}]}}}"#,
        );
        let bytes = format!("{{}}\n{line}\n");
        let wanted = ring::digest::digest(&SHA256, bytes.as_bytes());
        let summary = sum.finish();
        assert_eq!(
            (summary.object_count, &summary.sha256[..]),
            (1, wanted.as_ref())
        );
    }
}

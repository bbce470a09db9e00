//! The rules that a manifest turns off for one object, by an annotation, because JSON has no
//! comments.

use std::collections::BTreeSet;

use super::finding::Said;
use super::rule::LintRule;
use crate::manifest::Template;

/// The annotation of a workload or its pod template, with names of rules, separated by commas.
const ANNOTATION: &str = "evenkeel.dev/lint-ignore";

/// The rules that are off for a template, and the faults of the lists.
pub(super) fn of(template: &Template) -> (BTreeSet<LintRule>, Vec<Said>) {
    let object = &template.object.value["metadata"];
    let mut lists = vec![("metadata".to_owned(), object)];
    if !template.place.field.is_empty() {
        lists.push((template.field("metadata"), template.written_metadata()));
    }
    let mut ignored = BTreeSet::new();
    let mut said = Vec::new();
    for (path, metadata) in lists {
        let list = metadata["annotations"][ANNOTATION].as_str();
        let names = list.unwrap_or_default().split(',');
        for name in names.map(str::trim).filter(|name| !name.is_empty()) {
            match LintRule::named(name) {
                Ok(rule) => _ = ignored.insert(rule),
                Err(fault) => said.push(Said {
                    rule: LintRule::UnknownRule,
                    field: format!("{path}.annotations.{ANNOTATION}"),
                    message: fault.to_string(),
                }),
            }
        }
    }
    (ignored, said)
}

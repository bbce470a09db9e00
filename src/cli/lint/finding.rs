//! The findings of lint, and their positions.

use serde::Serialize;

use super::rule::{LintRule, Severity};
use crate::manifest::{InputSource, Position, Positions, Template};

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct LintFinding {
    pub(crate) file: String,
    /// The line, from 1; 0 if unknown.
    pub(crate) line: usize,
    /// The column, from 1; 0 if unknown.
    pub(crate) column: usize,
    /// The severity of the finding.
    pub(crate) severity: Severity,
    /// The rule that found it.
    pub(crate) rule: LintRule,
    /// Kind, namespace and name of the object; empty when there is none.
    pub(crate) object: String,
    /// Path of the field in its document; empty when there is none.
    pub(crate) path: String,
    /// The fault.
    pub(crate) message: String,
}

/// A finding of a rule in a template: the field in the object, and the fault.
pub(crate) struct Said {
    pub(crate) rule: LintRule,
    /// Path of the field in the object.
    pub(crate) field: String,
    /// The fault.
    pub(crate) message: String,
}

impl LintFinding {
    /// The file, with the position if that is known.
    pub(crate) fn place(&self) -> String {
        match self.line {
            0 => self.file.clone(),
            line => format!("{}:{line}:{}", self.file, self.column),
        }
    }

    /// A finding about a file that cannot be read, at the position where reading stopped.
    pub(crate) fn of_file(
        file: &InputSource,
        rule: LintRule,
        message: String,
        at: Option<Position>,
    ) -> Self {
        let (line, column) = at.map_or((0, 0), |at| (at.line, at.column));
        Self {
            file: file.to_string(),
            line,
            column,
            severity: rule.severity(),
            rule,
            object: String::new(),
            path: String::new(),
            message,
        }
    }

    /// A finding about a field of a template's object.
    pub(crate) fn of(said: Said, template: &Template, file: &InputSource, all: &Positions) -> Self {
        let object = &template.object;
        // The user does not see the text from a cluster, so a position in it would not help.
        let in_cluster = matches!(file, InputSource::Cluster(_));
        let path = match (&*object.path, &*said.field) {
            (_, field) if in_cluster => field.to_owned(),
            (item, "") => item.to_owned(),
            ("", field) => field.to_owned(),
            (item, field) => format!("{item}.{field}"),
        };
        let at = (!in_cluster).then(|| object.position(all, &path)).flatten();
        Self {
            object: object.name.clone(),
            path,
            ..Self::of_file(file, said.rule, said.message, at)
        }
    }
}

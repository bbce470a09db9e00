//! Renders the findings of lint, in the format of compilers.

use anstyle::{AnsiColor, Style};

use super::look::{Look, styled};
use crate::cli::lint::finding::LintFinding;
use crate::cli::lint::rule::Severity;
use crate::explain::plural;
use crate::visible;

/// The findings, two lines each, and their number. `place` names the source of the checked pod
/// templates.
pub(crate) fn lint(findings: &[LintFinding], templates: usize, place: &str) -> String {
    let mut text: String = findings.iter().map(finding).collect();
    if !findings.is_empty() {
        text.push('\n');
    }
    text + &totals(findings, templates, place)
}

fn style(severity: Severity) -> Style {
    match severity {
        Severity::Note => AnsiColor::Cyan.on_default(),
        Severity::Warning => Look::Fair.style(),
        Severity::Error => Look::Bad.style(),
    }
    .bold()
}

fn finding(finding: &LintFinding) -> String {
    let place = finding.place();
    let mut text = format!(
        "{}: {}: {} [{}]\n",
        Look::Strong.paint(&place),
        styled(style(finding.severity), finding.severity.as_str()),
        visible::text(&finding.message),
        finding.rule.id(),
    );
    if !finding.object.is_empty() {
        let at = match finding.path.is_empty() {
            true => String::new(),
            false => format!(", {}", visible::text(&finding.path)),
        };
        let object = visible::text(&finding.object);
        text.push_str(&format!("    {object}{at}\n"));
    }
    text
}

fn totals(findings: &[LintFinding], templates: usize, place: &str) -> String {
    let looked_at = format!("{} in {place}", plural(templates, "pod template"));
    if findings.is_empty() && templates == 0 {
        return format!("nothing to check: no pod template in {place}\n");
    }
    if findings.is_empty() {
        return format!("{}: {looked_at}\n", Look::Good.paint("nothing found"));
    }
    let of = |severity: Severity| {
        let count = findings.iter().filter(|f| f.severity == severity).count();
        (count > 0).then(|| plural(count as i64, severity.as_str()))
    };
    let worst_first = [Severity::Error, Severity::Warning, Severity::Note];
    let said: Vec<String> = worst_first.into_iter().filter_map(of).collect();
    format!("{}: {looked_at}\n", said.join(", "))
}

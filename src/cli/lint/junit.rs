//! The findings as JUnit's XML, for CI systems.

use maud::{Markup, PreEscaped, html};

use super::finding::LintFinding;
use super::rule::Severity;
use crate::visible;

/// Returns the message of a finding, with its object.
fn said(finding: &LintFinding) -> String {
    match &*finding.object {
        "" => finding.message.clone(),
        object => format!("{object}: {}", finding.message),
    }
}

/// Writes a test case for each finding, or one that passes if there are no findings. The findings of
/// at least the severity `fail_on` fail.
pub(super) fn suite(findings: &[LintFinding], templates: usize, fail_on: Severity) -> String {
    let failed = findings.iter().filter(|it| it.severity >= fail_on);
    let suites = html! {
        (PreEscaped("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"))
        testsuites {
            testsuite name="evenkeel lint" tests=(findings.len().max(1)) failures=(failed.count()) {
                @for finding in findings { (case(finding, fail_on)) }
                @if findings.is_empty() {
                    testcase classname="evenkeel" name={ (templates) " pod templates" } {}
                }
            }
        }
    };
    suites.into_string() + "\n"
}

fn case(finding: &LintFinding, fail_on: Severity) -> Markup {
    let place = finding.place();
    let place = visible::text(&place);
    let (severity, message) = (finding.severity.as_str(), visible::text(&finding.message));
    let name = format!("{}: {}", finding.rule.id(), said(finding));
    html! {
        testcase classname=(visible::text(&finding.file)) name=(visible::text(&name)) {
            @match finding.severity >= fail_on {
                true => failure type=(severity) message=(message) { (place) },
                false => system-out { (severity) ": " (place) ": " (message) },
            }
        }
        "\n"
    }
}

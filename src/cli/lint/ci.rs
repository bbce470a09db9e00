//! The formats of findings for CI systems: annotations of GitHub's workflows, and JUnit.

use super::finding::LintFinding;
use super::rule::Severity;
use crate::visible;

/// Writes a workflow command for each finding, which GitHub shows beside the line.
pub(crate) fn github(findings: &[LintFinding]) -> String {
    findings.iter().map(annotation).collect()
}

fn annotation(finding: &LintFinding) -> String {
    let level = match finding.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "notice",
    };
    let place = match finding.line {
        0 => String::new(),
        line => format!(",line={line},col={}", finding.column),
    };
    let (file, title) = (property(&finding.file), property(&finding.rule.id()));
    let message = data(&said(finding));
    format!("::{level} file={file}{place},title={title}::{message}\n")
}

/// Returns the message of a finding, with its object.
fn said(finding: &LintFinding) -> String {
    match &*finding.object {
        "" => finding.message.clone(),
        object => format!("{object}: {}", finding.message),
    }
}

/// Escapes the message of a workflow command.
fn data(text: &str) -> String {
    let text = visible::text(text).replace('%', "%25");
    text.replace('\r', "%0D").replace('\n', "%0A")
}

/// Escapes the value of a property of a workflow command.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

/// Writes a test case for each finding, or one that passes if there are no findings. The findings of
/// at least the severity `fail_on` fail.
pub(crate) fn junit(findings: &[LintFinding], templates: usize, fail_on: Severity) -> String {
    let cases: String = match findings {
        [] => {
            format!("    <testcase classname=\"evenkeel\" name=\"{templates} pod templates\"/>\n")
        }
        findings => findings.iter().map(|it| case(it, fail_on)).collect(),
    };
    let failed = findings.iter().filter(|it| it.severity >= fail_on);
    let (tests, failures) = (findings.len().max(1), failed.count());
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite name=\"evenkeel \
         lint\" tests=\"{tests}\" failures=\"{failures}\">\n{cases}  </testsuite>\n</testsuites>\n"
    )
}

fn case(finding: &LintFinding, fail_on: Severity) -> String {
    let place = match finding.line {
        0 => finding.file.clone(),
        line => format!("{}:{line}:{}", finding.file, finding.column),
    };
    let told = match finding.severity >= fail_on {
        true => format!(
            "<failure type=\"{}\" message=\"{}\">{}</failure>",
            xml(finding.severity.as_str()),
            xml(&finding.message),
            xml(&place),
        ),
        false => format!(
            "<system-out>{}</system-out>",
            xml(&format!(
                "{}: {place}: {}",
                finding.severity.as_str(),
                finding.message
            )),
        ),
    };
    format!(
        "    <testcase classname=\"{}\" name=\"{}\">\n      {told}\n    </testcase>\n",
        xml(&finding.file),
        xml(&format!("{}: {}", finding.rule.id(), said(finding))),
    )
}

fn xml(text: &str) -> String {
    let mut escaped = String::new();
    for c in visible::text(text).chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            c => escaped.push(c),
        }
    }
    escaped
}

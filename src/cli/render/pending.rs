//! The pods that wait for a node.

use super::layout::paragraph;
use super::spread::name_of_workload;
use super::text::{BAD, GOOD, HEADING, not_checked, number, plural, source_line, styled};
use crate::cli::pending::answer::{PendingPods, PendingWorkload};
use crate::explain::verb;
use crate::visible;

/// The answer as text: a paragraph for each workload.
pub(crate) fn pending(snapshot: &str, pending: &PendingPods) -> String {
    let newest = pending
        .workloads
        .iter()
        .map(|workload| &workload.explanation);
    let mut text = match newest.max_by_key(|answer| answer.revision) {
        Some(answer) => source_line(snapshot, answer.revision, answer.defaults()),
        None => format!("{}\n", visible::text(snapshot)),
    };
    let (first, style) = match (pending.pod_count, pending.stuck_count) {
        (0, _) => ("no pod is pending".to_owned(), GOOD),
        (pods, 0) => (
            format!(
                "pending: {}; for each, some node satisfies what was checked",
                plural(pods, "pod")
            ),
            GOOD,
        ),
        (pods, stuck) => (
            format!(
                "pending: {}, {} of which {} nowhere",
                plural(pods, "pod"),
                number(stuck),
                verb(stuck, "fits", "fit"),
            ),
            BAD,
        ),
    };
    text.push_str(&paragraph(&first, "", |line| styled(style.bold(), line)));
    text.extend(pending.workloads.iter().map(one));
    text
}

/// A workload: how many of its pods wait, and why the worst off does.
fn one(workload: &PendingWorkload) -> String {
    let name = name_of_workload(
        &workload.namespace,
        &workload.kind,
        &workload.name,
        &workload.labels,
    );
    let pods = plural(workload.pods.len(), "pod");
    let stuck = match workload.stuck_count {
        0 => String::new(),
        stuck if stuck == workload.pods.len() => {
            format!(", {} nowhere", verb(stuck, "fits", "fit"))
        }
        stuck => format!(
            ", {} of which {} nowhere",
            number(stuck),
            verb(stuck, "fits", "fit")
        ),
    };
    let mut text = format!("\n{}: {pods}{stuck}\n", styled(HEADING, &name));
    let summary = &workload.explanation.summary;
    text.push_str(&paragraph(summary, "  ", str::to_owned));
    let unchecked = not_checked(&workload.explanation.unchecked);
    text.extend(unchecked.lines().map(|line| format!("  {line}\n")));
    let pod = format!("pod/{}/{}", workload.namespace, workload.explained_pod);
    text.push_str(&format!("  the numbers: explain {pod}\n"));
    text
}

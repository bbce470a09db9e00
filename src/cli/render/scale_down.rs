//! Renders the pods of a workload that go.

use std::collections::BTreeMap;

use super::bars::BarScale;
use super::layout::paragraph;
use super::spread::over;
use super::text::{
    BAD, GOOD, HEADING, found_by_selector, number, plural, source_line, styled, table,
};
use crate::explain::{among, joined, quoted};
use crate::proto::v1::{RankRemovalsResponse, Removal, RemovalRule, TopologySpread};
use crate::visible;

/// The answer as text: a row for each pod, and a bar for each domain. `workload` is the name of the
/// workload, e.g. `Deployment/shop/web`.
pub(crate) fn scale_down(snapshot: &str, workload: &str, answer: &RankRemovalsResponse) -> String {
    let mut text = source_line(snapshot, answer.revision, answer.defaults());
    let verb = match answer.rule() {
        RemovalRule::HighestOrdinals => "go, those with the highest ordinals",
        RemovalRule::DeletionCost | RemovalRule::Unspecified => "should go",
    };
    let title = format!(
        "{}: {} of {} {verb}",
        visible::text(workload),
        number(answer.removals.len() as i64),
        plural(answer.pod_count, "pod")
    );
    text.push_str(&format!("{}\n", styled(HEADING, &title)));
    let mut lines: Vec<String> = found_by_selector(answer.selected_count)
        .into_iter()
        .collect();
    let is_chosen = answer.rule() != RemovalRule::HighestOrdinals;
    if is_chosen && answer.unknown_pod_count > 0 {
        let pods = plural(answer.unknown_pod_count, "pod");
        lines.push(format!(
            "not known of {pods}: readiness, deletion cost, restarts and age (--pods)"
        ));
    }
    let revisions = answer.revisions.iter().map(|it| {
        let (gone, all) = (number(it.removal_count), number(it.pod_count));
        format!("{gone} of {all} of {}", visible::text(&it.hash))
    });
    let revisions: Vec<String> = revisions.collect();
    if !revisions.is_empty() {
        let split = joined(&revisions);
        lines.push(format!(
            "in a rollout each replica set shrinks in proportion: {split}"
        ));
    } else if !answer.optimal {
        lines.push(
            "others may leave the pods more evenly spread: three or more constraints cross".into(),
        );
    }
    let unknown = answer.rule() == RemovalRule::Unspecified;
    if let Some((kind, _)) = workload.split_once('/').filter(|_| unknown) {
        lines.push(format!(
            "how a {} chooses the pods that it removes is not known",
            visible::text(kind)
        ));
    }
    if !answer.fault.is_empty() {
        lines.push(format!("not judged by their constraints: {}", answer.fault));
    }
    text.extend(lines.iter().map(|line| paragraph(line, "", str::to_owned)));
    text.push('\n');
    let rows = answer.removals.iter().map(row);
    text.push_str(&table("", ["POD", "NODE", "OUT OF"], rows));
    for (before, after) in answer.before.iter().zip(&answer.after) {
        text.push_str(&changed_topology(before, after));
    }
    if let Some(line) = better(answer) {
        text.push_str(&format!("\n{}", paragraph(&line, "", str::to_owned)));
    }
    text
}

/// A line with the pods that would be better, if the controller cannot be told to remove them.
fn better(answer: &RankRemovalsResponse) -> Option<String> {
    let names = answer.better_removals.iter().map(|it| it.name.clone());
    let names: Vec<String> = names.collect();
    let skews = answer.better_after.iter().map(|after| {
        let skew = number(after.skew);
        format!("skew {skew} over {}", after.topology_key)
    });
    let skews: Vec<String> = skews.collect();
    (!names.is_empty()).then(|| {
        format!(
            "if they could be chosen, {} would be better: {}",
            among(&names),
            skews.join(", ")
        )
    })
}

fn row(removal: &Removal) -> [String; 3] {
    let domains = removal.domains.iter().map(|domain| match &*domain.value {
        "" if domain.matching_pods == 0 => "no domain".to_owned(),
        value => format!("{} {}", quoted(value), number(domain.matching_pods)),
    });
    let node = match &*removal.node {
        "" => "none yet".to_owned(),
        node => node.to_owned(),
    };
    let domains: Vec<String> = domains.collect();
    [removal.name.clone(), node, domains.join(", ")]
}

/// Draws the counts of each domain: `#` for pods that stay, `-` for removed pods, `+` for added
/// pods.
pub(super) fn changed_topology(before: &TopologySpread, after: &TopologySpread) -> String {
    let style = if after.excess > 0 { BAD } else { GOOD };
    let skew = format!("skew {} -> {}", number(before.skew), number(after.skew));
    let title = styled(HEADING, &format!("over {}", over(before)));
    let mut text = format!("\n{title}: {}\n", styled(style, &skew));
    let left = after.domains.iter();
    let left: BTreeMap<&str, i64> = left.map(|d| (&*d.value, d.matching_pods)).collect();
    let all = before.domains.iter().chain(&after.domains);
    let most = all.map(|d| d.matching_pods).max();
    let scale = BarScale::of_growth(most.unwrap_or(0));
    let rows = before.domains.iter().map(|domain| {
        let then = domain.matching_pods;
        let now = left.get(&*domain.value).copied().unwrap_or(0);
        let bar = match now > then {
            true => scale.draw_growth(then, now, GOOD),
            false => scale.draw_decline(then, now, BAD),
        };
        [quoted(&domain.value), number(then), number(now), bar]
    });
    text.push_str(&table("  ", ["DOMAIN", "BEFORE", "AFTER", "PODS"], rows));
    text
}

//! Pods that wait for a node and that none can take.

use anyhow::Result;

use super::judge::Stuck;
use crate::cli::pending::{grouped, is_pending};
use crate::cli::render::name_of_workload;
use crate::cli::source::Opened;
use crate::cli::stored;
use crate::explain::joined;
use crate::proto::v1::{FilterRequest, FilterResponse, Pod, View};

/// The workloads of a namespace, or of all, with pods that no node can take, most of them
/// first.
///
/// # Errors
/// As for a single question.
pub(super) async fn stuck(
    opened: &Opened,
    snapshot: &str,
    namespace: Option<&str>,
) -> Result<Vec<Stuck>> {
    let is_meant = |pod: &Pod| {
        let own = stored::namespace_of(pod);
        is_pending(pod) && namespace.is_none_or(|wanted| wanted == own)
    };
    // Of files, all that they say of a pod; of a server, what it keeps.
    let pods = match &opened.objects {
        Some(objects) => {
            let pods = stored::pods_of(&objects.changes);
            pods.filter(|pod| is_meant(pod)).cloned().collect()
        }
        None => stored::pods(&opened.client, snapshot, is_meant).await?,
    };
    let mut all = Vec::new();
    for ((namespace, id), alike) in grouped(pods) {
        let (mut pods, mut reason) = (0, String::new());
        for one in alike {
            let request = FilterRequest {
                snapshot: snapshot.to_owned(),
                view: View::Domains.into(),
                max_domains: Some(1),
                pod: Some(one.pod),
                ..FilterRequest::default()
            };
            let answer = opened.client.call(request).await?;
            if answer.feasible_count == 0 {
                pods += i64::try_from(one.names.len()).unwrap_or(i64::MAX);
                reason = why(&answer);
            }
        }
        if pods > 0 {
            all.push(Stuck {
                workload: name_of_workload(&namespace, &id.kind, &id.name, &id.labels),
                pods,
                reason,
            });
        }
    }
    all.sort_by_key(|it| -it.pods);
    Ok(all)
}

/// Why no node takes a pod, by how many nodes.
fn why(answer: &FilterResponse) -> String {
    let reasons = answer.reasons.iter();
    let reasons = reasons.map(|it| format!("{} {}", it.count, it.reason));
    match reasons.collect::<Vec<_>>() {
        none if none.is_empty() => "there is no node".to_owned(),
        all => joined(&all),
    }
}

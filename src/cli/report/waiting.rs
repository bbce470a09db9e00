//! Finds waiting pods that no node can take, and those that cannot be judged.

use anyhow::Result;

use super::judge::Stuck;
use crate::cli::pending::{grouped, meant};
use crate::cli::render::{PodNotJudged, name_of_workload};
use crate::cli::source::Opened;
use crate::cli::stored::Controllers;
use crate::explain::joined;
use crate::proto::v1::change::Object;
use crate::proto::v1::{FilterRequest, FilterResponse, View};

/// The waiting pods that no node can take, and those that cannot be judged.
#[derive(Default)]
pub(super) struct WaitingPods {
    /// The workloads with pods that no node can take, most such pods first.
    pub(super) stuck: Vec<Stuck>,
    pub(super) not_judged: Vec<PodNotJudged>,
}

/// The waiting pods of a namespace, or of all. `look` is called with all objects of the snapshot.
///
/// # Errors
/// The same as for a single question.
pub(super) async fn stuck(
    opened: &Opened,
    snapshot: &str,
    namespace: Option<&str>,
    mut look: impl FnMut(&Object),
) -> Result<WaitingPods> {
    let is_meant = meant(namespace, None)?;
    let (mut pods, mut controllers) = (Vec::new(), Controllers::default());
    let take = |object: &Object| {
        look(object);
        match object {
            Object::Pod(pod) if is_meant(pod) => pods.push(pod.clone()),
            other => controllers.offer(other),
        }
    };
    opened.for_each(snapshot, take).await?;
    let mut waiting = WaitingPods::default();
    for ((namespace, id), alike) in grouped(pods, &controllers) {
        let (mut pods, mut reason) = (0, String::new());
        for one in alike {
            let request = FilterRequest {
                snapshot: snapshot.to_owned(),
                view: View::Domains.into(),
                max_domains: Some(1),
                pod: Some(one.pod),
                ..FilterRequest::default()
            };
            let answer = match opened.client.call(request).await {
                Ok(answer) => answer,
                Err(error) => {
                    let faults = PodNotJudged::all(&namespace, one.names, error)?;
                    waiting.not_judged.extend(faults);
                    continue;
                }
            };
            if answer.feasible_count == 0 {
                pods += i64::try_from(one.names.len()).unwrap_or(i64::MAX);
                reason = why(&answer);
            }
        }
        if pods > 0 {
            waiting.stuck.push(Stuck {
                workload: name_of_workload(&namespace, &id.kind, &id.name, &id.labels),
                pods,
                reason,
            });
        }
    }
    waiting.stuck.sort_by_key(|it| -it.pods);
    Ok(waiting)
}

/// The reasons why no node takes a pod, each with its number of nodes.
fn why(answer: &FilterResponse) -> String {
    let reasons = answer.reasons.iter();
    let reasons = reasons.map(|it| format!("{} {}", it.count, it.reason));
    match reasons.collect::<Vec<_>>() {
        none if none.is_empty() => "there is no node".to_owned(),
        all => joined(&all),
    }
}

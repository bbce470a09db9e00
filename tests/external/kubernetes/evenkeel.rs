//! The server under test, and the questions to it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use evenkeel::proto::v1::{Change, FilterResponse, Pod, ScoreRequest, ScoreResponse, View};
use serde_json::{Value, json};
use support::build::{full_filter_of, replace_of, score_of};
use support::caller::{changes_of, export};
use tonic::Status;

use crate::kubernetes::api::{Api, KINDS};
use crate::kubernetes::process::{self, DEADLINE};

/// `evenkeel serve --kubernetes`.
pub(crate) struct Evenkeel {
    pub(crate) server: process::Server,
}

impl Evenkeel {
    /// Starts the server on a kubeconfig. It may not have listed anything yet.
    pub(crate) fn start(kubeconfig: &Path, more: &[&str]) -> Self {
        let kubeconfig = kubeconfig.to_str().expect("it is text");
        let mut args = vec!["--kubernetes", "--kubeconfig", kubeconfig];
        args.extend(more);
        Self {
            server: process::Server::start(&args),
        }
    }

    /// Asks Filter for the names of the nodes, the reasons of refusals, and the counts by reason.
    pub(crate) async fn filter(&self, pod: &Pod) -> Result<FilterResponse, Status> {
        let request = full_filter_of(pod.clone());
        let answer = self.server.client().filter(request).await;
        Ok(answer?.into_inner())
    }

    /// Asks for the scores of the nodes that pass Filter.
    pub(crate) async fn score(&self, pod: &Pod) -> Result<ScoreResponse, Status> {
        let request = ScoreRequest {
            view: View::Basic as i32,
            ..score_of(pod.clone())
        };
        let answer = self.server.client().score(request).await;
        Ok(answer?.into_inner())
    }

    /// All objects of a snapshot, as JSON.
    async fn export(&self, snapshot: &str) -> Result<Objects, Status> {
        let changes = changes_of(export(self.server.client(), snapshot).await?);
        Ok(changes.map(|change| stored(&change)).collect())
    }

    /// Returns the objects of a snapshot made of a fresh list, without the fields that decisions
    /// never read.
    async fn listed(&self, api: &Api) -> Objects {
        let mut changes = Vec::new();
        for kind in KINDS {
            let objects = api.list(kind).await.into_iter();
            changes.extend(objects.map(|object| change(kind, object)));
        }
        self.server.send(replace_of("listed", changes)).await;
        self.export("listed").await.expect("it was made")
    }

    /// Waits until the snapshot holds the objects of a fresh list, and no others.
    pub(crate) async fn agrees_with(&self, api: &Api) {
        let start = Instant::now();
        loop {
            let listed = self.listed(api).await;
            let different = match self.export("default").await {
                Ok(held) => differences(&listed, &held),
                Err(status) => vec![status.to_string()],
            };
            if different.is_empty() {
                return;
            }
            assert!(
                start.elapsed() < DEADLINE,
                "the snapshot is not what a fresh list says: {different:#?}"
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// Objects by kind, namespace and name.
pub(crate) type Objects = BTreeMap<(String, String, String), Value>;

/// The change that stores an object, which is as the API server sends it.
fn change(kind: &str, object: Value) -> Change {
    let mut field = kind.to_owned();
    field[..1].make_ascii_lowercase();
    serde_json::from_value(json!({ field: object })).expect("a valid object")
}

/// Kind, namespace and name of the object that a change stores, and the object.
fn stored(change: &Change) -> ((String, String, String), Value) {
    let change = serde_json::to_value(change).expect("JSON");
    let (kind, object) = change
        .as_object()
        .and_then(|fields| fields.iter().next())
        .expect("a change has an object");
    let text = |key: &str| {
        let text = object["metadata"][key].as_str();
        text.unwrap_or_default().to_owned()
    };
    (
        (kind.clone(), text("namespace"), text("name")),
        object.clone(),
    )
}

fn differences(listed: &Objects, held: &Objects) -> Vec<String> {
    let keys: BTreeSet<_> = listed.keys().chain(held.keys()).collect();
    let absent = json!(null);
    keys.into_iter()
        .filter_map(|key| {
            let listed = listed.get(key).unwrap_or(&absent);
            let held = held.get(key).unwrap_or(&absent);
            (listed != held).then(|| format!("{key:?}\nlisted {listed}\nheld   {held}"))
        })
        .take(5)
        .collect()
}

//! Stored pods are kept whole: an export and an overlay give back each pod as it was sent, with
//! everything that it asks for.

use evenkeel::matching::RequestsByVersion;
use evenkeel::proto::v1::change::Object;
use evenkeel::proto::v1::{Pod, Volume, VolumeSource};
use proptest::prelude::*;
use support::build::{ZONE, hard, on, pod, requiring_terms, spread, tolerating};
use support::generate;
use support::model::Stored;
use support::server::Server;

use evenkeel::proto::v1::{NodeSelectorRequirement, NodeSelectorTerm};
use support::history::cases;

async fn stored(server: &Server) -> Vec<Pod> {
    let parts = server.export("").await;
    let changes = parts
        .into_iter()
        .flat_map(|part| part.update.expect("an update").changes);
    changes
        .filter_map(|change| match change.object {
            Some(Object::Pod(pod)) => Some(pod),
            _ => None,
        })
        .collect()
}

/// The pod as an export writes it.
fn exported(mut pod: Pod) -> Pod {
    let metadata = pod.metadata.get_or_insert_default();
    if metadata.namespace.is_empty() {
        metadata.namespace = "default".into();
    }
    // The requests of a pod come back as a sum.
    let requests = RequestsByVersion::of(&pod).newest.to_wire();
    let spec = pod.spec.get_or_insert_default();
    spec.containers = requests.into_iter().collect();
    spec.init_containers.clear();
    spec.overhead.clear();
    spec.resources = None;
    spec.scheduling_gates.clear();
    // Of the volumes, claims and disks come back, without the names of the volumes.
    for volume in &mut spec.volumes {
        let source = VolumeSource {
            csi: None,
            ephemeral: None,
            ..volume.source().into_owned()
        };
        *volume = Volume {
            volume_source: Some(source),
            ..Volume::default()
        };
    }
    let none = Some(VolumeSource::default());
    spec.volumes.retain(|volume| volume.volume_source != none);
    (spec.host_network, spec.host_users) = (false, None);
    let status = pod.status.get_or_insert_default();
    status.conditions.clear();
    status.container_statuses.clear();
    status.init_container_statuses.clear();
    status.allocated_resources.clear();
    status.resources = None;
    pod
}

/// A pod of a daemon set: it may run only on the node where it is.
fn pinned(name: &str, node: &str) -> Pod {
    let field = |operator: &str| NodeSelectorTerm {
        match_fields: vec![NodeSelectorRequirement {
            key: "metadata.name".into(),
            operator: operator.into(),
            values: vec![node.into()],
        }],
        ..NodeSelectorTerm::default()
    };
    let terms = vec![field("In"), field("In")];
    let one = requiring_terms(pod(name, &[("app", "agent")]), terms);
    on(tolerating(one, "", "Exists", "", ""), node)
}

#[tokio::test]
async fn what_a_pod_asks_for_comes_back() {
    let plain = on(pod("plain", &[("app", "web")]), "a");
    let constrained = spread(plain.clone(), vec![hard(1, ZONE, &[("app", "web")])]);
    let mut elsewhere = pinned("elsewhere", "b");
    elsewhere.spec.get_or_insert_default().node_name = "a".into();
    let mut unbound = pinned("unbound", "b");
    unbound.spec.get_or_insert_default().node_name = String::new();
    let mut invalid = plain.clone();
    invalid
        .spec
        .get_or_insert_default()
        .topology_spread_constraints = vec![hard(0, "no key", &[])];
    let named = |mut pod: Pod, name: &str| {
        pod.metadata.get_or_insert_default().name = name.into();
        pod
    };
    let pods = [
        named(constrained, "constrained"),
        pinned("daemon-a", "a"),
        pinned("daemon-b", "b"),
        elsewhere,
        named(invalid, "invalid"),
        plain,
        unbound,
    ];
    let server = Server::start().await;
    let changes = pods.iter().cloned().map(Stored::change).collect();
    assert_eq!(server.update("", changes).await.changed_count, 7);
    let expected: Vec<Pod> = pods.iter().cloned().map(exported).collect();
    assert_eq!(stored(&server).await, expected);

    let again = pods.iter().cloned().map(Stored::change).collect();
    let update = server.update("", again).await;
    assert_eq!((update.changed_count, update.unchanged_count), (0, 7));
}

proptest! {
    #![proptest_config(cases(32))]

    /// After any pods come and go, each pod that stays is as it was last sent.
    #[test]
    fn any_pods_come_back(pods in proptest::collection::vec(generate::pod(), 1..30)) {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        runtime.block_on(async {
            let server = Server::start().await;
            let mut last = std::collections::BTreeMap::new();
            for pod in pods {
                server.update("", vec![pod.clone().change()]).await;
                last.insert(pod.key(), exported(pod));
            }
            prop_assert_eq!(stored(&server).await, last.into_values().collect::<Vec<_>>());
            Ok(())
        })?;
    }
}

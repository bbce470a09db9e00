//! An answer names what it did not check.

use crate::room::{changes, cpu, filter, on_two_nodes, pod, small};
use crate::support::server::Server;
use evenkeel::proto::v1::{Dialect, FilterRequest, NodeChecks};
use serde_json::{Value, json};

#[tokio::test]
async fn an_answer_names_what_was_not_checked() {
    let server = Server::start().await;
    let nodes = json!([{"node": {"metadata": {"name": "a"}}}]);
    server.update("", changes(nodes)).await;
    let spec = json!({
        "containers": [{"resources": {"requests": {"cpu": "64"}}, "ports": [{"hostPort": 80}]}],
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
        "resourceClaims": [{"name": "gpu"}],
    });
    let always = ["spec.resourceClaims", "spec.volumes"];
    let answer = filter(&server, spec.clone(), json!([])).await;
    assert_eq!(answer.feasible, ["a"]);
    let mut all = always.to_vec();
    all.insert(0, "spec.containers.ports.hostPort");
    all.insert(1, "spec.containers.resources.requests");
    assert_eq!(answer.unchecked, all);
    let answer = filter(&server, spec.clone(), small()).await;
    assert_eq!(
        (answer.feasible_count, &*answer.unchecked),
        (0, &always.map(str::to_owned)[..])
    );
    let request = FilterRequest {
        pod: pod(spec),
        node_checks: NodeChecks::SpreadOnly.into(),
        ..FilterRequest::default()
    };
    assert!(server.filter(request).await.unchecked.is_empty());

    let required =
        json!({"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "z"}]});
    let preferred = json!({"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 1, "podAffinityTerm": {"topologyKey": "z"}},
    ]});
    let volume = |source: Value| json!({"volumes": [{"name": "none"}, source]});
    for (spec, unchecked) in [
        // These are checked, and the others decide nothing.
        (
            json!({"affinity": {"podAffinity": required, "podAntiAffinity": required}}),
            vec![],
        ),
        (
            json!({"affinity": {"podAffinity": preferred, "podAntiAffinity": preferred}}),
            vec![],
        ),
        (
            json!({"resourceClaims": [{"name": "gpu"}]}),
            vec!["spec.resourceClaims"],
        ),
        (
            volume(json!({"name": "v", "persistentVolumeClaim": {"claimName": "c"}})),
            vec!["spec.volumes"],
        ),
        (
            volume(json!({"name": "v", "csi": {"driver": "d"}})),
            vec!["spec.volumes"],
        ),
        (
            volume(json!({"name": "v", "ephemeral": {}})),
            vec!["spec.volumes"],
        ),
        (volume(json!({"name": "v", "emptyDir": {}})), vec![]),
    ] {
        let answer = filter(&server, spec.clone(), json!([])).await;
        assert_eq!(answer.unchecked, unchecked, "{spec}");
    }
}

#[tokio::test]
async fn a_fleet_names_what_it_does_not_check() {
    let server = on_two_nodes().await;
    let mut spec = cpu("64");
    spec["nodeName"] = json!("b");
    let required =
        json!({"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "z"}]});
    spec["affinity"] = json!({"podAffinity": required, "podAntiAffinity": required});
    let request = FilterRequest {
        pod: pod(spec),
        dialect: Dialect::Fleet.into(),
        ..FilterRequest::default()
    };
    let answer = server.filter(request).await;
    assert_eq!(answer.feasible, ["a", "b"]);
    assert_eq!(
        answer.unchecked,
        [
            "spec.affinity.podAffinity",
            "spec.affinity.podAntiAffinity",
            "spec.containers.resources.requests",
            "spec.nodeName"
        ]
    );
}

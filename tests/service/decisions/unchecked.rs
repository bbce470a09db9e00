//! The fields of a pod that an answer names as unchecked.

use crate::decisions::room::{changes, cpu, filter, on_two_nodes, pod, small};
use evenkeel::proto::v1::{Dialect, FilterRequest, NodeChecks, Pod, UpdateSnapshotRequest};
use serde_json::{Value, json};
use support::build::{filter_of, score_of};
use support::server::Server;

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
        // Required terms are checked, and preferred terms decide nothing.
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
        // Clients of version 0.1 send claims without names.
        (
            volume(json!({"name": "v", "persistentVolumeClaim": {}})),
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

/// Affinity between pods that kube-scheduler scores and Evenkeel does not score.
#[tokio::test]
async fn a_score_names_the_affinity_between_pods_that_it_leaves_out() {
    let web = json!({"topologyKey": "z", "labelSelector": {"matchLabels": {"app": "web"}}});
    let preferred = json!({"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 1, "podAffinityTerm": web},
    ]});
    let required = json!({"requiredDuringSchedulingIgnoredDuringExecution": [web]});
    let elsewhere = json!({"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 1, "podAffinityTerm": {"topologyKey": "z", "labelSelector": {}, "namespaces": ["b"]}},
    ]});
    let by_pods = vec!["spec.affinity (of pods that run)"];
    let own = |field: &str| format!("{field}.preferredDuringSchedulingIgnoredDuringExecution");
    let near = own("spec.affinity.podAffinity");
    let apart = own("spec.affinity.podAntiAffinity");
    let on_a = json!({"phase": "Running"});
    let done = json!({"phase": "Succeeded"});
    for (incoming, running, status, unchecked) in [
        (json!({}), json!({}), &on_a, vec![]),
        (
            json!({"podAffinity": preferred, "podAntiAffinity": preferred}),
            json!({}),
            &on_a,
            vec![&*near, &*apart],
        ),
        (json!({"podAffinity": required}), json!({}), &on_a, vec![]),
        (
            json!({}),
            json!({"podAffinity": preferred}),
            &on_a,
            by_pods.clone(),
        ),
        (
            json!({}),
            json!({"podAntiAffinity": preferred}),
            &on_a,
            by_pods.clone(),
        ),
        (
            json!({}),
            json!({"podAffinity": required}),
            &on_a,
            by_pods.clone(),
        ),
        // These terms change no score of this pod.
        (
            json!({}),
            json!({"podAntiAffinity": required}),
            &on_a,
            vec![],
        ),
        (json!({}), json!({"podAffinity": elsewhere}), &on_a, vec![]),
        (json!({}), json!({"podAffinity": preferred}), &done, vec![]),
    ] {
        let server = Server::start().await;
        let all = json!([
            {"node": {"metadata": {"name": "a", "labels": {"z": "1"}}}},
            {"node": {"metadata": {"name": "b", "labels": {"z": "2"}}}},
            {"pod": {"metadata": {"name": "p"}, "spec": {"nodeName": "b", "affinity": running}, "status": status}},
        ]);
        server.update("", changes(all)).await;
        let mut asked = pod(json!({"affinity": incoming})).expect("a pod");
        let metadata = asked.metadata.get_or_insert_default();
        metadata.labels.insert("app".to_owned(), "web".to_owned());
        let score = || score_of(asked.clone());
        let answer = server.score(score()).await;
        assert_eq!(answer.unchecked, unchecked, "{incoming} beside {running}");
        let request = filter_of(asked.clone());
        assert!(server.filter(request).await.unchecked.is_empty());
        let gone = json!([{"delete": {"kind": "Pod", "name": "p"}}]);
        server.update("", changes(gone)).await;
        let answer = server.score(score()).await.unchecked;
        assert!(!answer.contains(&by_pods[0].to_owned()), "{running}");
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

/// Since Kubernetes 1.36 a device class may provide a resource that a node lacks. The snapshot
/// holds no device classes.
#[tokio::test]
async fn resources_that_a_device_class_may_provide_are_named() {
    let server = Server::start().await;
    let nodes = |second: &str| {
        changes(json!([
            {"node": {"metadata": {"name": "a"}, "status": {"allocatable": {"pods": "9", "a.b/gpu": "1"}}}},
            {"node": {"metadata": {"name": "b"}, "status": {"allocatable": {"pods": "9", "a.b/gpu": second}}}},
        ]))
    };
    let asks =
        |resource: &str| json!({"containers": [{"resources": {"requests": {resource: "1"}}}]});
    let gpu = "spec.containers.resources.requests[a.b/gpu]";
    let class = "deviceclass.resource.kubernetes.io/gpu";
    let of_class = format!("spec.containers.resources.requests[{class}]");
    for (version, second, resource, named) in [
        ("1.37", "0", "a.b/gpu", Some(gpu)),
        ("1.36", "0", "a.b/gpu", Some(gpu)),
        ("1.35", "0", "a.b/gpu", None),
        ("1.37", "1", "a.b/gpu", None),
        ("1.37", "1", class, Some(&*of_class)),
        ("1.37", "1", "memory", None),
        ("1.37", "1", "hugepages-2Mi", None),
        ("1.37", "1", "x.kubernetes.io/y", None),
    ] {
        let request = UpdateSnapshotRequest {
            changes: nodes(second),
            kubernetes_version: version.to_owned(),
            ..UpdateSnapshotRequest::default()
        };
        server.send(request).await;
        let answer = filter(&server, asks(resource), json!([])).await;
        let named: Vec<&str> = named.into_iter().collect();
        assert_eq!(answer.unchecked, named, "{version} {second} {resource}");
    }
}

/// Some schedulers look at resizes that wait for room. The status of a pod tells of such a resize.
#[tokio::test]
async fn a_resize_that_waits_for_room_is_named() {
    let server = on_two_nodes().await;
    for (reason, named) in [("Deferred", true), ("Infeasible", false)] {
        let pod: Pod = serde_json::from_value(json!({
            "status": {"conditions": [{"type": "PodResizePending", "reason": reason}]},
        }))
        .expect("a pod");
        let answer = server.filter(filter_of(pod)).await;
        let is_named = answer.unchecked == ["status.conditions.PodResizePending"];
        assert_eq!(is_named, named, "{reason}");
    }
}

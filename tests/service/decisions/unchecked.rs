//! The fields of a pod that an answer names as unchecked.

use crate::decisions::room::{changes, cpu, filter, on_two_nodes, pod};
use evenkeel::proto::v1::{Dialect, FilterRequest, Pod, UpdateSnapshotRequest};
use serde_json::json;
use support::build::{filter_of, update_of};
use support::server::Server;

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
            kubernetes_version: version.to_owned(),
            ..update_of(nodes(second))
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

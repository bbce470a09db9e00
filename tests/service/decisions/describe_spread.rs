//! DescribeSpread: its subjects, the order of workloads, pages, and questions that are refused.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use evenkeel::account::Account;
use evenkeel::proto::v1::describe_spread_request::Subject;
use evenkeel::proto::v1::{
    Change, DescribeSpreadRequest, DescribeSpreadResponse, FilterRequest, LabelSelector,
    OwnerReference, Pod, TopologySpread, WorkloadName, WorkloadSpread,
};
use evenkeel::snapshot::{Limits, Registry, Unobserved};
use prost::Message;
use support::build::{HOSTNAME, ZONE, hard, labelled, node, on, pod, selecting, soft, spread};
use support::model::{Stored, delete};
use support::server::Server;
use tonic::Code;
use tonic_types::StatusExt;

pub(crate) async fn ask(server: &Server, request: DescribeSpreadRequest) -> DescribeSpreadResponse {
    let response = server.client().describe_spread(request).await;
    response.expect("a valid question").into_inner()
}

/// The workloads of all pages.
pub(crate) async fn all_pages(
    server: &Server,
    request: DescribeSpreadRequest,
) -> Vec<WorkloadSpread> {
    let mut workloads = Vec::new();
    let mut page_token = String::new();
    loop {
        let request = DescribeSpreadRequest {
            page_token,
            ..request.clone()
        };
        let page = ask(server, request).await;
        workloads.extend(page.workloads);
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return workloads;
        }
    }
}

pub(crate) fn about(kind: &str, name: &str) -> DescribeSpreadRequest {
    DescribeSpreadRequest {
        subject: Some(Subject::Workload(WorkloadName {
            kind: kind.into(),
            name: name.into(),
            selector: None,
        })),
        ..DescribeSpreadRequest::default()
    }
}

fn owned(mut pod: Pod, kind: &str, name: &str) -> Pod {
    let metadata = pod.metadata.get_or_insert_default();
    metadata.owner_references = vec![OwnerReference {
        kind: kind.into(),
        name: name.into(),
        api_version: "apps/v1".into(),
        controller: Some(true),
        ..OwnerReference::default()
    }];
    pod
}

/// Three zones with a node each, and a node in no zone.
async fn zones() -> Server {
    let server = Server::start().await;
    let mut nodes: Vec<_> = ["a", "b", "c"]
        .map(|zone| node(&format!("{zone}1"), &[(ZONE, zone)]).change())
        .into();
    nodes.push(node("x1", &[]).change());
    server.update("", nodes).await;
    server
}

/// Pods of a deployment on these nodes.
fn web(nodes: &[&str]) -> Vec<Change> {
    let pods = nodes.iter().enumerate().map(|(index, node)| {
        let labels = [("app", "web"), ("pod-template-hash", "5f7c")];
        let pod = on(pod(&format!("web-{index}"), &labels), node);
        let pod = spread(pod, vec![hard(1, ZONE, &[("app", "web")])]);
        owned(pod, "ReplicaSet", "web-5f7c").change()
    });
    pods.collect()
}

fn shares(topology: &TopologySpread) -> Vec<(&str, i64, i64, i64)> {
    let domains = topology.domains.iter();
    domains
        .map(|d| (d.value.as_str(), d.matching_pods, d.skew, d.eligible_nodes))
        .collect()
}

#[tokio::test]
async fn a_deployment_by_its_own_constraint() {
    let server = zones().await;
    server
        .update("", web(&["a1", "a1", "a1", "b1", "x1", ""]))
        .await;
    for request in [about("Deployment", "web"), about("ReplicaSet", "web-5f7c")] {
        let answer = ask(&server, request).await;
        assert_eq!((answer.workload_count, answer.violating_count), (1, 1));
        let workload = &answer.workloads[0];
        assert_eq!((workload.pod_count, workload.topologies.len()), (6, 1));
        let topology = &workload.topologies[0];
        assert_eq!((topology.skew, topology.excess), (3, 2));
        assert_eq!((topology.global_minimum, topology.outside_pods), (0, 1));
        assert_eq!(
            shares(topology),
            [("a", 3, 3, 1), ("b", 1, 1, 1), ("c", 0, 0, 1)]
        );
    }
}

#[tokio::test]
async fn by_a_key_where_the_workload_may_run() {
    let server = zones().await;
    let pods = ["a1", "a1", "b1"].iter().enumerate().map(|(index, node)| {
        let pod = on(pod(&format!("db-{index}"), &[("app", "db")]), node);
        let pod = match index {
            0 => pod,
            _ => selecting(pod, &[(HOSTNAME, "a1")]),
        };
        owned(pod, "StatefulSet", "db").change()
    });
    server.update("", pods.collect()).await;
    // Most pods of the StatefulSet may run on a1 only.
    let answer = ask(
        &server,
        DescribeSpreadRequest {
            topology_key: ZONE.into(),
            ..about("StatefulSet", "db")
        },
    )
    .await;
    let topology = &answer.workloads[0].topologies[0];
    assert_eq!(shares(topology), [("a", 2, 0, 1)]);
    assert_eq!(topology.outside_pods, 1);
    assert!(topology.constraint.is_none());

    let request = DescribeSpreadRequest {
        subject: Some(Subject::Selector(labelled(&[("app", "db")]))),
        ..DescribeSpreadRequest::default()
    };
    let answer = ask(&server, request.clone()).await;
    let topology = &answer.workloads[0].topologies[0];
    assert_eq!(
        shares(topology),
        [("a", 2, 2, 1), ("b", 1, 1, 1), ("c", 0, 0, 1)]
    );
    let request = DescribeSpreadRequest {
        topology_key: HOSTNAME.into(),
        max_domains: Some(2),
        subject: Some(Subject::Selector(LabelSelector::default())),
        ..request
    };
    let answer = ask(&server, request).await;
    let topology = &answer.workloads[0].topologies[0];
    assert_eq!(topology.domain_count, 4);
    assert_eq!(shares(topology), [("a1", 2, 2, 1), ("b1", 1, 1, 1)]);
}

#[tokio::test]
async fn without_constraints_the_zone_is_shown() {
    let server = zones().await;
    let one = owned(on(pod("one", &[]), "a1"), "Job", "once");
    server.update("", vec![one.change()]).await;
    let answer = ask(&server, about("Job", "once")).await;
    let topology = &answer.workloads[0].topologies[0];
    assert_eq!(topology.topology_key, ZONE);
    assert_eq!((topology.skew, topology.excess), (1, 0));
    assert!(topology.constraint.is_none());
}

#[tokio::test]
async fn all_workloads_by_a_key_worst_first() {
    let server = zones().await;
    server.update("", web(&["a1", "b1", "c1"])).await;
    let more = ["a1", "a1"]
        .iter()
        .enumerate()
        .map(|(index, node)| on(pod(&format!("bare-{index}"), &[("app", "bare")]), node).change());
    server.update("", more.collect()).await;
    let request = DescribeSpreadRequest {
        topology_key: ZONE.into(),
        page_size: 1,
        ..DescribeSpreadRequest::default()
    };
    let listed = all_pages(&server, request).await;
    let names: Vec<_> = listed
        .iter()
        .map(|w| (w.kind.as_str(), w.topologies[0].skew))
        .collect();
    assert_eq!(names, [("", 2), ("Deployment", 0)]);
    assert_eq!(listed[0].labels["app"], "bare");
}

#[tokio::test]
async fn hard_violations_come_before_soft_ones() {
    let server = zones().await;
    server.update("", web(&["a1", "a1"])).await;
    let soft = ["a1"; 9].iter().enumerate().map(|(index, node)| {
        let pod = on(pod(&format!("soft-{index}"), &[("app", "soft")]), node);
        let pod = spread(pod, vec![soft(1, ZONE, &[("app", "soft")])]);
        owned(pod, "StatefulSet", "soft").change()
    });
    server.update("", soft.collect()).await;
    let answer = ask(&server, DescribeSpreadRequest::default()).await;
    let names: Vec<_> = answer.workloads.iter().map(|w| w.name.as_str()).collect();
    assert_eq!(names, ["web", "soft"]);
    let elsewhere = DescribeSpreadRequest {
        namespace: "elsewhere".into(),
        ..DescribeSpreadRequest::default()
    };
    assert_eq!(ask(&server, elsewhere).await.workload_count, 0);
}

#[tokio::test]
async fn what_cannot_be_judged_is_said() {
    let server = zones().await;
    let bad = spread(
        on(pod("bad", &[]), "a1"),
        vec![hard(0, ZONE, &[("app", "web")])],
    );
    server
        .update("", vec![owned(bad, "Job", "bad").change()])
        .await;
    let answer = ask(&server, DescribeSpreadRequest::default()).await;
    assert_eq!((answer.faulty_count, answer.violating_count), (1, 0));
    assert_eq!(
        answer.workloads[0].fault,
        "pod.spec.topologySpreadConstraints[0].maxSkew: must be at least 1"
    );
}

#[tokio::test]
async fn bad_questions_are_refused() {
    let server = zones().await;
    let cases = [
        (
            DescribeSpreadRequest {
                page_size: -1,
                page_token: "nonsense".into(),
                topology_key: "no key".into(),
                max_domains: Some(-1),
                namespace: "No".into(),
                ..DescribeSpreadRequest::default()
            },
            Code::InvalidArgument,
            "namespace",
        ),
        (about("", "web"), Code::InvalidArgument, "workload.kind"),
        (about("Job", "none"), Code::NotFound, "Job none"),
        (
            DescribeSpreadRequest {
                snapshot: "none".into(),
                ..DescribeSpreadRequest::default()
            },
            Code::NotFound,
            "none",
        ),
    ];
    for (request, code, text) in cases {
        let refused = server.client().describe_spread(request).await;
        let status = refused.expect_err("it is bad");
        assert_eq!(status.code(), code, "{status}");
        assert!(status.message().contains(text), "{status}");
    }
}

#[tokio::test]
async fn looking_keeps_no_views() {
    let server = zones().await;
    server.update("", web(&["a1", "a1", "b1"])).await;
    ask(&server, DescribeSpreadRequest::default()).await;
    let snapshot = server.registry.get("default").expect("it exists");
    assert_eq!(snapshot.summary().views, 0);
}

/// A page ends early, before it is too large for clients to receive.
#[tokio::test]
async fn a_page_is_of_a_size_that_clients_accept() {
    const RECEIVED: usize = 4 << 20;
    const WORKLOADS: usize = 120;
    let server = Server::start().await;
    let nodes = (0..600).map(|i| format!("{}.n{i}.example.com", "host".repeat(11)));
    let nodes: Vec<String> = nodes.collect();
    let all = nodes.iter().map(|name| node(name, &[]).change());
    // A workload of a single pod is not listed by a key.
    let pods = (0..2 * WORKLOADS).map(|i| {
        let running = on(pod(&format!("p{i}"), &[]), &nodes[i]);
        owned(running, "Job", &format!("job-{}", i / 2)).change()
    });
    server.update("", all.chain(pods).collect()).await;
    let mut request = DescribeSpreadRequest {
        topology_key: HOSTNAME.into(),
        max_domains: Some(0),
        page_size: 1_000,
        ..DescribeSpreadRequest::default()
    };
    let (mut pages, mut listed) = (0, BTreeSet::new());
    loop {
        let page = ask(&server, request.clone()).await;
        assert!(page.encoded_len() < RECEIVED, "{}", page.encoded_len());
        let names = page.workloads.into_iter().map(|workload| workload.name);
        names.for_each(|name| assert!(listed.insert(name.clone()), "{name} is listed twice"));
        pages += 1;
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            break;
        }
    }
    assert!(pages > 1, "the domains of all workloads fit on one page");
    assert_eq!(listed.len(), WORKLOADS);
}

/// A description, and a decision with an overlay, need much memory. The server refuses both without
/// room for it.
#[tokio::test]
async fn a_decision_gathers_only_what_there_is_memory_for() {
    const LIMIT: usize = 64 << 20;
    let in_use = Arc::new(AtomicUsize::new(0));
    let told = Arc::clone(&in_use);
    let account = Account::measured(LIMIT, move || told.load(Ordering::Relaxed));
    let registry = Registry::new(Limits::default(), Arc::new(Unobserved));
    let server = Server::with_registry(registry.with_account(account)).await;
    let pods = (0..2_000).map(|i| {
        let labels = [("app", &*format!("{i}")), ("more", &*"m".repeat(60))];
        on(pod(&format!("p{i}"), &labels), "a").change()
    });
    server.update("", pods.collect()).await;
    let overlaid = FilterRequest {
        pod: Some(spread(pod("", &[]), vec![hard(1, ZONE, &[])])),
        overlay: (0..200)
            .map(|i| delete("Pod", "default", &format!("p{i}")))
            .collect(),
        ..FilterRequest::default()
    };
    let mut client = server.client();
    for figure in [LIMIT - (8 << 20), LIMIT + 1] {
        in_use.store(figure, Ordering::Relaxed);
        let described = client
            .describe_spread(DescribeSpreadRequest::default())
            .await;
        let filtered = client.filter(overlaid.clone()).await;
        for status in [described.err(), filtered.err()] {
            match figure < LIMIT {
                true => assert!(status.is_none(), "{status:?}"),
                false => {
                    let status = status.expect("there is no room");
                    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
                    let info = status.get_details_error_info().expect("it has details");
                    assert_eq!(info.metadata["limit"], "max-memory-bytes");
                }
            }
        }
    }
}

/// Since Kubernetes 1.35 a pod gets the zone and region labels of its node when it is bound.
#[tokio::test]
async fn bare_pods_are_one_workload_whatever_labels_their_nodes_gave_them() {
    let server = zones().await;
    let region = "topology.kubernetes.io/region";
    let bound = ["a", "b", "c"].map(|zone| {
        let labels = [("app", "bare"), (ZONE, zone), (region, "r")];
        on(pod(&format!("bare-{zone}"), &labels), &format!("{zone}1")).change()
    });
    let pending = pod("bare-d", &[("app", "bare")]).change();
    let changes = bound.into_iter().chain([pending]).collect();
    server.update("", changes).await;
    let request = DescribeSpreadRequest {
        topology_key: ZONE.into(),
        ..DescribeSpreadRequest::default()
    };
    let answer = ask(&server, request).await;
    assert_eq!(answer.workload_count, 1);
    let workload = &answer.workloads[0];
    assert_eq!((workload.pod_count, workload.topologies[0].skew), (4, 0));
    let labels: Vec<_> = workload.labels.iter().collect();
    assert_eq!(labels, [(&"app".to_owned(), &"bare".to_owned())]);
}

/// A pod without a controller is one of the controller that would adopt it. A selector of the
/// request finds the pods of a workload that has no others.
#[tokio::test]
async fn pods_without_a_controller_are_found_by_selectors() {
    let server = Server::start().await;
    let hashed = [("app", "web"), ("pod-template-hash", "1a")];
    let mut changes = vec![node("n", &[]).change()];
    changes.push(
        serde_json::from_value(
            serde_json::json!({"replicaSet": {"metadata": {"name": "web-1a"},
            "spec": {"selector": {"matchLabels": {"pod-template-hash": "1a"}}}}}),
        )
        .expect("a change"),
    );
    changes.push(on(pod("web-1a-x", &hashed), "n").change());
    changes.push(pod("web-1a-y", &hashed).change());
    changes.push(on(pod("other", &[("app", "other")]), "n").change());
    server.update("", changes).await;
    let found = |kind: &str, name: &str, selector: Option<&str>| {
        let mut request = about(kind, name);
        if let Some(Subject::Workload(workload)) = &mut request.subject {
            workload.selector = selector.map(|app| LabelSelector {
                match_labels: [("app".to_owned(), app.to_owned())].into(),
                ..LabelSelector::default()
            });
        }
        request.list_pods = true;
        request
    };
    for (kind, name, selector, expected) in [
        ("Deployment", "web", None, &["web-1a-x", "web-1a-y"][..]),
        ("ReplicaSet", "web-1a", None, &["web-1a-x", "web-1a-y"]),
        (
            "Deployment",
            "web",
            Some("other"),
            &["web-1a-x", "web-1a-y"],
        ),
        ("DaemonSet", "other", Some("other"), &["other"]),
    ] {
        let answer = ask(&server, found(kind, name, selector)).await;
        let workload = &answer.workloads[0];
        let pods: Vec<&str> = workload.pods.iter().map(|it| &*it.name).collect();
        assert_eq!(pods, expected, "{kind}");
        assert_eq!(workload.selected_count, expected.len() as i64);
        assert_eq!((&*workload.kind, &*workload.name), (kind, name));
        let nodes = workload.pods.iter().filter(|it| it.node.is_empty()).count();
        assert_eq!(nodes as i64, workload.pending_count);
    }
    let missing = found("DaemonSet", "other", Some("third"));
    let missing = server.client().describe_spread(missing).await;
    assert_eq!(missing.expect_err("no pods").code(), Code::NotFound);
}

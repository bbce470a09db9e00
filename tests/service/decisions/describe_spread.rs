//! DescribeSpread: its subjects, the order of workloads, and pages.

use std::collections::BTreeSet;

use evenkeel::proto::v1::describe_spread_request::Subject;
use evenkeel::proto::v1::{DescribeSpreadRequest, LabelSelector, WorkloadName, WorkloadSpread};
use prost::Message;
use support::build::{HOSTNAME, node, on, owned_by, pod};
use support::model::Stored;
use support::server::Server;
use tonic::Code;

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
        let page = server.describe_spread(request).await;
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
        owned_by(running, "Job", &format!("job-{}", i / 2)).change()
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
        let page = server.describe_spread(request.clone()).await;
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
        let answer = server.describe_spread(found(kind, name, selector)).await;
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

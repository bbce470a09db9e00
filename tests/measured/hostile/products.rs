//! Questions with a long list, beside many objects that each entry could be compared with: the
//! memory of a decision grows with domains and answers, and a decision ends soon after its caller.

use std::time::Duration;

use evenkeel::proto::v1::{
    Change, ExplainRequest, FilterResponse, LabelSelector, Namespace, PodAffinityTerm,
    PodDisruptionBudget, PodDisruptionBudgetSpec, RebalanceRequest, View,
};
use support::build::{
    HOSTNAME, explain_of, filter_of, full_filter_of, hard, having, labelled, meta, node, on, pod,
    pod_term, requirement, spread, update_of, with_affinity,
};
use support::model::Stored;
use tokio::time::{Instant, timeout};
use tonic::{Code, Status};

use crate::hostile::beside::Bystanders;
use crate::hostile::process::{DEADLINE, Server};
use crate::hostile::world::{Client, MEASURING, assert_not_held_up, limit_of};

/// The changes of one batch.
const BATCH: usize = 10_000;

/// The memory that a small decision may take, with messages and stacks.
const SPARE: usize = 48 << 20;

async fn update(client: &mut Client, changes: Vec<Change>) {
    for batch in changes.chunks(BATCH) {
        let updated = client.update_snapshot(update_of(batch.to_vec())).await;
        updated.expect("a valid batch");
    }
}

/// A server with a client that takes large answers.
fn serve(flags: &[&str]) -> (Server, Client) {
    let server = Server::start(&[&["--threads", "1"], flags].concat());
    let client = Client::new(server.channel()).max_decoding_message_size(usize::MAX);
    (server, client)
}

/// Runs `attack` while others are served, and returns how much the peak of memory grew.
async fn grown_by<T>(server: &Server, attack: impl Future<Output = T>) -> (usize, T) {
    let before = server.peak_memory();
    let bystanders = Bystanders::start(server.address());
    let outcome = timeout(DEADLINE, attack).await.expect("in time");
    assert_not_held_up(bystanders, "the attack");
    (server.peak_memory() - before, outcome)
}

/// Nodes with room, and no resources of names of their own.
fn roomy(count: usize) -> Vec<Change> {
    let node = |number| {
        let has = [("cpu", "8"), ("memory", "16Gi"), ("pods", "110")];
        having(node(&format!("node-{number:05}"), &[]), &has).change()
    };
    (0..count).map(node).collect()
}

/// A pod that requests this many resources of names of their own.
fn demanding(resources: usize) -> evenkeel::proto::v1::Pod {
    let names: Vec<String> = (0..resources).map(|i| format!("e.io/r{i:05}")).collect();
    let requests: Vec<(&str, &str)> = names.iter().map(|name| (&**name, "1")).collect();
    support::build::requesting(pod("demanding", &[]), &requests)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_resources_than_any_node_has_are_refused() {
    let server = Server::start(&[]);
    let mut client = Client::new(server.channel());
    update(&mut client, roomy(10)).await;
    let refused = client.filter(filter_of(demanding(1_001))).await;
    let refused = refused.expect_err("too many resources");
    assert_eq!(limit_of(&refused).as_deref(), Some("pod-resources"));
    let field = "pod.spec.containers.resources.requests";
    assert!(refused.message().contains(field), "{refused}");
    let answered = client.filter(filter_of(demanding(1_000))).await;
    let answered = answered.expect("as many as allowed").into_inner();
    assert_eq!(answered.reasons.len(), 1_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn resources_beside_nodes() {
    const LIMIT: usize = 80 << 20;
    let _alone = MEASURING.lock().await;
    let (server, mut client) = serve(&["--max-memory-bytes", &LIMIT.to_string()]);
    let fresh = server.peak_memory();
    update(&mut client, roomy(1_000)).await;
    let counted = ExplainRequest {
        view: View::Domains.into(),
        ..explain_of(demanding(1_000))
    };
    let (grown, explained) = grown_by(&server, client.explain(counted)).await;
    let explained = explained.expect("it lists no nodes").into_inner();
    assert_eq!(explained.reasons.len(), 1_000);
    assert!(explained.reasons.iter().all(|reason| reason.count == 1_000));
    assert_eq!(explained.hints.len(), 1_000);
    assert!(grown < SPARE, "{grown} bytes more");
    // What each node lacks, listed for all, is more than there is memory for.
    let asked = full_filter_of(demanding(1_000));
    let filtered = client.filter(asked).await;
    let explained = client.explain(explain_of(demanding(1_000))).await;
    for refused in [filtered.map(drop), explained.map(drop)] {
        let refused = refused.expect_err("too long a list");
        assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
    }
    let grown = server.peak_memory() - fresh;
    assert!(grown < LIMIT / 10 * 13, "{grown} bytes more");
}

/// Ten terms about the namespaces of different teams.
fn widespread() -> evenkeel::proto::v1::Pod {
    let term = |number: usize| PodAffinityTerm {
        namespace_selector: Some(LabelSelector {
            match_expressions: vec![requirement("team", "NotIn", &[&format!("t{number}")])],
            ..LabelSelector::default()
        }),
        ..pod_term(HOSTNAME, &[("app", &format!("app-{number}"))])
    };
    let apart: Vec<_> = (0..10).map(term).collect();
    with_affinity(pod("widespread", &[]), &[], &apart)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn terms_beside_namespaces() {
    const NAMESPACES: usize = 10_000;
    const NODES: usize = 500;
    let _alone = MEASURING.lock().await;
    let (server, mut client) = serve(&[]);
    update(&mut client, roomy(NODES)).await;
    let objects = (0..NAMESPACES).flat_map(|number| {
        let (name, team) = (format!("ns-{number:05}"), format!("t{}", number / 100 % 20));
        let app = format!("app-{}", number % 100);
        let mut pod = on(
            pod("p", &[("app", &app)]),
            &format!("node-{:05}", number % NODES),
        );
        pod.metadata.get_or_insert_default().namespace = name.clone();
        let metadata = Some(meta(&name, &[("team", &team)]));
        [Namespace { metadata }.change(), pod.change()]
    });
    update(&mut client, objects.collect()).await;
    let mut answers: Vec<FilterResponse> = Vec::new();
    for _ in 0..3 {
        let asked = client.filter(filter_of(widespread()));
        let (grown, answer) = grown_by(&server, asked).await;
        answers.push(answer.expect("it is answered").into_inner());
        assert!(grown < SPARE, "{grown} bytes more");
    }
    // Pods of `app-0` to `app-9` are on a tenth of the nodes, and on each node are pods of
    // several teams.
    let apps_kept_out = NODES / 10;
    for answer in &answers {
        assert_eq!(answer.node_count as usize, NODES);
        assert_eq!(answer.feasible_count as usize, NODES - apps_kept_out);
        assert_eq!(answer.revision, answers[0].revision);
    }
}

/// A budget that selects pods by labels.
fn budget(number: usize, selector: LabelSelector) -> Change {
    let spec = PodDisruptionBudgetSpec {
        selector: Some(selector),
        ..PodDisruptionBudgetSpec::default()
    };
    let budget = PodDisruptionBudget {
        metadata: Some(meta(&format!("budget-{number:05}"), &[])),
        spec: Some(spec),
        ..PodDisruptionBudget::default()
    };
    budget.change()
}

/// Pods that all differ, two in each of three zones more than elsewhere: a workload that has to move.
fn uneven(pods: usize) -> Vec<Change> {
    let zones = ["a", "b", "c"];
    let nodes = zones.map(|zone| node(&format!("node-{zone}"), &[("zone", zone)]).change());
    let pods = (0..pods).map(|number| {
        let zone = if number % 4 < 2 {
            "a"
        } else {
            ["b", "c"][number % 2]
        };
        let labels = [("app", "web"), ("number", &*number.to_string())];
        let constraint = hard(1, "zone", &[("app", "web")]);
        let pod = spread(pod(&format!("pod-{number:05}"), &labels), vec![constraint]);
        on(pod, &format!("node-{zone}")).change()
    });
    nodes.into_iter().chain(pods).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn budgets_beside_pods() {
    const BUDGETS: usize = 20_000;
    const PODS: usize = 400;
    let _alone = MEASURING.lock().await;
    let (server, mut client) = serve(&["--max-running-decisions", "1"]);
    update(&mut client, uneven(PODS)).await;
    let of_one = |number| budget(number, labelled(&[("number", &number.to_string())]));
    update(&mut client, (0..BUDGETS).map(of_one).collect()).await;
    let rebalance = RebalanceRequest {
        max_moves: 10,
        ..RebalanceRequest::default()
    };
    let begun = Instant::now();
    let (_, plan) = grown_by(&server, client.rebalance(rebalance.clone())).await;
    let plan = plan.expect("it is planned").into_inner();
    assert!(!plan.workloads.is_empty(), "{plan:?}");
    // Comparing each pod with each budget takes many times as long.
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(10), "{took:?}");

    // No index finds these, so the plan takes long. It ends with its caller.
    let of_all = |number| {
        let expressions = vec![requirement("number", "Exists", &[])];
        let selector = LabelSelector {
            match_expressions: expressions,
            ..LabelSelector::default()
        };
        budget(number, selector)
    };
    update(&mut client, (0..BUDGETS).map(of_all).collect()).await;
    let given_up = timeout(Duration::from_secs(1), client.rebalance(rebalance)).await;
    given_up.expect_err("it takes longer");
    let begun = Instant::now();
    let next: Result<_, Status> = client.explain(explain_of(pod("next", &[]))).await;
    next.expect("there is a place");
    let waited = begun.elapsed();
    assert!(waited < Duration::from_millis(700), "{waited:?}");
}

/// A new pod is compared with the selectors of all views. It has many labels, and a selector of a
/// view has many requirements.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn labels_beside_selectors() {
    const MANY: usize = 20_000;
    let _alone = MEASURING.lock().await;
    let (_server, mut client) = serve(&[]);
    let nodes = ["a", "b"].map(|zone| node(zone, &[("zone", zone)]).change());
    let known = on(pod("known", &[("app", "web")]), "a").change();
    update(&mut client, nodes.into_iter().chain([known]).collect()).await;
    let absent = (0..MANY).map(|number| format!("absent-{number:05}"));
    let mut constraint = hard(1, "zone", &[]);
    constraint.label_selector = Some(LabelSelector {
        match_expressions: absent
            .map(|key| requirement(&key, "DoesNotExist", &[]))
            .collect(),
        ..LabelSelector::default()
    });
    // It is asked often enough for its counts to be kept.
    for _ in 0..3 {
        let asked = filter_of(spread(pod("asking", &[]), vec![constraint.clone()]));
        let answered = client.filter(asked).await.expect("it is answered");
        assert_eq!(answered.into_inner().constraints.len(), 1);
    }
    let keys: Vec<String> = (0..MANY).map(|number| format!("key-{number:05}")).collect();
    let labels: Vec<(&str, &str)> = keys.iter().map(|key| (&**key, "v")).collect();
    let begun = Instant::now();
    update(&mut client, vec![on(pod("new", &labels), "b").change()]).await;
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(3), "{took:?}");
}

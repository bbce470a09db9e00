//! The shapes of an answer: views, candidates, `top` and `max_domains`.

use evenkeel::proto::v1::{
    FilterRequest, FilterResponse, NodeNames, Pod, ScoreRequest, ScoreResponse, View,
};

use support::build::{HOSTNAME, ZONE, filter_of, hard, node, on, pod, score_of, soft, spread};
use support::model::Stored;
use support::server::Server;

/// A server with twelve nodes in three zones, of which zone `a` is full.
async fn server() -> Server {
    let server = Server::start().await;
    let mut changes = Vec::new();
    for index in 0..12 {
        let zone = ["a", "b", "c"][index % 3];
        changes.push(node(&format!("n{index:02}"), &[(ZONE, zone)]).change());
    }
    for index in 0..4 {
        let running = on(
            pod(&format!("p{index}"), &[("app", "web")]),
            &format!("n{:02}", index * 3),
        );
        changes.push(running.change());
    }
    changes.push(on(pod("q", &[("app", "web")]), "n01").change());
    server.update("", changes).await;
    server
}

fn incoming() -> Pod {
    let labels = [("app", "web")];
    spread(
        pod("", &labels),
        vec![hard(2, ZONE, &labels), soft(1, HOSTNAME, &labels)],
    )
}

fn names(names: &[&str]) -> Option<NodeNames> {
    Some(NodeNames {
        names: names.iter().map(|n| (*n).into()).collect(),
    })
}

async fn filter(server: &Server, view: View, candidates: Option<NodeNames>) -> FilterResponse {
    let request = FilterRequest {
        view: view as i32,
        candidates,
        ..filter_of(incoming())
    };
    server.filter(request).await
}

async fn score(
    server: &Server,
    view: View,
    candidates: Option<NodeNames>,
    top: i32,
) -> ScoreResponse {
    let request = ScoreRequest {
        view: view as i32,
        candidates,
        top,
        ..score_of(incoming())
    };
    server.score(request).await
}

fn bits(bitmap: &[u8]) -> Vec<usize> {
    let bit = |i: &usize| bitmap[i / 8] >> (i % 8) & 1 == 1;
    (0..bitmap.len() * 8).filter(bit).collect()
}

/// The answer without the feasible nodes of each domain, which only the full view counts, and
/// which depend on the candidates.
fn without_feasible_nodes(mut answer: FilterResponse) -> FilterResponse {
    let domains = answer.constraints.iter_mut().flat_map(|it| &mut it.domains);
    domains.for_each(|domain| domain.feasible_nodes = 0);
    answer
}

#[tokio::test]
async fn filter_views_tell_the_same_in_more_or_fewer_words() {
    let server = server().await;
    let full = filter(&server, View::Full, None).await;
    assert_eq!((full.feasible.len(), full.infeasible.len()), (8, 4));
    let unspecified = filter(&server, View::Unspecified, None).await;
    let basic = filter(&server, View::Basic, None).await;
    let domains = filter(&server, View::Domains, None).await;
    let bitmap = filter(&server, View::Bitmap, None).await;
    assert_eq!(unspecified, basic);
    let without_infeasible = FilterResponse {
        infeasible: Vec::new(),
        ..without_feasible_nodes(full.clone())
    };
    assert_eq!(basic, without_infeasible);
    let without_names = FilterResponse {
        feasible: Vec::new(),
        ..without_infeasible
    };
    assert_eq!(domains, without_names);
    let with_bitmap = FilterResponse {
        feasible_bitmap: bitmap.feasible_bitmap.clone(),
        node_order_revision: bitmap.node_order_revision,
        ..without_names
    };
    assert_eq!(bitmap, with_bitmap);
    let named = bits(&bitmap.feasible_bitmap)
        .into_iter()
        .map(|i| format!("n{i:02}"));
    assert_eq!(
        named.collect::<Vec<_>>(),
        full.feasible,
        "bit i is node i by name"
    );
    assert_eq!(bitmap.feasible_bitmap.len(), 2, "12 nodes");
}

#[tokio::test]
async fn candidates_keep_their_order() {
    let server = server().await;
    let order = ["n10", "n00", "ghost", "n02", "n01", "n03"];
    let full = filter(&server, View::Full, names(&order)).await;
    assert_eq!(full.feasible, ["n10", "n02", "n01"]);
    let infeasible: Vec<&str> = full.infeasible.iter().map(|v| v.node.as_str()).collect();
    assert_eq!(infeasible, ["n00", "n03"]);
    assert_eq!(full.unknown_candidates, ["ghost"]);
    assert_eq!((full.feasible_count, full.node_count), (3, 5));
    assert_eq!(full.reasons[0].count, 2);
    let bitmap = filter(&server, View::Bitmap, names(&order)).await;
    assert_eq!(bits(&bitmap.feasible_bitmap), [0, 3, 4]);
    assert_eq!(bitmap.unknown_candidates, ["ghost"]);
    let nobody = filter(&server, View::Full, names(&[])).await;
    assert_eq!((nobody.feasible_count, nobody.node_count), (0, 0));
    assert_eq!(
        without_feasible_nodes(nobody).constraints,
        without_feasible_nodes(full).constraints,
        "domains are the snapshot's"
    );

    let scored = score(&server, View::Full, names(&order), 0).await;
    let nodes: Vec<&str> = scored.scores.iter().map(|s| s.node.as_str()).collect();
    assert_eq!(
        nodes,
        ["n10", "n00", "n02", "n01", "n03"],
        "also those that Filter refuses"
    );
}

#[tokio::test]
async fn score_views_and_packed_scores() {
    let server = server().await;
    let full = score(&server, View::Full, None, 0).await;
    assert_eq!(full.scores.len(), 8, "the nodes that pass Filter");
    assert_eq!(score(&server, View::Unspecified, None, 0).await, full);
    assert_eq!(score(&server, View::Basic, None, 0).await, full);
    let domains = ScoreResponse {
        scores: Vec::new(),
        ..full.clone()
    };
    assert_eq!(score(&server, View::Domains, None, 0).await, domains);

    let bitmap = score(&server, View::Bitmap, None, 0).await;
    assert!(bitmap.scores.is_empty());
    let scored = bits(&bitmap.scored_bitmap)
        .into_iter()
        .map(|i| format!("n{i:02}"));
    let packed: Vec<(String, i64)> = scored
        .zip(bitmap.packed_scores.iter().map(|s| i64::from(*s)))
        .collect();
    let wanted: Vec<(String, i64)> = full
        .scores
        .iter()
        .map(|s| (s.node.clone(), s.score))
        .collect();
    assert_eq!(packed, wanted);
    assert_eq!(bitmap.packed_scores.len(), 8);

    let order = ["n10", "ghost", "n00", "n01"];
    let bitmap = score(&server, View::Bitmap, names(&order), 0).await;
    let full = score(&server, View::Full, names(&order), 0).await;
    let wanted: Vec<i32> = full.scores.iter().map(|s| s.score as i32).collect();
    assert_eq!(bitmap.packed_scores, wanted);
    assert_eq!(bits(&bitmap.scored_bitmap), [0, 2, 3]);
}

/// `top` lists the best nodes first, ties in node order, whatever the order of the candidates.
#[tokio::test]
async fn top_sorts_and_cuts() {
    let server = server().await;
    let order = ["n05", "n01", "n04", "n00", "n02"];
    let all = score(&server, View::Full, names(&order), 5).await;
    let listed: Vec<(&str, i64)> = all
        .scores
        .iter()
        .map(|s| (s.node.as_str(), s.score))
        .collect();
    assert_eq!(
        listed,
        [
            ("n02", 100),
            ("n04", 100),
            ("n05", 100),
            ("n00", 0),
            ("n01", 0)
        ]
    );
    let best = score(&server, View::Full, names(&order), 2).await;
    assert_eq!(best.scores, all.scores[..2]);
    assert_eq!(best.constraints, all.constraints);
    let more = score(&server, View::Full, names(&order), 100).await;
    assert_eq!(more, all);
}

#[tokio::test]
async fn max_domains_cuts_the_list_only() {
    let server = Server::start().await;
    let nodes = (0..150).map(|i| node(&format!("n{i:03}"), &[]).change());
    server.update("", nodes.collect()).await;
    server
        .update("", vec![on(pod("p", &[("app", "web")]), "n000").change()])
        .await;
    let labels = [("app", "web")];
    let ask = async |max_domains: Option<i32>| {
        let incoming = spread(pod("", &labels), vec![hard(1, HOSTNAME, &labels)]);
        let request = FilterRequest {
            max_domains,
            ..filter_of(incoming)
        };
        server.filter(request).await
    };
    let all = ask(Some(0)).await.constraints.remove(0);
    assert_eq!((all.domains.len(), all.domain_count), (150, 150));
    assert_eq!(
        all.domains[0].value, "n001",
        "ascending by count, then by value"
    );
    assert_eq!(all.domains[149].value, "n000");
    for (max_domains, listed) in [(None, 100), (Some(3), 3), (Some(1000), 150)] {
        let answer = ask(max_domains).await;
        let report = &answer.constraints[0];
        assert_eq!(report.domains, all.domains[..listed], "{max_domains:?}");
        assert_eq!((report.domain_count, report.global_minimum), (150, 0));
        assert_eq!(answer.feasible_count, 149);
    }
}

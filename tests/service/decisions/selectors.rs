//! The selector `{}`, which counts every pod in the Fleet dialect and none in that of Kubernetes:
//! the answers, and the views that are kept for them.

use evenkeel::proto::v1::{
    Dialect, FilterRequest, LabelSelector, NodeChecks, TopologySpreadConstraint, View,
};
use support::build::{ZONE, filter_of, hard, node, on, pod, spread};
use support::model::Stored;
use support::server::Server;

/// Returns the counts of the domains under a constraint whose selector is `{}`.
async fn counts(server: &Server, dialect: Dialect) -> Vec<i64> {
    let constraint = TopologySpreadConstraint {
        label_selector: Some(LabelSelector::default()),
        ..hard(5, ZONE, &[])
    };
    let request = FilterRequest {
        node_checks: NodeChecks::SpreadOnly.into(),
        view: View::Full.into(),
        dialect: dialect.into(),
        ..filter_of(spread(pod("", &[("app", "web")]), vec![constraint]))
    };
    let answer = server.filter(request).await;
    let domains = answer.constraints[0].domains.iter();
    let mut counts: Vec<i64> = domains.map(|domain| domain.matching_pods).collect();
    counts.sort_unstable();
    counts
}

/// Asks in either order, so that neither dialect answers from a view kept for the other.
#[tokio::test]
async fn what_an_empty_selector_counts_is_what_a_recount_says() {
    for fleet_first in [true, false] {
        let server = Server::start().await;
        let mut all: Vec<_> = [("n1", "a"), ("n2", "b")]
            .map(|(name, zone)| node(name, &[(ZONE, zone)]).change())
            .into();
        let pods = ["web", "db", "cache"].map(|app| on(pod(app, &[("app", app)]), "n1").change());
        all.extend(pods);
        server.update("", all).await;
        // Views of repeated questions are kept.
        for round in 0..6 {
            match (round % 2 == 0) == fleet_first {
                true => assert_eq!(counts(&server, Dialect::Fleet).await, [0, 1]),
                false => assert_eq!(counts(&server, Dialect::Kubernetes).await, [0, 0]),
            }
        }
        let more = on(pod("more", &[("app", "more")]), "n2").change();
        server.update("", vec![more]).await;
        assert_eq!(counts(&server, Dialect::Fleet).await, [1, 1]);
        assert!(server.verify("").await.view_count > 0, "nothing is kept");
    }
}

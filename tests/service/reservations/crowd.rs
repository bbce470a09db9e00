//! Many clients at once.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use evenkeel::proto::v1::{FilterRequest, View};

use super::held::WEB;
use support::build::{HOSTNAME, ZONE, hard, hold_of, node, pod, spread};
use support::model::Stored;
use support::server::Server;

const CLIENTS: usize = 32;
const CALLS: usize = 20;
const REPLICAS: i32 = 5;

/// However many clients place at once, none decides on what another is about to take: the spread
/// holds after every pick.
#[tokio::test(flavor = "multi_thread")]
async fn the_spread_holds_among_many_clients() {
    let server = Server::start().await;
    // Each zone has as many nodes as the others, because otherwise the two constraints exclude each
    // other.
    let nodes = (0..98).map(|i| node(&format!("n{i}"), &[(ZONE, &format!("z{}", i % 7))]));
    server.update("", nodes.map(Stored::change).collect()).await;
    let constraints = vec![hard(1, ZONE, &WEB), hard(1, HOSTNAME, &WEB)];
    let template = spread(pod("", &WEB), constraints);
    let request = hold_of(template, REPLICAS, Duration::from_secs(600));
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..CLIENTS {
        let (mut client, request) = (server.another_client(), request.clone());
        clients.spawn(async move {
            let mut picks = Vec::new();
            for _ in 0..CALLS {
                let placed = client.place(request.clone()).await.expect("it is placed");
                let placed = placed.into_inner();
                assert_eq!(placed.unplaced, 0);
                for report in &placed.constraints {
                    let counts = report.domains.iter().map(|d| d.matching_pods);
                    let most = counts.clone().max().expect("there are domains");
                    let least = counts.min().expect("there are domains");
                    assert!(most - least <= 1, "{report:?}");
                }
                picks.extend(placed.placements);
            }
            picks
        });
    }
    let picks: Vec<_> = clients.join_all().await.into_iter().flatten().collect();
    let wanted = CLIENTS * CALLS * REPLICAS as usize;
    assert_eq!(picks.len(), wanted);
    let ids: HashSet<&str> = picks.iter().map(|pick| &*pick.reservation_id).collect();
    assert_eq!(ids.len(), wanted, "every pick is unique");
    assert_eq!(server.describe("").await.reservation_count, wanted as i64);

    // Exactly what was picked counts.
    let mut by_node: BTreeMap<String, i64> = BTreeMap::new();
    for pick in picks {
        *by_node.entry(pick.node).or_default() += 1;
    }
    let filter = FilterRequest {
        pod: request.pod,
        view: View::Domains.into(),
        max_domains: Some(0),
        ..FilterRequest::default()
    };
    let hosts = server.filter(filter).await.constraints.remove(1).domains;
    let counted = hosts.into_iter().map(|d| (d.value, d.matching_pods));
    assert_eq!(counted.collect::<BTreeMap<_, _>>(), by_node);
}

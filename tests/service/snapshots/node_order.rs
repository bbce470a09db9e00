//! A client that lists nodes only when an answer says that their order has changed reads every
//! bitmap right, and lists no more often than the order changes.

use std::collections::BTreeMap;

use evenkeel::proto::v1::{
    Change, FilterRequest, FilterResponse, ListNodesRequest, ListNodesResponse, View,
};
use proptest::collection::vec;
use proptest::prelude::*;
use tonic::Code;

use crate::snapshots::all_nodes;
use support::build::{ZONE, cordoned, node, on, plain_node, pod};
use support::caller::deletion;
use support::model::{Stored, delete};
use support::refusal::code;
use support::server::Server;

const SNAPSHOT: &str = "ordered";

#[derive(Debug, Clone)]
enum Event {
    /// Puts a node, cordoned or not.
    Put(u8, bool),
    Remove(u8),
    Pod(u8),
    /// Puts so many nodes that the batch is applied to copies.
    Many,
    /// Replaces the state by the same state, or by one without a node.
    Replace(Option<u8>),
    Delete,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0..9u8, any::<bool>()).prop_map(|(node, is_cordoned)| Event::Put(node, is_cordoned)),
        2 => (0..9u8).prop_map(Event::Remove),
        2 => (0..9u8).prop_map(Event::Pod),
        1 => Just(Event::Many),
        2 => proptest::option::of(0..9u8).prop_map(Event::Replace),
        1 => Just(Event::Delete),
    ]
}

fn name(number: u8) -> String {
    format!("n{number}")
}

fn put(name: &str, is_cordoned: bool) -> Change {
    let node = node(name, &[(ZONE, "z")]);
    match is_cordoned {
        true => cordoned(node).change(),
        false => node.change(),
    }
}

/// The node order that a client keeps.
#[derive(Default)]
struct Reader {
    list: ListNodesResponse,
    lists: usize,
}

impl Reader {
    /// The names of the nodes that an answer says are feasible.
    async fn read(&mut self, server: &Server, answer: &FilterResponse) -> Vec<String> {
        let is_known = answer.epoch == self.list.epoch
            && answer.node_order_revision <= self.list.revision
            && answer.revision >= self.list.node_order_revision;
        if !is_known {
            self.lists += 1;
            self.list = list(server, answer.revision, 1_000).await;
        }
        let bits = (0..).zip(&answer.feasible_bitmap);
        let bits = bits.flat_map(|(at, byte)| {
            (0..8)
                .filter(move |bit| byte >> bit & 1 == 1)
                .map(move |bit| 8 * at + bit)
        });
        bits.map(|at: usize| self.list.names[at].clone()).collect()
    }
}

/// Lists all pages as one.
async fn list(server: &Server, min_revision: i64, page_size: i32) -> ListNodesResponse {
    let mut all = ListNodesResponse::default();
    let mut page_token = String::new();
    loop {
        let request = ListNodesRequest {
            snapshot: SNAPSHOT.into(),
            page_size,
            page_token,
            min_revision,
            ..ListNodesRequest::default()
        };
        let page = server.list_nodes(request).await;
        assert!(page_size == 0 || page.names.len() <= page_size as usize);
        all.names.extend(page.names.clone());
        page_token = page.next_page_token.clone();
        if page_token.is_empty() {
            return ListNodesResponse {
                names: all.names,
                ..page
            };
        }
    }
}

async fn run(server: &Server, events: &[Event]) {
    let _ = server.client().delete_snapshot(deletion(SNAPSHOT)).await;
    let mut nodes = BTreeMap::from([(name(0), false)]);
    server.update(SNAPSHOT, vec![put(&name(0), false)]).await;
    let (mut reader, mut orders) = (Reader::default(), 1);
    for event in events {
        let before: Vec<String> = nodes.keys().cloned().collect();
        let mut is_new = false;
        match event.clone() {
            Event::Put(node, is_cordoned) => {
                server
                    .update(SNAPSHOT, vec![put(&name(node), is_cordoned)])
                    .await;
                nodes.insert(name(node), is_cordoned);
            }
            Event::Remove(node) => {
                server
                    .update(SNAPSHOT, vec![delete("Node", "", &name(node))])
                    .await;
                nodes.remove(&name(node));
            }
            Event::Pod(node) => {
                let pod = on(pod(&format!("p{node}"), &[]), &name(node));
                server.update(SNAPSHOT, vec![pod.change()]).await;
            }
            Event::Many => {
                let many: Vec<String> = (0..4_000).map(|node| format!("m{node}")).collect();
                server
                    .update(SNAPSHOT, many.iter().map(|name| put(name, true)).collect())
                    .await;
                nodes.extend(many.into_iter().map(|name| (name, true)));
            }
            Event::Replace(without) => {
                without.map(|node| nodes.remove(&name(node)));
                let all = nodes.iter().map(|(name, cordoned)| put(name, *cordoned));
                server
                    .replace(SNAPSHOT, all.collect(), Default::default())
                    .await;
            }
            Event::Delete => {
                server.delete(SNAPSHOT).await;
                nodes = BTreeMap::from([(name(0), false)]);
                server.update(SNAPSHOT, vec![put(&name(0), false)]).await;
                is_new = true;
            }
        }
        orders += usize::from(is_new || !before.iter().eq(nodes.keys()));
        let request = FilterRequest {
            view: View::Bitmap.into(),
            ..all_nodes(SNAPSHOT)
        };
        let answer = server.filter(request.clone()).await;
        let feasible = nodes.iter().filter(|(_, is_cordoned)| !**is_cordoned);
        let feasible: Vec<_> = feasible.map(|(name, _)| name.clone()).collect();
        assert_eq!(
            reader.read(server, &answer).await,
            feasible,
            "after {event:?}"
        );
        assert!(
            reader.lists <= orders,
            "listed {} times, {orders} orders",
            reader.lists
        );

        // The node order of an overlay belongs to no revision.
        let overlay = vec![put("another", true)];
        let imagined = server.filter(FilterRequest { overlay, ..request }).await;
        assert_eq!(imagined.node_order_revision, 0);
    }
    let listed = list(server, 0, 0).await;
    assert!(listed.names.iter().eq(nodes.keys()));
    assert_eq!(listed.node_count as usize, nodes.len());
    let by_twos = list(server, 0, 2).await;
    assert_eq!(by_twos, listed);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn bitmaps_are_read_by_lists_that_are_as_old_as_they_may_be(events in vec(event(), 1..25)) {
        let (runtime, server) = Server::shared();
        runtime.block_on(run(server, &events));
    }
}

#[tokio::test]
async fn a_page_has_no_more_bytes_than_clients_take() {
    let server = Server::start().await;
    let names = (0..20_000).map(|number| format!("{number}-{}", "n".repeat(200)));
    let all = names.map(|name| plain_node(&name, &[]).change());
    server.update(SNAPSHOT, all.collect()).await;
    let request = ListNodesRequest {
        snapshot: SNAPSHOT.into(),
        ..ListNodesRequest::default()
    };
    let page = server.list_nodes(request.clone()).await;
    assert!(!page.next_page_token.is_empty() && page.names.len() > 10_000);
    assert!(prost::Message::encoded_len(&page) < 4 << 20);
    assert_eq!(list(&server, 0, 0).await.names.len(), 20_000);

    let elsewhere = ListNodesRequest {
        epoch: "another".into(),
        ..request
    };
    let refused = server.client().list_nodes(elsewhere).await;
    assert_eq!(code(refused), Code::Aborted);
}

//! Whatever clients make the server hold is on its account: what is resident
//! stays near what is accounted, and within a limit when there is one.

use std::collections::BTreeMap;

use evenkeel::proto::v1::change::Object;
use evenkeel::proto::v1::stream_snapshot_request::Step;
use evenkeel::proto::v1::{Affinity, Node};
use evenkeel::proto::v1::{
    BeginReplace, Change, FilterRequest, LabelSelector, LabelSelectorRequirement, NodeAffinity,
    NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, ObjectMeta, PlaceRequest, Pod,
    PodSpec, ReplicaSet, ReplicaSetSpec, Reservation, StreamSnapshotRequest,
    StreamSnapshotResponse, Toleration, UpdateSnapshotRequest,
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming};

use crate::metrics::Page;
use crate::process::{Server, command, until};
use crate::world::{Client, assert_healthy, fill, limit_of, question, spread_pod};

/// What the process may take beside what is accounted and what it took before
/// the attack: messages of up to 2 MiB that are being decoded, whose objects take
/// several times that, and stacks of more threads.
const SPARE: usize = 24 << 20;

/// How much more than what is accounted may be resident beside that: what
/// allocators lose between blocks.
const SHARE: (usize, usize) = (6, 5);

/// What an attack makes the server hold at least, so that it would be seen if it
/// were not accounted.
const HELD: usize = 40 << 20;

/// One large page that the allocator takes before the program begins.
const FIRST_PAGE: usize = 2 << 20;

/// A limit that no attack can stay within.
const SMALL: usize = 24 << 20;

/// One step of an attack.
enum Blow {
    Update(UpdateSnapshotRequest),
    Filter(FilterRequest),
    Place(PlaceRequest),
    /// A change in a replace that is never committed.
    Stage(Change),
}

/// What a client does, again and again.
struct Attack {
    flags: &'static [&'static str],
    steps: usize,
    blow: fn(usize) -> Blow,
}

/// A server and who attacks it.
struct Scene {
    server: Server,
    admin: String,
    client: Client,
    feeds: Vec<Feed>,
    staged: usize,
    /// What was resident before the attack.
    fresh: usize,
}

type Feed = (
    mpsc::Sender<StreamSnapshotRequest>,
    Streaming<StreamSnapshotResponse>,
);

impl Scene {
    async fn start(flags: &[&str]) -> Self {
        let flags = [&["--admin-listen", "127.0.0.1:0"], flags].concat();
        let mut server = Server::spawn(command(&["serve"]).args(&flags));
        let admin = server.logged("admin listening", "address");
        let mut client = Client::new(server.channel());
        fill(&mut client, 20).await;
        for _ in 0..20 {
            let answered = client.filter(question("web")).await;
            answered.expect("within the limits");
        }
        let mut scene = Self {
            server,
            admin,
            client,
            feeds: Vec::new(),
            staged: 0,
            fresh: 0,
        };
        scene.accounted();
        scene.fresh = scene.resident();
        scene
    }

    async fn deal(&mut self, blow: Blow) -> Result<(), Status> {
        match blow {
            Blow::Update(update) => self.client.update_snapshot(update).await.map(drop),
            Blow::Filter(filter) => self.client.filter(filter).await.map(drop),
            Blow::Place(place) => self.client.place(place).await.map(drop),
            Blow::Stage(change) => self.stage(change).await,
        }
    }

    /// Begins one replace more, the fourth of a stream being its last, and puts
    /// a change into it.
    async fn stage(&mut self, change: Change) -> Result<(), Status> {
        let snapshot = format!("staged-{}", self.staged);
        if self.staged.is_multiple_of(4) {
            let (sender, requests) = mpsc::channel(1);
            let answers = self.client.stream_snapshot(ReceiverStream::new(requests));
            self.feeds.push((sender, answers.await?.into_inner()));
        }
        self.staged += 1;
        let (sender, answers) = self.feeds.last_mut().expect("one was just pushed");
        let begin = Step::BeginReplace(BeginReplace {
            snapshot: snapshot.clone(),
        });
        let update = Step::Update(UpdateSnapshotRequest {
            snapshot,
            changes: vec![change],
            ..UpdateSnapshotRequest::default()
        });
        for step in [begin, update] {
            // One that was refused before has ended.
            let sent = sender.send(StreamSnapshotRequest { step: Some(step) });
            if sent.await.is_err() {
                self.staged = self.staged.next_multiple_of(4);
                return Ok(());
            }
            if let Err(status) = answers.message().await {
                self.staged = self.staged.next_multiple_of(4);
                return Err(status);
            }
        }
        Ok(())
    }

    fn accounted(&self) -> usize {
        let page = Page::of(&self.admin);
        let part = |part: &str| {
            let label = format!("part=\"{part}\"");
            page.value("evenkeel_accounted_memory_bytes", &[&label]) as usize
        };
        let parts = [
            "objects", "staged", "views", "requests", "answers", "streams",
        ];
        parts.into_iter().map(part).sum()
    }

    /// What is resident but for the program's own pages: how many of those are
    /// is up to the system.
    fn resident(&self) -> usize {
        self.proc("status", "RssAnon:")
    }

    /// What is resident in pages of 2 MiB. The system clears a whole one as soon
    /// as a byte of it is used.
    fn in_large_pages(&self) -> usize {
        self.proc("smaps_rollup", "AnonHugePages:")
    }

    /// Bytes that a file of Linux about the server names.
    fn proc(&self, file: &str, name: &str) -> usize {
        let path = format!("/proc/{}/{file}", self.server.id());
        let text = std::fs::read_to_string(path).expect("it runs");
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<usize>().ok());
        kilobytes.expect("Linux says so") * 1024
    }

    /// Waits until as little is resident as there should be: allocators give
    /// memory back a little later.
    fn assert_resident(&self, of: impl Fn() -> usize) {
        let mut seen = (0, 0);
        let within = until_or_give_up(|| {
            seen = (self.resident(), of());
            seen.0 <= self.fresh + SPARE + seen.1 / SHARE.1 * SHARE.0
        });
        let [resident, accounted, fresh] = [seen.0, seen.1, self.fresh].map(|bytes| bytes >> 20);
        eprintln!("{resident} MiB are resident, {accounted} MiB accounted, {fresh} MiB at first");
        assert!(
            within,
            "{resident} MiB are resident, {accounted} MiB accounted, {fresh} MiB at first"
        );
    }
}

/// Whether something came true in ten seconds.
fn until_or_give_up(mut holds: impl FnMut() -> bool) -> bool {
    let start = std::time::Instant::now();
    while !holds() {
        if start.elapsed().as_secs() >= 10 {
            return false;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    true
}

impl Attack {
    /// Attacks a server with all the memory it wants, and one with little.
    async fn run(self) {
        let mut scene = Scene::start(self.flags).await;
        for step in 0..self.steps {
            let dealt = scene.deal((self.blow)(step)).await;
            dealt.expect("within the limits");
        }
        scene.assert_resident(|| scene.accounted());
        let held = scene.resident() - scene.fresh;
        assert!(held > HELD, "only {} MiB are held", held >> 20);
        let large = scene.in_large_pages();
        assert!(
            large <= FIRST_PAGE,
            "{} MiB are in large pages",
            large >> 20
        );
        drop(scene);

        let small = SMALL.to_string();
        let flags = [self.flags, &["--max-memory-bytes", &small]].concat();
        let mut scene = Scene::start(&flags).await;
        let mut refused = 0;
        for step in 0..self.steps {
            let blow = (self.blow)(step);
            let decides = matches!(blow, Blow::Filter(_));
            if let Err(status) = scene.deal(blow).await {
                assert!(!decides, "decisions are made still: {status}");
                assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
                assert_eq!(limit_of(&status).as_deref(), Some("max-memory-bytes"));
                refused += 1;
            }
        }
        let accounted = scene.accounted();
        assert!(accounted <= SMALL + SMALL / 10, "{accounted} are held");
        scene.assert_resident(|| SMALL);
        assert_healthy(scene.server.channel()).await;
        let answered = scene.client.filter(question("web")).await;
        answered.expect("decisions are made still");
        let page = Page::of(&scene.admin);
        let label = ["limit=\"max-memory-bytes\""];
        let counted = page.value("evenkeel_limit_refusals_total", &label) as usize;
        // A feed that is refused has ended: what follows on it is not counted.
        assert!(counted >= refused.min(1), "{counted} of {refused}");
        if scene.feeds.is_empty() {
            assert_eq!(counted, refused);
        }
    }
}

/// A label value of the greatest length, a different one for each pair.
fn value(number: usize, of: usize) -> String {
    format!("{number:030}-{of:032}")
}

fn values(number: usize, count: usize) -> Vec<String> {
    (0..count).map(|i| value(number, i)).collect()
}

fn metadata(namespace: &str, name: String, labels: BTreeMap<String, String>) -> Option<ObjectMeta> {
    Some(ObjectMeta {
        name,
        namespace: namespace.into(),
        labels,
        ..ObjectMeta::default()
    })
}

fn change(object: Object) -> Change {
    Change {
        object: Some(object),
    }
}

fn update(snapshot: String, objects: impl IntoIterator<Item = Object>) -> Blow {
    Blow::Update(UpdateSnapshotRequest {
        snapshot,
        changes: objects.into_iter().map(change).collect(),
        ..UpdateSnapshotRequest::default()
    })
}

fn affinity(number: usize, count: usize) -> Affinity {
    let requirement = NodeSelectorRequirement {
        key: "zone".into(),
        operator: "NotIn".into(),
        values: values(number, count),
    };
    let term = NodeSelectorTerm {
        match_expressions: vec![requirement],
        ..NodeSelectorTerm::default()
    };
    let required = NodeSelector {
        node_selector_terms: vec![term],
    };
    Affinity {
        node_affinity: Some(NodeAffinity {
            required_during_scheduling_ignored_during_execution: Some(required),
            ..NodeAffinity::default()
        }),
        ..Affinity::default()
    }
}

fn selector(number: usize, count: usize) -> LabelSelector {
    let requirement = LabelSelectorRequirement {
        key: "app".into(),
        operator: "NotIn".into(),
        values: values(number, count),
    };
    LabelSelector {
        match_expressions: vec![requirement],
        ..LabelSelector::default()
    }
}

fn replica_set(number: usize) -> Object {
    Object::ReplicaSet(ReplicaSet {
        metadata: metadata("", format!("owner-{number}"), BTreeMap::new()),
        spec: Some(ReplicaSetSpec {
            selector: Some(selector(number, 16_000)),
        }),
    })
}

fn pod(namespace: &str, name: String, labels: BTreeMap<String, String>) -> Pod {
    Pod {
        metadata: metadata(namespace, name, labels),
        ..Pod::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn affinity_of_many_values() {
    let blow = |step| {
        let mut filter = question("web");
        let spec = filter.pod.as_mut().and_then(|pod| pod.spec.as_mut());
        spec.expect("a question has one").affinity = Some(affinity(step, 16_000));
        Blow::Filter(filter)
    };
    let attack = Attack {
        flags: &[],
        steps: 40,
        blow,
    };
    attack.run().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn distinct_selectors() {
    let blow = |step: usize| {
        // What is empty keeps no views.
        if step == 0 {
            let pod = pod("", "p".into(), BTreeMap::new());
            return update(String::new(), [Object::Pod(pod)]);
        }
        let mut filter = question("web");
        let spec = filter.pod.as_mut().and_then(|pod| pod.spec.as_mut());
        let constraints = &mut spec
            .expect("a question has one")
            .topology_spread_constraints;
        // The first 64 of a namespace get views at once, others when they come
        // again.
        constraints[0].label_selector = Some(selector(step, 12_000));
        Blow::Filter(filter)
    };
    let attack = Attack {
        flags: &[],
        steps: 60,
        blow,
    };
    attack.run().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn owners_with_large_selectors() {
    let attack = Attack {
        flags: &[],
        steps: 40,
        blow: |step| update(String::new(), [replica_set(step)]),
    };
    attack.run().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn label_sets_with_long_values() {
    let blow = |step| {
        let labels = |pod: usize| {
            let label = |i| (format!("key-{i}"), value(step * 100 + pod, i));
            (0..50).map(label).collect()
        };
        let pods = (0..100).map(|i| pod("", format!("pod-{step}-{i}"), labels(i)));
        update(String::new(), pods.map(Object::Pod))
    };
    let attack = Attack {
        flags: &[],
        steps: 100,
        blow,
    };
    attack.run().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_namespaces() {
    let blow = |step| {
        let pod = |i| pod(&format!("ns-{step}-{i}"), "p".into(), BTreeMap::new());
        update(String::new(), (0..1_000).map(pod).map(Object::Pod))
    };
    let attack = Attack {
        flags: &[],
        steps: 45,
        blow,
    };
    attack.run().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_snapshots() {
    let blow = |step| {
        let pod = pod("", "p".into(), BTreeMap::new());
        update(format!("s-{step}"), [Object::Pod(pod)])
    };
    let attack = Attack {
        flags: &["--max-snapshots", "20000"],
        steps: 10_000,
        blow,
    };
    attack.run().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn staged_replaces() {
    let attack = Attack {
        flags: &[],
        steps: 40,
        blow: |step| Blow::Stage(change(replica_set(step))),
    };
    attack.run().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn templates() {
    let blow = |step| {
        let mut pod = pod("", format!("pod-{step}"), BTreeMap::new());
        pod.spec = Some(PodSpec {
            affinity: Some(affinity(step, 900)),
            ..PodSpec::default()
        });
        update(String::new(), [Object::Pod(pod)])
    };
    let attack = Attack {
        flags: &[],
        steps: 900,
        blow,
    };
    attack.run().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reservations_of_long_owners() {
    let blow = |step| {
        let mut pod = spread_pod("web");
        if let Some(spec) = &mut pod.spec {
            spec.topology_spread_constraints.clear();
        }
        Blow::Place(PlaceRequest {
            pod: Some(pod),
            replicas: 1,
            reserve: Some(Reservation {
                owner: format!("{step}-{}", "o".repeat(190_000)),
                ttl: Some(pbjson_types::Duration {
                    seconds: 3_600,
                    nanos: 0,
                }),
            }),
            ..PlaceRequest::default()
        })
    };
    let attack = Attack {
        flags: &["--max-string-bytes", "200000"],
        steps: 300,
        blow,
    };
    attack.run().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partitions_while_nodes_come_and_go() {
    let blow = |step: usize| {
        if step.is_multiple_of(20) {
            let node = |i| {
                let zone = [("zone".to_owned(), format!("zone-{}", i % 10))];
                Object::Node(Node {
                    metadata: metadata("", format!("n-{step}-{i}"), zone.into()),
                    ..Node::default()
                })
            };
            return update(String::new(), (0..2_000).map(node));
        }
        let mut filter = question("web");
        let spec = filter.pod.as_mut().and_then(|pod| pod.spec.as_mut());
        let spec = spec.expect("a question has one");
        spec.tolerations = vec![Toleration {
            key: format!("key-{step}"),
            operator: "Exists".into(),
            ..Toleration::default()
        }];
        for constraint in &mut spec.topology_spread_constraints {
            constraint.node_taints_policy = Some("Honor".into());
        }
        Blow::Filter(filter)
    };
    let attack = Attack {
        flags: &["--max-view-bytes", "1000000000"],
        steps: 200,
        blow,
    };
    attack.run().await;
}

/// What is deleted is off the account, and what a replace gave up too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_deleted_is_off_the_account() {
    let scene = &mut Scene::start(&[]).await;
    let before = scene.accounted();
    for step in 0..4 {
        let update = update("s".into(), [replica_set(step)]);
        scene.deal(update).await.expect("within the limits");
        let stage = Blow::Stage(change(replica_set(step)));
        scene.deal(stage).await.expect("within the limits");
    }
    assert!(scene.accounted() > before + 4_000_000);
    let request = evenkeel::proto::v1::DeleteSnapshotRequest {
        snapshot: "s".into(),
        ..Default::default()
    };
    let deleted = scene.client.delete_snapshot(request).await;
    deleted.expect("it exists");
    scene.feeds.clear();
    until("the account is as before", || {
        (scene.accounted() <= before).then_some(())
    });
}

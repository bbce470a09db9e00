//! Recorded answers of kube-scheduler's Filter, asked of a real server and of the oracle: both
//! answer as it did, in each version that answers some cases differently. `vectors/` says where the
//! cases come from.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel::proto::v1::{
    Code, DefaultConstraints, FilterRequest, FilterResponse, NodeChecks, NodeVerdict, PlaceRequest,
    Pod, UpdateSnapshotRequest, View,
};
use evenkeel::snapshot::Limits;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use support::build::{batch_of, filter_in, place_of};
use support::recount::{Cluster, NodeRecount, Rejection};
use support::server::Server;
use support::{model, reasons, vectors};

/// Cases of one subject.
struct Set {
    /// The versions, each with its files and how many cases these have. A version answers all other
    /// cases of the first one as the first one.
    versions: &'static [(&'static str, &'static [(&'static str, usize)])],
    /// True if the oracle also says where Place puts pods, and answers say all that is unchecked.
    is_placed: bool,
}

const ROOM: Set = Set {
    versions: &[
        ("1.35", &[("room.jsonl.gz", 399)]),
        ("1.36", &[("room-1.36.jsonl.gz", 10)]),
        ("1.37", &[("room-1.37.jsonl.gz", 105)]),
    ],
    is_placed: false,
};

const NOMINATED: Set = Set {
    versions: &[("1.35", &[("nominated.jsonl.gz", 622)])],
    is_placed: false,
};

const VOLUMES: Set = Set {
    versions: &[("", &[("volumes.jsonl.gz", 600)])],
    is_placed: true,
};

const AFFINITY_FILES: &[(&str, usize)] = &[("affinity.jsonl.gz", 670), ("features.jsonl.gz", 141)];

const AFFINITY: Set = Set {
    versions: &[("1.36", AFFINITY_FILES), ("1.37", AFFINITY_FILES)],
    is_placed: true,
};

/// A case that 1.37 decides by an empty list in a status: an empty list counts as nothing, and an
/// absent one as the wanted amount. Only JSON tells the two apart. In protobuf, in which schedulers
/// get pods, both are absent.
const EMPTY_LIST: (&str, &str) = ("1.37", "random/1-0291");

/// What was asked.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Case {
    pub(super) name: String,
    #[serde(flatten)]
    cluster: Cluster,
    /// A list, or `"system"`.
    #[serde(default)]
    default_constraints: Value,
    pub(super) candidates: Option<Vec<String>>,
    pub(super) pod: Pod,
}

/// A case with what kube-scheduler answered.
#[derive(Deserialize)]
struct Judged {
    #[serde(flatten)]
    case: Case,
    want: Want,
    #[serde(rename = "wantUntil1.36")]
    until_1_36: Option<Want>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Want {
    Nodes {
        nodes: BTreeMap<String, Wanted>,
        /// Whether the pod waits for scheduling gates.
        gated: Option<bool>,
    },
    Alone(BTreeMap<String, Wanted>),
}

#[derive(Clone, Deserialize)]
struct Wanted {
    #[serde(flatten)]
    verdict: Verdict,
    /// The verdict without nominated pods.
    without: Option<Verdict>,
}

/// The verdict of kube-scheduler on a node.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Verdict {
    code: String,
    #[serde(default)]
    reasons: Vec<String>,
}

/// The verdicts by node, each with whether it is due to nominated pods alone.
pub(super) type Verdicts = BTreeMap<String, (Verdict, bool)>;

impl Case {
    pub(super) fn cluster(&self) -> Cluster {
        Cluster {
            defaults: self.defaults(),
            ..self.cluster.clone()
        }
    }

    fn version(&self) -> &str {
        &self.cluster.kubernetes_version
    }

    fn defaults(&self) -> DefaultConstraints {
        match &self.default_constraints {
            Value::Null => DefaultConstraints::default(),
            Value::String(system) if system == "system" => DefaultConstraints {
                system: true,
                ..DefaultConstraints::default()
            },
            list => DefaultConstraints {
                constraints: serde_json::from_value(list.clone()).expect("a list"),
                system: false,
            },
        }
    }

    /// The incoming pod without its gates, which the plugins of Filter do not look at.
    fn ungated(&self) -> Pod {
        let mut pod = self.pod.clone();
        pod.spec.get_or_insert_default().scheduling_gates.clear();
        pod
    }

    /// Returns whether this may be left unchecked: limits of volumes on nodes, a namespaceSelector
    /// in a cluster that lists no namespaces, and a deferred resize.
    fn may_leave(&self, field: &str) -> bool {
        field.starts_with("spec.volumes (")
            || field.ends_with(".namespaceSelector") && self.cluster.namespaces.is_empty()
            || self.name.ends_with("deferred-resize")
    }
}

impl Judged {
    /// The wanted verdicts. kube-scheduler fails on a storage class without a binding mode, which
    /// no API server stores; the service refuses the node instead.
    fn wanted(&self) -> Verdicts {
        let (Want::Nodes { nodes, .. } | Want::Alone(nodes)) = &self.want;
        let wanted = nodes.iter().map(|(node, wanted)| {
            let mut verdict = wanted.verdict.clone();
            if verdict.code == "Error" {
                verdict.code = "UnschedulableAndUnresolvable".into();
            }
            let success = Verdict::of(None, Vec::new());
            let by_nominated = verdict != success && wanted.without.as_ref() == Some(&success);
            (node.clone(), (verdict, by_nominated))
        });
        wanted.collect()
    }
}

impl Verdict {
    fn of(code: Option<Code>, reasons: Vec<String>) -> Self {
        let code = match code {
            None => "Success",
            Some(Code::Unschedulable) => "Unschedulable",
            Some(_) => "UnschedulableAndUnresolvable",
        };
        Self {
            code: code.into(),
            reasons,
        }
    }
}

/// The `count` cases of a file of `tests/vectors`.
pub(super) fn load_recorded<C: DeserializeOwned>(file: &str, count: usize) -> Vec<C> {
    let cases = vectors::lines(file);
    let cases = cases.map(|line| serde_json::from_str(&line).expect("a case"));
    let cases: Vec<C> = cases.collect();
    assert_eq!(cases.len(), count, "{file}");
    cases
}

impl Set {
    /// Each case with each version.
    fn cases(&self) -> Vec<Judged> {
        let load_all = |files: &[(&str, usize)]| -> Vec<Judged> {
            let files = files.iter();
            files
                .flat_map(|(file, count)| load_recorded(file, *count))
                .collect()
        };
        let mut all = Vec::new();
        for (version, own) in self.versions {
            let mut known = BTreeSet::new();
            for files in [*own, self.versions[0].1] {
                let mut cases = load_all(files);
                cases.retain(|judged| known.insert(judged.case.name.clone()));
                for mut judged in cases {
                    judged.case.cluster.kubernetes_version = (*version).into();
                    let former = judged.until_1_36.take().filter(|_| *version <= "1.36");
                    judged.want = former.unwrap_or(judged.want);
                    all.push(judged);
                }
            }
        }
        all.retain(|judged| (judged.case.version(), &*judged.case.name) != EMPTY_LIST);
        all
    }

    /// Asks a server about all cases.
    async fn check_server(&self) {
        let cases = self.cases();
        let server = Server::with_limits(Limits {
            max_snapshots: cases.len(),
            ..Limits::default()
        })
        .await;
        for judged in cases {
            let case = &judged.case;
            let snapshot = format!("{}-{}", case.version(), case.name).replace(['/', '_'], "-");
            let snapshot = snapshot.trim_start_matches('-');
            let about = format!("{} {}", case.version(), case.name);
            feed(&server, snapshot, &case.cluster()).await;
            let answer = filter(&server, snapshot, &case.ungated()).await;
            assert_eq!(verdicts(&answer), judged.wanted(), "{about}");
            if let Want::Nodes {
                gated: Some(gated), ..
            } = judged.want
            {
                check_gates(&server, snapshot, case, gated).await;
            }
            if self.is_placed {
                let left = answer.unchecked.iter();
                assert!(
                    left.clone().all(|field| case.may_leave(field)),
                    "{about}: {left:?}"
                );
                check_place(&server, snapshot, &case.cluster(), &case.pod).await;
            }
        }
    }

    /// Asks the oracle itself, which other tests compare the service with.
    fn check_oracle(&self) {
        for judged in self.cases() {
            let case = &judged.case;
            let got = recounted(&case.cluster(), &case.ungated());
            assert_eq!(got, judged.wanted(), "{} {}", case.version(), case.name);
        }
    }
}

/// Feeds a cluster into a snapshot of its own, with its version of Kubernetes.
async fn feed(server: &Server, snapshot: &str, cluster: &Cluster) {
    let request = UpdateSnapshotRequest {
        kubernetes_version: cluster.kubernetes_version.clone(),
        ..batch_of(snapshot, model::changes(cluster))
    };
    server.send(request).await;
}

fn request(snapshot: &str, pod: &Pod, view: View, checks: NodeChecks) -> FilterRequest {
    FilterRequest {
        view: view as i32,
        node_checks: checks as i32,
        ..filter_in(snapshot, pod.clone())
    }
}

/// The answer about a pod with the verdict of each node. Checks that the view of domains, which
/// does not look at each node, gives the same reasons and counts.
async fn filter(server: &Server, snapshot: &str, pod: &Pod) -> FilterResponse {
    let ask = |view| request(snapshot, pod, view, NodeChecks::Unspecified);
    let answer = server.filter(ask(View::Full)).await;
    reasons::check(&answer.infeasible, &answer.reasons);
    let tallied = server.filter(ask(View::Domains)).await;
    assert_eq!(tallied.reasons, answer.reasons, "{snapshot}");
    assert_eq!(tallied.feasible_count, answer.feasible_count, "{snapshot}");
    answer
}

/// Checks that a gated pod is refused by all nodes for its gates, and only that pod, and that room
/// does not matter where it is not asked about.
async fn check_gates(server: &Server, snapshot: &str, case: &Case, gated: bool) {
    let whole = filter(server, snapshot, &case.pod).await;
    let waits = |it: &str| it.starts_with("waiting for scheduling gates");
    assert_eq!(
        whole.reasons.iter().any(|it| waits(&it.reason)),
        gated,
        "{snapshot}"
    );
    if gated {
        assert_eq!(
            whole.reasons[0].count as usize,
            case.cluster.nodes.len(),
            "{snapshot}"
        );
    }
    let spread = request(snapshot, &case.pod, View::Full, NodeChecks::SpreadOnly);
    let spread = server.filter(spread).await;
    assert_eq!(
        spread.feasible_count as usize,
        case.cluster.nodes.len(),
        "{snapshot}"
    );
}

/// Checks that Place picks the same nodes as the oracle, which picks one after the other.
pub(super) async fn check_place(server: &Server, snapshot: &str, cluster: &Cluster, pod: &Pod) {
    let replicas = 5;
    let request = PlaceRequest {
        snapshot: snapshot.to_owned(),
        ..place_of(pod.clone(), replicas)
    };
    let expected = cluster.place(&request);
    let placed = server.place(request).await;
    let nodes = placed.placements.iter().map(|pick| &pick.node);
    let wanted = expected.iter().map(|pick| &pick.node);
    assert!(nodes.eq(wanted), "{snapshot}: {placed:?} {expected:?}");
    assert_eq!(placed.unplaced, replicas - expected.len() as i32);
}

/// The verdicts of an answer.
pub(super) fn verdicts(answer: &FilterResponse) -> Verdicts {
    let passed = answer.feasible.iter();
    let passed = passed.map(|name| (name.clone(), (Verdict::of(None, Vec::new()), false)));
    let refused = answer.infeasible.iter().map(|refused: &NodeVerdict| {
        let reasons = refused.reason.split(", ").map(str::to_owned).collect();
        let verdict = Verdict::of(Some(refused.code()), reasons);
        (refused.node.clone(), (verdict, refused.nominated_pods > 0))
    });
    passed.chain(refused).collect()
}

/// The verdicts of the oracle.
fn recounted(cluster: &Cluster, pod: &Pod) -> Verdicts {
    let answer = cluster.filter(pod, None, NodeChecks::Unspecified);
    let verdict = |judged: NodeRecount| {
        let refusal: Option<Rejection> = judged.refusal;
        let by_nominated = refusal.as_ref().is_some_and(|it| it.nominated_pods > 0);
        let verdict = match refusal {
            None => Verdict::of(None, Vec::new()),
            Some(refusal) => Verdict::of(Some(refusal.code), refusal.reasons),
        };
        (judged.node, (verdict, by_nominated))
    };
    answer.verdicts.into_iter().map(verdict).collect()
}

#[tokio::test]
async fn server_finds_room_like_kube_scheduler() {
    ROOM.check_server().await;
}

#[test]
fn oracle_finds_room_like_kube_scheduler() {
    ROOM.check_oracle();
}

#[tokio::test]
async fn server_judges_with_nominated_pods_like_kube_scheduler() {
    NOMINATED.check_server().await;
}

#[test]
fn oracle_judges_with_nominated_pods_like_kube_scheduler() {
    NOMINATED.check_oracle();
    // Without such cases the tests would prove nothing about nominated pods.
    let cases = NOMINATED.cases();
    let wanted = cases.iter().flat_map(Judged::wanted);
    let by_nominated = wanted.filter(|(_, (_, by_nominated))| *by_nominated);
    assert!(by_nominated.count() > 50);
}

#[tokio::test]
async fn server_judges_volumes_like_kube_scheduler() {
    VOLUMES.check_server().await;
}

#[test]
fn oracle_judges_volumes_like_kube_scheduler() {
    VOLUMES.check_oracle();
}

#[tokio::test]
async fn server_judges_affinity_and_features_like_kube_scheduler() {
    AFFINITY.check_server().await;
}

#[test]
fn oracle_judges_affinity_and_features_like_kube_scheduler() {
    AFFINITY.check_oracle();
}

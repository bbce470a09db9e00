//! A pod that is checked in its bytes fares like one that is decoded first.

use std::collections::BTreeMap;

use fastrand::Rng;
use prost::bytes::{Buf, Bytes};
use prost::encoding::{WireType, encode_key, encode_varint};

use super::super::pod_message::PodMessage;
use super::*;
use crate::matching::Requests;
use crate::proto::encoding::Fields;
use crate::snapshot::Batch;

const TEXTS: [&[u8]; 14] = [
    b"web-1",
    b"a",
    b"a.b-c",
    b"zone",
    b"Upper",
    b"example.com/app",
    b"",
    b"a..b",
    b"-a",
    b"under_score",
    "\u{e4}".as_bytes(),
    b"\xff",
    b"line\nbreak",
    b"1f0c6a1e-8a3b-4c5d-9e7f-0123456789ab",
];

/// A length that exceeds the default limit of a string.
const OVERLONG: usize = 4_097;

/// A message in the making.
struct Pieces<'r> {
    rng: &'r mut Rng,
    all: Vec<Vec<u8>>,
}

impl Pieces<'_> {
    fn new(rng: &mut Rng) -> Pieces<'_> {
        Pieces {
            rng,
            all: Vec::new(),
        }
    }

    /// Returns true once in `times` calls on average.
    fn seldom(&mut self, times: usize) -> bool {
        self.rng.usize(..times) == 0
    }

    /// Adds a field with bytes, seldom twice or as something else.
    fn bytes(&mut self, number: u32, content: &[u8]) {
        let mut piece = Vec::new();
        if self.seldom(200) {
            encode_key(number, WireType::Varint, &mut piece);
            encode_varint(self.rng.u64(..), &mut piece);
        } else {
            encode_key(number, WireType::LengthDelimited, &mut piece);
            encode_varint(content.len() as u64, &mut piece);
            piece.extend_from_slice(content);
        }
        if self.seldom(100) {
            self.all.push(piece.clone());
        }
        self.all.push(piece);
    }

    /// Adds a field that is often valid, and may not be there.
    fn text(&mut self, number: u32, likely: &[&[u8]]) {
        let text = match self.rng.usize(..40) {
            0..4 => return,
            4 => *self.rng.choice(&TEXTS).expect("some"),
            _ => *self.rng.choice(likely).expect("some"),
        };
        self.bytes(number, text);
    }

    /// Adds, seldom, an unknown field.
    fn unknown(&mut self) {
        if self.seldom(60) {
            self.bytes(77, b"unknown");
        }
    }

    /// The message, its fields often in order.
    fn message(mut self) -> Vec<u8> {
        if self.seldom(4) {
            self.rng.shuffle(&mut self.all);
        }
        self.all.concat()
    }
}

fn label(rng: &mut Rng) -> Vec<u8> {
    let mut pieces = Pieces::new(rng);
    pieces.text(1, &[b"app", b"tier", b"example.com/part", b"zone"]);
    pieces.text(2, &[b"web", b"", b"db", b"A_1"]);
    pieces.unknown();
    pieces.message()
}

fn metadata(rng: &mut Rng) -> Vec<u8> {
    let labels: Vec<_> = (0..rng.usize(..4)).map(|_| label(rng)).collect();
    let seconds = *rng.choice(&[0, 1_700_000_000, i64::MAX]).expect("some");
    let mut pieces = Pieces::new(rng);
    pieces.text(1, &[b"web-1", b"web-2", b"a.b"]);
    pieces.text(3, &[b"prod", b""]);
    pieces.text(
        5,
        &[TEXTS[13], b"", b"1F0C6A1E-8A3B-4C5D-9E7F-0123456789AB"],
    );
    if pieces.seldom(60) {
        pieces.bytes(5, &[b'u'; OVERLONG]);
    }
    if pieces.seldom(10) {
        pieces.text(6, &[b"42", b"\xff"]);
    }
    if pieces.seldom(10) {
        let time = pbjson_types::Timestamp { seconds, nanos: 5 };
        pieces.bytes(9, &time.encode_to_vec());
        // A time may come in two parts.
        if pieces.seldom(4) {
            pieces.bytes(9, &[8, 7]);
        }
    }
    labels.iter().for_each(|label| pieces.bytes(11, label));
    if pieces.seldom(8) {
        let owner = v1::OwnerReference {
            kind: "ReplicaSet".into(),
            name: "web".into(),
            ..v1::OwnerReference::default()
        };
        pieces.bytes(13, &owner.encode_to_vec());
    }
    pieces.unknown();
    pieces.message()
}

fn affinity(node: &str) -> v1::Affinity {
    let required = v1::NodeSelector {
        node_selector_terms: vec![v1::NodeSelectorTerm {
            match_fields: vec![v1::NodeSelectorRequirement {
                key: "metadata.name".into(),
                operator: "In".into(),
                values: vec![node.into()],
            }],
            ..v1::NodeSelectorTerm::default()
        }],
    };
    v1::Affinity {
        node_affinity: Some(v1::NodeAffinity {
            required_during_scheduling_ignored_during_execution: Some(required),
            ..v1::NodeAffinity::default()
        }),
        ..v1::Affinity::default()
    }
}

/// Adds, seldom, a container.
fn container(pieces: &mut Pieces<'_>) {
    if pieces.seldom(4) {
        let cpu = *pieces.rng.choice(&["100m", "2", "lots"]).expect("some");
        let quantity = v1::Quantity { string: cpu.into() };
        let container = v1::Container {
            resources: Some(v1::ResourceRequirements {
                requests: BTreeMap::from([("cpu".to_owned(), quantity)]),
            }),
            ..v1::Container::default()
        };
        pieces.bytes(2, &container.encode_to_vec());
    }
}

fn spec(rng: &mut Rng) -> Vec<u8> {
    let mut pieces = Pieces::new(rng);
    pieces.text(10, &[b"node-1", b"node-2"]);
    container(&mut pieces);
    if pieces.seldom(6) {
        let node = *pieces.rng.choice(&["node-1", "node-3"]).expect("some");
        pieces.bytes(18, &affinity(node).encode_to_vec());
    }
    if pieces.seldom(6) {
        pieces.bytes(22, b"");
    }
    if pieces.seldom(10) {
        pieces.text(24, &[b"high"]);
    }
    pieces.unknown();
    pieces.message()
}

fn status(rng: &mut Rng) -> Vec<u8> {
    let mut pieces = Pieces::new(rng);
    pieces.text(1, &[b"Running", b"Pending", b"Failed"]);
    if pieces.seldom(8) {
        pieces.text(11, &[b"node-1"]);
    }
    // A condition has the number that a container has in the spec.
    container(&mut pieces);
    pieces.unknown();
    pieces.message()
}

fn pod(rng: &mut Rng) -> Vec<u8> {
    let parts = [(1, metadata(rng)), (2, spec(rng)), (3, status(rng))];
    let mut pieces = Pieces::new(rng);
    for (number, part) in parts {
        if !pieces.seldom(20) {
            pieces.bytes(number, &part);
        }
    }
    pieces.unknown();
    let mut pod = pieces.message();
    if rng.usize(..100) == 0 {
        pod.truncate(rng.usize(..=pod.len()));
    }
    pod
}

/// The result of checking a pod.
#[derive(Debug, PartialEq)]
enum CheckOutcome {
    Unreadable,
    Refused(String),
    Taken(Box<Taken>),
}

#[derive(Debug, PartialEq)]
struct Taken {
    /// The pod as a journal keeps it.
    message: v1::Pod,
    /// The pod as it is kept and shown: identity, phase, times.
    kept: v1::Pod,
    asks: Option<Vec<u8>>,
    requests: Option<Requests>,
}

fn checked_in_bytes(check: &mut PodCheck<'_>, bytes: &[u8]) -> CheckOutcome {
    let mut faults = Violations::default();
    let pod = check.check(bytes, Path::root("pod"), &mut faults);
    match pod {
        Err(_) => CheckOutcome::Unreadable,
        Ok(Some(pod)) if faults.is_empty() => CheckOutcome::Taken(Box::new(Taken {
            message: {
                let mut message = Vec::new();
                PodMessage::of(&pod).put(&mut message);
                v1::Pod::decode(&*message).expect("a pod")
            },
            kept: pod.life.to_wire(v1::ObjectMeta::default(), ""),
            asks: pod.asks().map(|asks| asks.encoded.to_vec()),
            requests: pod.requests().map(|requests| Requests::clone(requests)),
        })),
        Ok(pod) => {
            assert!(pod.is_none() || !faults.is_empty(), "a pod or its faults");
            CheckOutcome::Refused(faults.to_string())
        }
    }
}

fn decoded_first(limits: &Limits, bytes: &[u8]) -> CheckOutcome {
    let Ok(pod) = v1::Pod::decode(bytes) else {
        return CheckOutcome::Unreadable;
    };
    let mut faults = Violations::default();
    let check = PodCheck::new(limits);
    let asks = check.check_decoded(&pod, Path::root("pod"), &mut faults);
    let Some(asks) = asks else {
        return CheckOutcome::Refused(faults.to_string());
    };
    let metadata = pod.metadata.clone().unwrap_or_default();
    let status = pod.status.clone().unwrap_or_default();
    CheckOutcome::Taken(Box::new(Taken {
        kept: v1::Pod {
            metadata: Some(v1::ObjectMeta {
                uid: metadata.uid.clone(),
                deletion_timestamp: metadata.deletion_timestamp,
                ..v1::ObjectMeta::default()
            }),
            spec: Some(v1::PodSpec::default()),
            status: Some(v1::PodStatus {
                phase: status.phase.clone(),
                nominated_node_name: status.nominated_node_name.clone(),
                ..v1::PodStatus::default()
            }),
        },
        asks: asks.chosen.as_ref().map(|asks| asks.encoded.to_vec()),
        requests: asks
            .chosen
            .and_then(|asks| asks.read.requests.as_deref().cloned()),
        message: v1::Pod {
            metadata: Some(v1::ObjectMeta {
                namespace: names::namespace_or_default(&metadata.namespace).to_owned(),
                resource_version: String::new(),
                ..metadata.clone()
            }),
            spec: Some(v1::PodSpec {
                containers: RequestsByVersion::of(&pod)
                    .newest
                    .to_wire()
                    .into_iter()
                    .collect(),
                priority_class_name: String::new(),
                ..pod.spec.clone().unwrap_or_default()
            }),
            status: Some(v1::PodStatus {
                conditions: Vec::new(),
                ..status
            }),
        },
    }))
}

#[test]
fn a_pod_fares_the_same_in_its_bytes_and_decoded() {
    let dns = Limits::default();
    let any = Limits {
        node_names: crate::limits::NodeNames::Any,
        ..dns.clone()
    };
    let (mut taken, mut refused, mut unreadable, mut in_place) = (0, 0, 0, 0);
    for seed in 0..800 {
        let mut rng = Rng::with_seed(seed);
        let limits = if seed % 2 == 0 { &any } else { &dns };
        // The check knows requirements from earlier pods.
        let mut check = PodCheck::new(limits);
        for _ in 0..8 {
            let bytes = pod(&mut rng);
            let fate = checked_in_bytes(&mut check, &bytes);
            assert_eq!(fate, decoded_first(limits, &bytes), "{seed}: {bytes:02x?}");
            if let CheckOutcome::Taken(taken) = &fate {
                let again = taken.message.encode_to_vec();
                assert_eq!(fate, checked_in_bytes(&mut check, &again), "{seed}");
            }
            in_place += usize::from(
                PodParts::find(&bytes, &mut Vec::new(), LabelSpans::default()).is_some(),
            );
            match fate {
                CheckOutcome::Taken(_) => taken += 1,
                CheckOutcome::Refused(_) => refused += 1,
                CheckOutcome::Unreadable => unreadable += 1,
            }
        }
    }
    // All outcomes occur often.
    let each = [taken, refused, unreadable, in_place];
    assert!(each.iter().all(|times| *times > 150), "{each:?}");
    assert!(in_place < 6_200, "{in_place} of 6,400");
}

/// The changes of a batch as a journal keeps them.
fn written(batch: &Batch) -> Vec<u8> {
    let mut bytes = Vec::new();
    batch.changes().for_each(|change| change.encode(&mut bytes));
    bytes
}

#[test]
fn a_change_fares_the_same_encoded_and_decoded() {
    let limits = Limits::default();
    let path = Path::root("changes");
    for seed in 0..800 {
        let mut rng = Rng::with_seed(seed);
        let reference = v1::ObjectReference {
            kind: "Pod".into(),
            name: "web-1".into(),
            ..v1::ObjectReference::default()
        };
        let pod = pod(&mut rng);
        let mut pieces = Pieces::new(&mut rng);
        if !pieces.seldom(3) {
            pieces.bytes(2, &pod);
        }
        if pieces.seldom(3) {
            pieces.bytes(15, &reference.encode_to_vec());
        }
        pieces.unknown();
        let bytes = Bytes::from(pieces.message());
        let encoded = Batch::read(vec![bytes.clone()], &limits, path);
        let Ok(decoded) = v1::Change::decode(bytes.chunk()) else {
            let faults = encoded.expect_err("it cannot be read").to_string();
            assert!(
                faults.starts_with("changes[0]: cannot be read:"),
                "{faults}"
            );
            continue;
        };
        match (encoded, Batch::check(vec![decoded.clone()], &limits, path)) {
            (Ok(batch), Ok(same)) => {
                assert_eq!(written(&batch), written(&same), "{seed}");
            }
            (Err(faults), Err(same)) => assert_eq!(faults.to_string(), same.to_string()),
            // A received change without a known kind is skipped; elsewhere it is refused.
            (Ok(batch), Err(_)) if decoded.object.is_none() => {
                assert_eq!((batch.is_empty(), batch.skipped), (true, 1), "{seed}");
            }
            (_, same) => panic!("{seed}: {bytes:02x?}: {same:?}"),
        }
    }
}

use super::*;
use crate::proto::v1;

fn request(weights: &DecodedSizes, method: &str) -> RequestLayout {
    let path = format!("/evenkeel.v1.SpreadService/{method}");
    weights.request(&path).expect("a method of the service")
}

fn weight(weights: &DecodedSizes, method: &str, message: &impl Message) -> usize {
    let mut bytes = vec![0; HEAD];
    message.encode(&mut bytes).expect("there is room");
    weights
        .of(request(weights, method), &bytes)
        .expect("no list is too long")
}

#[test]
fn structs_are_no_larger_than_told() {
    let weights = DecodedSizes::new(&Limits::default()).expect("descriptors");
    let empty = [
        ("Filter", size_of::<v1::FilterRequest>()),
        ("Place", size_of::<v1::PlaceRequest>()),
        ("UpdateSnapshot", size_of::<v1::UpdateSnapshotRequest>()),
        ("StreamSnapshot", size_of::<v1::StreamSnapshotRequest>()),
        ("DescribeSpread", size_of::<v1::DescribeSpreadRequest>()),
    ];
    for (method, size) in empty {
        let told = weight(&weights, method, &v1::FilterRequest::default());
        assert!(told >= size, "{method}: {size} bytes, told {told}");
        assert!(told <= 2 * size, "{method}: {size} bytes, told {told}");
    }
}

#[test]
fn lists_of_nothing_weigh_what_they_become() {
    let weights = DecodedSizes::new(&Limits::default()).expect("descriptors");
    let count = 10_000;
    let tolerations = v1::FilterRequest {
        pod: Some(v1::Pod {
            spec: Some(v1::PodSpec {
                tolerations: vec![v1::Toleration::default(); count],
                ..v1::PodSpec::default()
            }),
            ..v1::Pod::default()
        }),
        ..v1::FilterRequest::default()
    };
    let told = weight(&weights, "Filter", &tolerations);
    assert!(told >= count * size_of::<v1::Toleration>());
    assert!(told <= 4 * count * size_of::<v1::Toleration>());
    let changes = v1::UpdateSnapshotRequest {
        changes: vec![v1::Change::default(); count],
        ..v1::UpdateSnapshotRequest::default()
    };
    let told = weight(&weights, "UpdateSnapshot", &changes);
    assert!(told >= count * size_of::<v1::Change>());
    assert!(told <= 4 * count * size_of::<v1::Change>());
    let names = v1::FilterRequest {
        candidates: Some(v1::NodeNames {
            names: vec![String::new(); count],
        }),
        ..v1::FilterRequest::default()
    };
    let told = weight(&weights, "Filter", &names);
    assert!(told >= count * size_of::<String>());
}

/// Writes a part of a message.
type WritesPart<'a> = &'a dyn Fn(&mut Vec<u8>);

/// Returns the fault of a message that comes in parts, where lists have at most three entries.
fn refusal(method: &str, parts: &[WritesPart<'_>]) -> String {
    let limits = Limits {
        max_list_entries: 3,
        ..Limits::default()
    };
    let weights = DecodedSizes::new(&limits).expect("descriptors");
    let mut bytes = vec![0; HEAD];
    for part in parts {
        part(&mut bytes);
    }
    let refused = weights.of(request(&weights, method), &bytes);
    refused.map_or_else(|faults| faults.to_string(), |_| String::new())
}

fn encode(message: &impl Message, to: &mut Vec<u8>) {
    message.encode(to).expect("there is room");
}

fn with_tolerations(count: usize) -> v1::Pod {
    v1::Pod {
        spec: Some(v1::PodSpec {
            tolerations: vec![v1::Toleration::default(); count],
            ..v1::PodSpec::default()
        }),
        ..v1::Pod::default()
    }
}

fn about(pod: v1::Pod) -> v1::FilterRequest {
    v1::FilterRequest {
        pod: Some(pod),
        ..v1::FilterRequest::default()
    }
}

fn overlaid(pod: v1::Pod) -> v1::FilterRequest {
    let change = v1::Change {
        object: Some(v1::change::Object::Pod(pod)),
    };
    v1::FilterRequest {
        overlay: vec![change],
        ..v1::FilterRequest::default()
    }
}

#[test]
fn a_list_in_several_parts_is_one() {
    let (two, three) = (about(with_tolerations(2)), about(with_tolerations(3)));
    assert_eq!(refusal("Filter", &[&|to| encode(&three, to)]), "");
    let told = "pod.spec.tolerations: has too many entries, over max-list-entries of 3";
    let two = |to: &mut Vec<u8>| encode(&two, to);
    assert_eq!(refusal("Filter", &[&two, &two]), told);
    // The result is the same if parts of another pod come in between.
    let other = overlaid(with_tolerations(3));
    let other = |to: &mut Vec<u8>| encode(&other, to);
    assert_eq!(refusal("Filter", &[&two, &other]), "");
    assert_eq!(refusal("Filter", &[&two, &other, &two]), told);
}

#[test]
fn lists_of_several_elements_are_several() {
    let overlaid = |count| {
        move |to: &mut Vec<u8>| {
            encode(&overlaid(with_tolerations(count)), to);
        }
    };
    assert_eq!(refusal("Filter", &[&overlaid(3), &overlaid(3)]), "");
    let told = "overlay[1].pod.spec.tolerations: has too many entries, over \
                max-list-entries of 3";
    assert_eq!(refusal("Filter", &[&overlaid(3), &overlaid(4)]), told);
}

#[test]
fn an_object_in_several_parts_is_one() {
    let annotated = |bytes: usize| {
        let text = ("note".to_owned(), "x".repeat(bytes));
        let metadata = v1::ObjectMeta {
            annotations: [text].into(),
            ..v1::ObjectMeta::default()
        };
        v1::Pod {
            metadata: Some(metadata),
            ..v1::Pod::default()
        }
    };
    let question = |pod| {
        let ask = v1::question::Ask::Filter(about(pod));
        let question = v1::Question {
            ask: Some(ask),
            ..v1::Question::default()
        };
        v1::DecideRequest {
            step: Some(v1::decide_request::Step::Question(question)),
        }
    };
    let (small, large) = (2 << 20, (3 << 20) + 1);
    let told = |field| format!("{field}: is too long, over object-bytes of {}", 3 << 20);
    let part = |message: &v1::FilterRequest, to: &mut Vec<u8>| encode(message, to);
    let pod = |to: &mut Vec<u8>| part(&about(annotated(small)), to);
    let change = |to: &mut Vec<u8>| part(&overlaid(annotated(small)), to);
    assert_eq!(refusal("Filter", &[&pod, &change, &change]), "");
    assert_eq!(refusal("Filter", &[&pod, &change, &pod]), told("pod"));
    let larger = |to: &mut Vec<u8>| part(&overlaid(annotated(large)), to);
    let refused = refusal("Filter", &[&pod, &change, &larger]);
    assert_eq!(refused, told("overlay[1].pod"));
    let asked = |to: &mut Vec<u8>| encode(&question(annotated(small)), to);
    let refused = refusal("Decide", &[&asked, &asked]);
    assert_eq!(refused, told("question.filter.pod"));
}

#[test]
fn maps_and_packed_numbers_are_lists() {
    let labels = (0..4).map(|n| (format!("key-{n}"), String::new()));
    let pod = v1::Pod {
        metadata: Some(v1::ObjectMeta {
            labels: labels.collect(),
            ..v1::ObjectMeta::default()
        }),
        ..v1::Pod::default()
    };
    let told = "pod.metadata.labels: has too many entries, over max-list-entries of 3";
    assert_eq!(
        refusal("Filter", &[&|to| encode(&about(pod.clone()), to)]),
        told
    );
    let limits = Limits {
        max_list_entries: 3,
        ..Limits::default()
    };
    let mut weights = DecodedSizes::new(&limits).expect("descriptors");
    // No request has a packed list yet, so the test takes an answer.
    let at = weights.layouts.iter().position(|layout| {
        let fields = layout.fields.iter().flatten();
        fields.clone().any(|field| field.name == "packedScores")
    });
    weights
        .requests
        .insert("packed".to_owned(), at.expect("an answer has one"));
    let packed = |count| {
        let scores = v1::ScoreResponse {
            packed_scores: vec![-1; count],
            ..v1::ScoreResponse::default()
        };
        let mut bytes = vec![0; HEAD];
        encode(&scores, &mut bytes);
        let layout = weights.request("packed").expect("it was inserted");
        weights.of(layout, &bytes)
    };
    assert!(packed(3).is_ok());
    assert!(packed(4).is_err());
}

#[test]
fn no_bytes_are_too_strange() {
    let weights = DecodedSizes::new(&Limits::default()).expect("descriptors");
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..2_000 {
        let bytes: Vec<u8> = (0..random.usize(..200)).map(|_| random.u8(..)).collect();
        let _ = weights.of(request(&weights, "Filter"), &bytes);
    }
}

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

/// Returns the fault of a message of several parts, where lists have at most three entries.
fn refusal(parts: &[v1::FilterRequest]) -> String {
    let limits = Limits {
        max_list_entries: 3,
        ..Limits::default()
    };
    let weights = DecodedSizes::new(&limits).expect("descriptors");
    let mut bytes = vec![0; HEAD];
    for part in parts {
        part.encode(&mut bytes).expect("there is room");
    }
    let refused = weights.of(request(&weights, "Filter"), &bytes);
    refused.map_or_else(|error| error.to_string(), |_| String::new())
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
fn a_list_has_a_limit_in_each_element() {
    let told = "pod.spec.tolerations: has too many entries, over max-list-entries of 3";
    assert_eq!(refusal(&[about(with_tolerations(3))]), "");
    assert_eq!(refusal(&[about(with_tolerations(4))]), told);
    let three = || overlaid(with_tolerations(3));
    assert_eq!(refusal(&[three(), three(), about(with_tolerations(3))]), "");
    let told = "overlay[1].pod.spec.tolerations: has too many entries, over \
                max-list-entries of 3";
    assert_eq!(refusal(&[three(), overlaid(with_tolerations(4))]), told);
    let told = "overlay: has too many entries, over max-list-entries of 3";
    assert_eq!(refusal(&[three(), three(), three(), three()]), told);
}

/// A decoder puts the parts of a message together, and so their lists.
#[test]
fn a_list_in_several_parts_is_one() {
    let part = |count| about(with_tolerations(count));
    let told = "pod.spec.tolerations: has too many entries, over max-list-entries of 3";
    assert_eq!(refusal(&[part(1), part(1), part(1)]), "");
    assert_eq!(refusal(&[part(2), part(2)]), told);
    assert_eq!(refusal(&[part(1), part(0), part(1), part(2)]), told);
}

#[test]
fn an_object_has_a_limit() {
    let annotated = |bytes: usize| v1::Pod {
        metadata: Some(v1::ObjectMeta {
            annotations: [("note".to_owned(), "x".repeat(bytes))].into(),
            ..v1::ObjectMeta::default()
        }),
        ..v1::Pod::default()
    };
    let (small, large) = (2 << 20, (3 << 20) + 1);
    let told = |field| format!("{field}: is too long, over object-bytes of {}", 3 << 20);
    let fits = [about(annotated(small)), overlaid(annotated(small))];
    assert_eq!(refusal(&fits), "");
    assert_eq!(refusal(&[about(annotated(large))]), told("pod"));
    let second = [overlaid(annotated(small)), overlaid(annotated(large))];
    assert_eq!(refusal(&second), told("overlay[1].pod"));
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
    assert_eq!(refusal(&[about(pod)]), told);
    // No request has a packed list yet, so the test takes an answer.
    let limits = Limits {
        max_list_entries: 3,
        ..Limits::default()
    };
    let mut weights = DecodedSizes::new(&limits).expect("descriptors");
    let at = weights.layouts.iter().position(|layout| {
        let fields = layout.fields.iter().flatten();
        fields.clone().any(|field| field.name == "packedScores")
    });
    weights
        .requests
        .insert("packed".to_owned(), at.expect("an answer has one"));
    let packed = |count| {
        let scores = v1::ScoreResponse {
            packed_scores: vec![1; count],
            ..v1::ScoreResponse::default()
        };
        let mut bytes = vec![0; HEAD];
        scores.encode(&mut bytes).expect("there is room");
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

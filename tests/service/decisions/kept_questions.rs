//! Questions that the server keeps: they change no answer and no refusal, whatever the bytes of the
//! request, and are valid no longer than the state that they depend on.

use bytes::Bytes;
use evenkeel::proto::v1::{Change, DefaultConstraints, FilterRequest, NodeNames, Pod, View};
use proptest::collection::vec;
use proptest::prelude::*;
use prost::Message;

use support::asked::{Asked, UNTIL_KEPT, ZONE, cluster, same};
use support::build::{defaults_of, hard, labelled, node, pod, requirement, service, soft, spread};
use support::model::{Stored, delete};

/// Pods of all kinds: valid ones, one with faults, and an empty one.
fn pods() -> Vec<Pod> {
    let web = pod("", &[("app", "web")]);
    let two = vec![
        hard(1, ZONE, &[("app", "web")]),
        soft(2, "kubernetes.io/hostname", &[("app", "web")]),
    ];
    let mut wrong = spread(web.clone(), vec![hard(0, "", &[])]);
    wrong.metadata.get_or_insert_default().namespace = "Wrong!".into();
    let mut odd = hard(1, ZONE, &[]);
    odd.label_selector = Some(evenkeel::proto::v1::LabelSelector {
        match_expressions: vec![requirement("app", "In", &["web", "db"])],
        ..labelled(&[])
    });
    vec![
        spread(web.clone(), vec![hard(1, ZONE, &[("app", "web")])]),
        spread(web.clone(), two),
        spread(web.clone(), vec![odd]),
        web,
        wrong,
        Pod::default(),
    ]
}

/// A field of a request, or bytes that only resemble one.
fn field() -> impl Strategy<Value = Vec<u8>> {
    let of = |request: FilterRequest| request.encode_to_vec();
    let pod = (0..pods().len()).prop_map(move |at| {
        let pod = Some(pods().swap_remove(at));
        of(FilterRequest {
            pod,
            ..FilterRequest::default()
        })
    });
    let name = prop_oneof![Just("default"), Just("absent"), Just("grpc.no")];
    let name = name.prop_map(move |snapshot| {
        let snapshot = snapshot.to_owned();
        of(FilterRequest {
            snapshot,
            ..FilterRequest::default()
        })
    });
    let number = (
        prop_oneof![Just(4_u8), Just(5), Just(6), Just(8), Just(9), Just(10)],
        0..8_u8,
    );
    let number = number.prop_map(|(tag, value)| vec![tag << 3, value]);
    let candidates = vec(
        prop_oneof![Just("n1"), Just("n4"), Just("n9"), Just("")],
        0..4,
    );
    let candidates = candidates.prop_map(move |names| {
        let names = names.into_iter().map(str::to_owned).collect();
        let candidates = Some(NodeNames { names });
        of(FilterRequest {
            candidates,
            ..FilterRequest::default()
        })
    });
    let overlay = Just(of(FilterRequest {
        overlay: vec![node("n5", &[(ZONE, "d")]).change()],
        ..FilterRequest::default()
    }));
    prop_oneof![
        8 => pod,
        1 => name,
        4 => number,
        2 => candidates,
        1 => overlay,
        1 => vec(any::<u8>(), 0..6),
        // Unknown fields: a group here, a text and eight bytes below.
        1 => Just(vec![0xf3, 0x01, 0xf4, 0x01]),
        // A `top` below 0, which only Score knows.
        2 => Just(vec![0x50, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]),
        1 => Just(vec![0xfa, 0x01, 0x01, b'x']),
        1 => Just(vec![0xf9, 0x01, 1, 2, 3, 4, 5, 6, 7, 8]),
    ]
}

/// Requests: fields in any order, at times cut off or with a byte of another
/// value.
fn request() -> impl Strategy<Value = Vec<u8>> {
    let fault = proptest::option::weighted(0.3, (any::<u16>(), any::<u8>(), any::<bool>()));
    (vec(field(), 0..6), fault).prop_map(|(fields, fault)| {
        let mut bytes = fields.concat();
        if let Some((at, value, cuts)) = fault
            && !bytes.is_empty()
        {
            let at = usize::from(at) % bytes.len();
            bytes[at] = value;
            if cuts {
                bytes.truncate(at);
            }
        }
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 24,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn what_is_kept_changes_no_answer_and_no_refusal(requests in vec(request(), 1..24)) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let [keeping, forgetful] = Asked::both();
            for asked in [&keeping, &forgetful] {
                asked.update(cluster(), None).await;
            }
            for pod in pods() {
                let request = FilterRequest { pod: Some(pod), ..FilterRequest::default() };
                for _ in 0..UNTIL_KEPT {
                    let _ = keeping.filter(request.encode_to_vec().into()).await;
                }
            }
            for request in requests {
                let bytes = Bytes::from(request);
                for _ in 0..UNTIL_KEPT {
                    let (got, want) = (keeping.filter(bytes.clone()).await, forgetful.filter(bytes.clone()).await);
                    same(&got, &want, &bytes);
                    let (got, want) = (keeping.score(bytes.clone()).await, forgetful.score(bytes.clone()).await);
                    same(&got, &want, &bytes);
                }
            }
            assert_eq!(forgetful.hits(), 0);
        });
    }
}

#[tokio::test]
async fn a_question_that_comes_again_is_kept() {
    let [keeping, forgetful] = Asked::both();
    for asked in [&keeping, &forgetful] {
        asked.update(cluster(), None).await;
        for times in 0..10 {
            let request = FilterRequest {
                pod: pods().into_iter().next(),
                view: times % 4,
                ..FilterRequest::default()
            };
            asked
                .filter(request.encode_to_vec().into())
                .await
                .expect("a valid request");
        }
    }
    assert_eq!((keeping.hits(), forgetful.hits()), (8, 0));
}

/// A default constraint.
fn list(skew: i32) -> DefaultConstraints {
    defaults_of(vec![hard(skew, ZONE, &[])])
}

#[tokio::test]
async fn a_question_is_kept_for_all_snapshots() {
    let [keeping, forgetful] = Asked::both();
    let snapshots = [("one", 1), ("two", 2)];
    for asked in [&keeping, &forgetful] {
        for (snapshot, skew) in snapshots {
            let mut changes = cluster();
            changes.push(service("web", &[("app", "web")]).change());
            asked.update_of(snapshot, changes, Some(list(skew))).await;
        }
    }
    let mut skews = Vec::new();
    for (snapshot, _) in [snapshots; UNTIL_KEPT].concat() {
        let request = FilterRequest {
            snapshot: snapshot.into(),
            pod: Some(pod("", &[("app", "web")])),
            view: View::Full.into(),
            ..FilterRequest::default()
        };
        let bytes = Bytes::from(request.encode_to_vec());
        let want = forgetful.filter(bytes.clone()).await.expect("valid");
        let got = keeping.filter(bytes).await.expect("valid");
        assert_eq!(got, want, "{snapshot}");
        let constraints = got.constraints.iter();
        skews.extend(constraints.map(|it| it.constraint.as_ref().map(|c| c.max_skew)));
    }
    assert_eq!(skews, [Some(1), Some(2)].repeat(UNTIL_KEPT));
    // The question is kept from its second time on, whichever snapshot it is about.
    assert_eq!(keeping.hits(), 4);
}

#[tokio::test]
async fn kept_default_constraints_hold_for_as_long_as_defaults_and_owners() {
    let [keeping, forgetful] = Asked::both();
    let system = DefaultConstraints {
        system: true,
        ..DefaultConstraints::default()
    };
    let steps: Vec<(Vec<Change>, Option<DefaultConstraints>)> = vec![
        (cluster(), None),
        (vec![], Some(list(1))),
        (vec![service("s1", &[("app", "web")]).change()], None),
        (vec![], Some(list(2))),
        (vec![service("s1", &[("app", "db")]).change()], None),
        (vec![service("s2", &[("app", "web")]).change()], None),
        (vec![delete("Service", "default", "s1")], None),
        (vec![], Some(system)),
        (vec![], Some(DefaultConstraints::default())),
    ];
    let request = FilterRequest {
        pod: Some(pod("", &[("app", "web")])),
        view: View::Full.into(),
        ..FilterRequest::default()
    };
    let bytes = Bytes::from(request.encode_to_vec());
    let mut different = Vec::new();
    for (changes, defaults) in steps {
        for asked in [&keeping, &forgetful] {
            asked.update(changes.clone(), defaults.clone()).await;
        }
        for _ in 0..UNTIL_KEPT {
            let want = forgetful.filter(bytes.clone()).await.expect("valid");
            let got = keeping.filter(bytes.clone()).await.expect("valid");
            assert_eq!(got, want);
            let score = keeping.score(bytes.clone()).await.expect("valid");
            assert_eq!(score, forgetful.score(bytes.clone()).await.expect("valid"));
            different.push((got.constraints, score.constraints));
        }
    }
    different.dedup();
    assert!(
        different.len() >= 6,
        "the steps make a difference: {different:?}"
    );
    assert!(keeping.hits() > 0);
}

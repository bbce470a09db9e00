//! Refused requests, after which nothing is held.

use std::time::Duration;

use evenkeel::proto::v1::{
    Change, ConfirmReservationsRequest, Confirmation, Dialect, Holder, NodeBonus, NodeCapacity,
    ObjectReference, PlaceRequest, ReleaseReservationsRequest, Reservation, ReservedPod, View,
    change::Object,
};
use evenkeel::snapshot::Limits;
use tonic::Code;
use tonic_types::StatusExt;

use super::held::{Held, request};

fn reserve(owner: &str, ttl: Option<pbjson_types::Duration>) -> PlaceRequest {
    PlaceRequest {
        reserve: Some(Reservation {
            owner: owner.into(),
            ttl,
        }),
        ..request(1)
    }
}

fn seconds(seconds: i64) -> Option<pbjson_types::Duration> {
    Some(pbjson_types::Duration { seconds, nanos: 0 })
}

#[tokio::test]
async fn faults_are_named() {
    let held = Held::start().await;
    let bonus = |node: &str, score| NodeBonus {
        node: node.into(),
        score,
    };
    let capacity = |replicas| NodeCapacity {
        node: "a".into(),
        replicas,
    };
    let holder = Holder {
        node: "a".into(),
        ..Holder::default()
    };
    let deletion = Change {
        object: Some(Object::Delete(ObjectReference {
            kind: "Pod".into(),
            name: "p".into(),
            ..Default::default()
        })),
    };
    for (fields, request) in [
        (&["replicas"][..], request(-1)),
        (&["replicas"], request(0)),
        (
            &["replicas"],
            PlaceRequest {
                dialect: Dialect::Fleet.into(),
                ..request(-1)
            },
        ),
        (&["reserve.owner"], reserve("", seconds(1))),
        (&["reserve.ttl"], reserve("x", None)),
        (&["reserve.ttl"], reserve("x", seconds(0))),
        (&["reserve.ttl"], reserve("x", seconds(-1))),
        (&["reserve.ttl"], reserve("x", seconds(3_601))),
        (
            &["reserve"],
            PlaceRequest {
                overlay: vec![deletion],
                ..request(1)
            },
        ),
        (
            &["bonuses[1].node", "bonuses[2].node", "bonuses[3].score"],
            PlaceRequest {
                bonuses: vec![
                    bonus("a", 1),
                    bonus("a", 2),
                    bonus("", 3),
                    bonus("b", 1 << 40),
                ],
                ..request(1)
            },
        ),
        (
            &["capacities[0].replicas"],
            PlaceRequest {
                capacities: vec![capacity(-1)],
                ..request(1)
            },
        ),
        (
            &["holders"],
            PlaceRequest {
                holders: vec![holder],
                ..request(1)
            },
        ),
        (
            &["sticky"],
            PlaceRequest {
                sticky: vec!["a".into()],
                ..request(1)
            },
        ),
        (
            &["capacities"],
            PlaceRequest {
                dialect: Dialect::Fleet.into(),
                capacities: vec![capacity(1)],
                ..request(1)
            },
        ),
        (
            &["view"],
            PlaceRequest {
                view: View::Bitmap.into(),
                ..request(1)
            },
        ),
    ] {
        let status = held.server.client().place(request.clone()).await;
        let status = status.expect_err("it is refused");
        assert_eq!(status.code(), Code::InvalidArgument, "{request:?}");
        let details = status.get_error_details();
        let faults = &details
            .bad_request()
            .expect("they are listed")
            .field_violations;
        let named: Vec<&str> = faults.iter().map(|f| &*f.field).collect();
        assert_eq!(named, fields, "{request:?}");
    }
    assert!(held.list().await.is_empty());
}

#[tokio::test]
async fn fleet_refuses_what_does_not_apply() {
    let held = Held::start().await;
    let mut request = PlaceRequest {
        dialect: Dialect::Fleet.into(),
        ..request(1)
    };
    let spec = request
        .pod
        .as_mut()
        .and_then(|pod| pod.spec.as_mut())
        .expect("a spec");
    let constraint = &mut spec.topology_spread_constraints[0];
    constraint.max_skew = -1;
    constraint.min_domains = Some(2);
    constraint.node_affinity_policy = Some("Honor".into());
    constraint.node_taints_policy = Some("Honor".into());
    constraint.match_label_keys = vec!["app".into()];
    constraint.when_unsatisfiable = "Whenever".into();
    let status = held
        .server
        .client()
        .place(request)
        .await
        .expect_err("it is refused");
    let details = status.get_error_details();
    let faults = &details
        .bad_request()
        .expect("they are listed")
        .field_violations;
    let path = "pod.spec.topologySpreadConstraints[0].";
    let named: Vec<&str> = faults
        .iter()
        .map(|f| {
            f.field
                .strip_prefix(path)
                .expect("all are of the constraint")
        })
        .collect();
    let wanted = [
        "maxSkew",
        "minDomains",
        "nodeAffinityPolicy",
        "nodeTaintsPolicy",
        "matchLabelKeys",
        "whenUnsatisfiable",
    ];
    assert_eq!(named, wanted);
}

#[tokio::test]
async fn ids_and_pods_are_checked() {
    let held = Held::start().await;
    let confirmation = |id: &str, name: &str| Confirmation {
        id: id.into(),
        pod: Some(ReservedPod {
            name: name.into(),
            uid: String::new(),
        }),
    };
    let request = ConfirmReservationsRequest {
        confirmations: vec![
            confirmation("x", "web"),
            confirmation("x", "Web!"),
            confirmation("", ""),
        ],
        ..Default::default()
    };
    let status = held.server.client().confirm_reservations(request).await;
    let details = status.expect_err("it is refused").get_error_details();
    let faults = &details
        .bad_request()
        .expect("they are listed")
        .field_violations;
    let named: Vec<&str> = faults.iter().map(|f| &*f.field).collect();
    let path = |i: usize, field: &str| format!("confirmations[{i}].{field}");
    assert_eq!(
        named,
        [
            path(1, "id"),
            path(2, "id"),
            path(1, "pod.name"),
            path(2, "pod")
        ]
    );

    let request = ReleaseReservationsRequest {
        ids: ["nonsense", "x-1", "00000000-1"].map(String::from).to_vec(),
        ..Default::default()
    };
    let released = held
        .server
        .client()
        .release_reservations(request.clone())
        .await;
    assert_eq!(
        released
            .expect("unknown ids are told")
            .into_inner()
            .unknown_ids,
        request.ids
    );
}

#[tokio::test]
async fn limits_are_kept() {
    let held = Held::with_limits(Limits {
        max_reservations: 3,
        max_replicas: 5,
        max_reservation_ttl: Duration::from_secs(3_600),
        ..Limits::default()
    })
    .await;
    held.reserve(2).await;
    for replicas in [2, 6] {
        let status = held.server.client().place(request(replicas)).await;
        let status = status.expect_err("it is over a limit");
        assert_eq!(status.code(), Code::ResourceExhausted);
        let limit = ["max-reservations", "max-replicas"][usize::from(replicas == 6)];
        assert!(status.message().contains(limit), "{}", status.message());
    }
    assert_eq!(held.list().await.len(), 2);
    assert_eq!(held.counts().await, [1, 1]);
    held.reserve(1).await;
}

#[tokio::test]
async fn past_its_deadline_it_holds_nothing() {
    let held = Held::start().await;
    let mut call = tonic::Request::new(request(50_000));
    call.set_timeout(Duration::from_millis(1));
    let status = held.server.client().place(call).await;
    let code = status.expect_err("it takes longer").code();
    assert!(
        matches!(code, Code::DeadlineExceeded | Code::Cancelled),
        "{code:?}"
    );
    assert!(held.list().await.is_empty());
    assert_eq!(held.counts().await, [0, 0]);
}

//! Refused requests, after which nothing is held.

use std::time::Duration;

use evenkeel::proto::v1::{
    ConfirmReservationsRequest, Confirmation, Dialect, Holder, NodeBonus, NodeCapacity,
    PlaceRequest, ReleaseReservationsRequest, Reservation, ReservedPod, View,
};
use evenkeel::snapshot::Limits;
use support::model::delete;
use tonic::Code;

use super::held::{Held, named, request};

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
    let capacity = |replicas| NodeCapacity {
        node: "a".into(),
        replicas,
    };
    let holder = Holder {
        node: "a".into(),
        ..Holder::default()
    };
    let but = |replicas, alter: &dyn Fn(&mut PlaceRequest)| {
        let mut request = request(replicas);
        alter(&mut request);
        request
    };
    let fleet = Dialect::Fleet as i32;
    let bonuses = [("a", 1), ("a", 2), ("", 3), ("b", 1 << 40)];
    let bonuses = bonuses.map(|(node, score)| NodeBonus {
        node: node.into(),
        score,
    });
    for (fields, request) in [
        (&["replicas"][..], request(-1)),
        (&["replicas"], request(0)),
        (&["replicas"], but(-1, &|it| it.dialect = fleet)),
        (&["reserve.owner"], reserve("", seconds(1))),
        (&["reserve.ttl"], reserve("x", None)),
        (&["reserve.ttl"], reserve("x", seconds(0))),
        (&["reserve.ttl"], reserve("x", seconds(-1))),
        (&["reserve.ttl"], reserve("x", seconds(3_601))),
        (
            &["reserve"],
            but(1, &|it| it.overlay = vec![delete("Pod", "", "p")]),
        ),
        (
            &["bonuses[1].node", "bonuses[2].node", "bonuses[3].score"],
            but(1, &|it| it.bonuses = bonuses.to_vec()),
        ),
        (
            &["capacities[0].replicas"],
            but(1, &|it| it.capacities = vec![capacity(-1)]),
        ),
        (
            &["holders"],
            but(1, &|it| it.holders = vec![holder.clone()]),
        ),
        (&["sticky"], but(1, &|it| it.sticky = vec!["a".into()])),
        (
            &["capacities"],
            but(1, &|it| {
                it.dialect = fleet;
                it.capacities = vec![capacity(1)];
            }),
        ),
        (&["view"], but(1, &|it| it.view = View::Bitmap.into())),
    ] {
        let status = held.server.client().place(request.clone()).await;
        let status = status.expect_err("it is refused");
        assert_eq!(status.code(), Code::InvalidArgument, "{request:?}");
        assert_eq!(named(&status), fields, "{request:?}");
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
    let status = held.server.client().place(request).await;
    let status = status.expect_err("it is refused");
    let wanted = [
        "maxSkew",
        "minDomains",
        "nodeAffinityPolicy",
        "nodeTaintsPolicy",
        "matchLabelKeys",
        "whenUnsatisfiable",
    ];
    let path = "pod.spec.topologySpreadConstraints[0].";
    assert_eq!(named(&status), wanted.map(|field| format!("{path}{field}")));
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
    let wanted = ["[1].id", "[2].id", "[1].pod.name", "[2].pod"];
    assert_eq!(
        named(&status.expect_err("it is refused")),
        wanted.map(|path| format!("confirmations{path}"))
    );

    let request = ReleaseReservationsRequest {
        ids: ["nonsense", "x-1", "00000000-1"].map(String::from).to_vec(),
        ..Default::default()
    };
    let mut client = held.server.client();
    let released = client.release_reservations(request.clone()).await;
    let released = released.expect("unknown ids are told").into_inner();
    assert_eq!(released.unknown_ids, request.ids);
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

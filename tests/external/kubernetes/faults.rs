//! An API server in trouble: the server under test is right again within
//! seconds, and never answers from half a list.

use std::sync::Arc;
use std::time::Instant;

use crate::kubernetes::api::Api;
use crate::kubernetes::control_plane::turn;
use crate::kubernetes::evenkeel::Evenkeel;
use crate::kubernetes::filled::{PODS, change, fill};
use crate::kubernetes::witness::{Witness, everybody};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: deploy/tools.sh install_control_plane"]
async fn an_api_server_that_is_killed_and_returns() {
    let mut plane = turn().await;
    let api = Api::connect(&plane.kubeconfig()).await;
    fill(&api).await;
    let evenkeel = Arc::new(Evenkeel::start(&plane.kubeconfig(), &[]));
    evenkeel.agrees_with(&api).await;
    let witness = Witness::start(&evenkeel);
    for turn in 0..2 {
        change(&api, turn * 2).await;
        plane.command("kill kube-apiserver");
        // The server answers from the state before.
        evenkeel.filter(&everybody()).await.expect("an answer");
        plane.command("start kube-apiserver");
        change(&api, turn * 2 + 1).await;
        let start = Instant::now();
        evenkeel.agrees_with(&api).await;
        println!("right again after {:?}", start.elapsed());
    }
    let told = witness.saw_no_less(PODS - 20).await;
    assert_eq!(told.refusals, 0, "{told:?}");
    api.clear().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: deploy/tools.sh install_control_plane"]
async fn a_watch_that_expired_by_compaction() {
    let mut plane = turn().await;
    let api = Api::connect(&plane.kubeconfig()).await;
    fill(&api).await;
    let evenkeel = Arc::new(Evenkeel::start(&plane.kubeconfig(), &[]));
    evenkeel.agrees_with(&api).await;
    evenkeel.server.signal("STOP");
    change(&api, 0).await;
    plane.command("compact");
    // The watch cache of the API server starts anew, and knows nothing older.
    plane.command("kill kube-apiserver");
    plane.command("start kube-apiserver");
    change(&api, 1).await;
    evenkeel.server.signal("CONT");
    let witness = Witness::start(&evenkeel);
    evenkeel.agrees_with(&api).await;
    let told = witness.saw_no_less(PODS - 10).await;
    assert!(told.answers > 0, "{told:?}");
    api.clear().await;
}

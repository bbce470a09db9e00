//! An API server in trouble: the server under test is right again within
//! seconds, and never answers from half a list.

use std::sync::Arc;
use std::time::Instant;

use serde_json::json;

use crate::kubernetes::api::Api;
use crate::kubernetes::control_plane::{ControlPlane, turn};
use crate::kubernetes::evenkeel::Evenkeel;
use crate::kubernetes::filled::{PODS, change, fill};
use crate::kubernetes::process::until;
use crate::kubernetes::proxy::{Cut, Proxy};
use crate::kubernetes::witness::{Witness, everybody};

/// A server that is behind a proxy and knows the whole cluster.
struct Behind {
    api: Api,
    proxy: Proxy,
    evenkeel: Arc<Evenkeel>,
    witness: Witness,
}

impl Behind {
    async fn start(plane: &ControlPlane) -> Self {
        let api = Api::connect(&plane.kubeconfig()).await;
        fill(&api).await;
        let proxy = Proxy::start(api.client(), 1).await;
        let kubeconfig = plane.kubeconfig_for(&proxy.url(), &json!({}));
        let evenkeel = Arc::new(Evenkeel::start(&kubeconfig, &[]));
        let witness = Witness::start(&evenkeel);
        evenkeel.agrees_with(&api).await;
        Self {
            api,
            proxy,
            evenkeel,
            witness,
        }
    }

    /// Waits until the server is right again, and checks that it was never wrong.
    async fn recovers(self, turns: usize) {
        let start = Instant::now();
        self.evenkeel.agrees_with(&self.api).await;
        println!("right again after {:?}", start.elapsed());
        let told = self.witness.saw_no_less(PODS - 5 * turns).await;
        assert!(told.answers > 0, "{told:?}");
        self.api.clear().await;
    }
}

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
    let behind = Behind::start(&plane).await;
    behind.proxy.faults().away = true;
    behind.proxy.cut_watches();
    change(&behind.api, 0).await;
    plane.command("compact");
    // The watch cache of the API server starts anew, and knows nothing older.
    plane.command("kill kube-apiserver");
    plane.command("start kube-apiserver");
    change(&behind.api, 1).await;
    behind.proxy.faults().away = false;
    behind.recovers(2).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: deploy/tools.sh install_control_plane"]
async fn a_connection_that_is_cut_in_the_middle_of_the_first_list() {
    let plane = turn().await;
    let api = Api::connect(&plane.kubeconfig()).await;
    fill(&api).await;
    for cut in [Cut::FirstPage, Cut::LaterPages] {
        let proxy = Proxy::start(api.client(), 1).await;
        proxy.faults().cut = Some(cut);
        let kubeconfig = plane.kubeconfig_for(&proxy.url(), &json!({}));
        let evenkeel = Arc::new(Evenkeel::start(&kubeconfig, &[]));
        let witness = Witness::start(&evenkeel);
        // Each kind is listed, and some kinds again.
        until("lists", || (proxy.begun().0 > 8).then_some(()));
        let early = evenkeel.filter(&everybody()).await;
        assert!(early.is_err(), "{cut:?}: an answer from half a list");
        proxy.faults().cut = None;
        evenkeel.agrees_with(&api).await;
        // A list that is cut later changes no answer.
        proxy.faults().cut = Some(cut);
        proxy.faults().gone = true;
        proxy.cut_watches();
        let (lists, _) = proxy.begun();
        until("lists", || (proxy.begun().0 > lists + 8).then_some(()));
        proxy.faults().gone = false;
        proxy.faults().cut = None;
        evenkeel.agrees_with(&api).await;
        witness.saw_no_less(PODS).await;
    }
    api.clear().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: deploy/tools.sh install_control_plane"]
async fn an_endless_410() {
    let plane = turn().await;
    let behind = Behind::start(&plane).await;
    let (lists, watches) = behind.proxy.begun();
    behind.proxy.faults().gone = true;
    behind.proxy.cut_watches();
    let start = Instant::now();
    until("watches", || {
        (behind.proxy.begun().1 > watches + 12).then_some(())
    });
    change(&behind.api, 0).await;
    // Each refused watch causes a new list, so the state follows all the same.
    behind.evenkeel.agrees_with(&behind.api).await;
    let begun = behind.proxy.begun();
    let seconds = start.elapsed().as_secs_f64() + 1.0;
    // Pauses get longer: at first, each kind pauses for under a second.
    let each_second = (begun.0 - lists + begun.1 - watches) as f64 / seconds;
    assert!(each_second < 60.0, "{each_second} requests a second");
    behind.proxy.faults().gone = false;
    change(&behind.api, 1).await;
    behind.recovers(2).await;
}

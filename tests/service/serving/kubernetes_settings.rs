//! The settings of `serve --kubernetes`: contexts, default constraints, access, and settings that
//! are refused.

use serde_json::json;

use crate::serving::api_server::ApiServer;
use crate::serving::process::command;
use crate::serving::watching::{Watching, one_node};

#[test]
fn default_constraints_are_those_of_the_scheduler() {
    let config = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n\
                  profiles:\n- pluginConfig:\n  - name: PodTopologySpread\n    args:\n      \
                  defaultingType: List\n      defaultConstraints:\n      - {maxSkew: 2, \
                  topologyKey: rack, whenUnsatisfiable: ScheduleAnyway}\n";
    let cluster = ApiServer::start();
    let map = json!({"metadata": {"namespace": "kube-system", "name": "s"},
                     "data": {"policy.yaml": config}});
    cluster.put("configmaps", map);
    let file = cluster.kubeconfig().with_file_name("scheduler.yaml");
    std::fs::write(&file, config).expect("it can be written");
    let file = file.display().to_string();
    for place in ["configmap/kube-system/s:policy.yaml", &file] {
        let watching = Watching::started(&cluster, &["--kubernetes-scheduler-config", place]);
        let defaults = watching.described().and_then(|it| it.default_constraints);
        let defaults = defaults.expect("they are set");
        assert_eq!(defaults.constraints[0].topology_key, "rack", "{place}");
    }
    let place = "configmap/kube-system/none";
    let watching = Watching::start(&cluster, &["--kubernetes-scheduler-config", place]);
    watching.says("configmap kube-system/none of one: there is none");
}

#[test]
fn the_version_is_that_of_the_cluster() {
    let cluster = one_node();
    let watching = Watching::started(&cluster, &[]);
    let described = watching.described().expect("it is there");
    assert_eq!(described.kubernetes_version, "1.36");
}

#[test]
fn rules_of_access_hold_for_callers_and_not_for_the_feed() {
    let cluster = one_node();
    let file = cluster.kubeconfig().with_file_name("access.toml");
    let rule = format!(
        "[[allow]]\ntoken_sha256 = \"{}\"\nrole = \"reader\"\nsnapshots = [\"*\"]\n",
        "0".repeat(64)
    );
    std::fs::write(&file, rule).expect("it can be written");
    let file = file.display().to_string();
    let watching = Watching::started(&cluster, &["--access-file", &file]);
    assert_eq!(watching.described(), None);
}

#[test]
fn a_drain_ends_the_feed() {
    let cluster = one_node();
    let mut watching = Watching::started(&cluster, &[]);
    watching.holds(&["n"]);
    watching.server.signal("TERM");
    let status = watching.runtime.block_on(watching.server.exited());
    assert!(status.success(), "{status}");
}

#[test]
fn settings_that_do_not_go_together_are_refused() {
    let cases: [(&[&str], &str); 2] = [
        (
            &["--kubernetes", "--load=x.json"],
            "--load and --kubernetes both for the snapshot default",
        ),
        (
            &["--kubernetes-scheduler-config=x.yaml"],
            "--kubernetes-scheduler-config needs --kubernetes",
        ),
    ];
    for (args, wanted) in cases {
        let mut serve = command(&["serve"]);
        serve.args(args);
        let refused = crate::serving::process::run(serve).expect(64);
        refused.complains(wanted);
    }
}

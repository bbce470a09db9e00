//! Tests of default constraints in files.

use std::path::PathBuf;

use serde_json::json;

use super::super::read_default_constraints;
use super::{directory_with, message};
use evenkeel_core::proto::v1::DefaultConstraints;

fn default_constraints(content: &str) -> Result<DefaultConstraints, String> {
    let directory = directory_with(&[("d.yaml", content)]);
    let path: PathBuf = directory.path().join("d.yaml");
    let argument = path.to_str().expect("the path is UTF-8");
    read_default_constraints(argument).map_err(|error| message(&error, &directory))
}

#[test]
fn default_constraints_are_found_in_every_form() {
    let list = "[{maxSkew: 2, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]";
    let one: DefaultConstraints = serde_json::from_value(json!({"constraints":
        [{"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}]}))
    .expect("the case is valid");
    let system = DefaultConstraints {
        system: true,
        ..Default::default()
    };
    let scheduler = |arguments: &str| {
        format!(
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n\
             - schedulerName: a\n- schedulerName: b\n  pluginConfig:\n  - {{name: Other, args: {{}}}}\n  - {{name: PodTopologySpread, args: {arguments}}}\n"
        )
    };
    let cases = [
        (list.to_owned(), &one),
        (
            scheduler(&format!(
                "{{defaultConstraints: {list}, defaultingType: List}}"
            )),
            &one,
        ),
        (scheduler("{defaultingType: System}"), &system),
        ("kind: KubeSchedulerConfiguration".to_owned(), &system),
    ];
    for (content, expected) in cases {
        assert_eq!(
            default_constraints(&content).as_ref(),
            Ok(expected),
            "{content}"
        );
    }
    assert_eq!(
        read_default_constraints("system").expect("it needs no file"),
        system
    );
}

#[test]
fn bad_default_constraints_are_refused() {
    let cases = [
        (
            "",
            "neither a KubeSchedulerConfiguration nor a list of constraints",
        ),
        ("[]\n---\n[]", "not valid YAML: "),
        (
            "kind: Pod",
            "neither a KubeSchedulerConfiguration nor a list of constraints",
        ),
        (
            "kind: KubeSchedulerConfiguration\nprofiles:\n- pluginConfig: [{name: PodTopologySpread, args: none}]",
            "the args of PodTopologySpread are not a map",
        ),
        (
            "kind: KubeSchedulerConfiguration\nprofiles:\n- pluginConfig: [{name: PodTopologySpread, args: {defaultingType: Both}}]",
            "is neither \"List\" nor \"System\"",
        ),
        (
            "[{maxSkew: []}]",
            "default constraints: defaultConstraints[0].maxSkew: ",
        ),
    ];
    for (content, expected) in cases {
        let message = default_constraints(content).expect_err(content);
        assert!(message.contains(expected), "{content}: {message}");
    }
}

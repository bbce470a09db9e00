//! Tables of input files and what they are read as.

use std::path::{Path, PathBuf};

use indicatif::ProgressBar;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use crate::proto::v1::DefaultConstraints;

fn directory_with(files: &[(&str, &str)]) -> TempDir {
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    for (name, content) in files {
        let path = directory.path().join(name);
        std::fs::create_dir_all(path.parent().expect("it is inside")).expect("it can be made");
        std::fs::write(path, content).expect("it can be written");
    }
    directory
}

fn read(directory: &TempDir) -> Result<Objects, Error> {
    let sources = expand(&[directory.path().to_path_buf()])?;
    read_objects(sources, &ProgressBar::hidden())
}

/// The message with the directory cut out.
fn message(error: &Error, directory: &TempDir) -> String {
    let prefix = format!("{}/", directory.path().display());
    error.to_string().replace(&prefix, "")
}

fn names(objects: &Objects) -> Vec<String> {
    let objects = objects
        .changes
        .iter()
        .filter_map(|change| change.object.as_ref());
    objects.map(object_name).collect()
}

#[test]
fn objects_are_found_in_every_form_of_file() {
    let pod = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","namespace":"x"}}"#;
    let node = r#"{"kind":"Node","apiVersion":"v1","metadata":{"name":"k"}}"#;
    let list =
        |fields: &str, items: &[&str]| format!("{{{fields}\"items\":[{}]}}", items.join(","));
    let bare = r#"{"metadata":{"name":"p","namespace":"x"}}"#;
    let both = ["Node k", "Pod x/p"];
    let cases: [(&str, String, &[&str]); 18] = [
        ("a.json", pod.to_owned(), &["Pod x/p"]),
        ("a.json", format!("{node}\n{pod}\n"), &both),
        ("a.json", format!("[{node},{pod}]"), &both),
        ("a.json", list("\"kind\":\"List\",", &[node, pod]), &both),
        ("a.json", list("", &[node, pod]).replace("]}", "],\"kind\":\"List\"}"), &both),
        ("a.json", list("\"kind\":\"PodList\",\"apiVersion\":\"v1\",", &[bare]), &["Pod x/p"]),
        ("a.json", list("", &[bare]).replace("]}", "],\"kind\":\"PodList\"}"), &["Pod x/p"]),
        ("a.json", r#"{"kind":"List","items":null}"#.to_owned(), &[]),
        ("a.json", r#"{"kind":"PodList","items":[]}"#.to_owned(), &[]),
        ("a.json", String::new(), &[]),
        ("a.json", format!("\u{feff}{node}"), &["Node k"]),
        ("a.yaml", node.to_owned(), &["Node k"]),
        ("a.yaml", String::new(), &[]),
        ("a.yaml", "---\n# nothing\n---\n".to_owned(), &[]),
        ("a.yml", "kind: Node\nmetadata: {name: k}\n---\n---\nkind: Pod\nmetadata: {name: p, namespace: x}\n".to_owned(), &both),
        ("a.yaml", "kind: List\nitems:\n- kind: Node\n  metadata: {name: k}\n- kind: Pod\n  metadata: {name: p, namespace: x}\n".to_owned(), &both),
        ("a.yaml", "kind: PodList\napiVersion: v1\nitems:\n- metadata: {name: p, namespace: x}\n".to_owned(), &["Pod x/p"]),
        ("deep/er/a.yaml", "- kind: Node\n  metadata:\n    name: k\n".to_owned(), &["Node k"]),
    ];
    for (file, content, expected) in cases {
        let directory = directory_with(&[("keep.json", ""), (file, &content)]);
        let objects = read(&directory).unwrap_or_else(|error| panic!("{content}: {error}"));
        assert_eq!(names(&objects), expected, "{content}");
    }
}

#[test]
fn a_file_without_a_telling_name_is_json_when_it_starts_like_json() {
    for content in [
        " {\"kind\":\"Node\",\"metadata\":{\"name\":\"k\"}}",
        "kind: Node\nmetadata: {name: k}",
    ] {
        let directory = directory_with(&[("dump", content)]);
        let sources = expand(&[directory.path().join("dump")]).expect("it is there");
        let objects = read_objects(sources, &ProgressBar::hidden()).expect("it is readable");
        assert_eq!(names(&objects), ["Node k"]);
    }
}

#[test]
fn nulls_are_unset_and_quoted_scalars_are_strings() {
    let directory = directory_with(&[(
        "pod.yaml",
        "kind: Pod\nmetadata:\n  name: p\n  annotations:\n  labels: {a: '1', b: \"true\", c: \"on\"}\n\
         spec:\n  nodeName:\n  tolerations:\n  nodeSelector: ~\n  affinity: {nodeAffinity: null}\n",
    )]);
    let objects = read(&directory).expect("it is valid");
    let pod = serde_json::to_value(&objects.changes[0]).expect("it has a JSON form");
    assert_eq!(
        pod,
        json!({"pod": {
            "metadata": {"name": "p", "labels": {"a": "1", "b": "true", "c": "on"}},
            "spec": {"affinity": {}},
        }})
    );
}

#[test]
fn a_label_may_be_named_like_a_bulky_field() {
    let pod = r#"{"kind":"Pod","metadata":{"name":"p","labels":{"data":"d","volumes":"v"},
        "annotations":{"x":"y"}},"spec":{"containers":[{"name":"c"}],"nodeName":"n"}}"#;
    let objects = read(&directory_with(&[("pod.json", pod)])).expect("it is valid");
    let pod = serde_json::to_value(&objects.changes[0]).expect("it has a JSON form");
    assert_eq!(
        pod["pod"]["metadata"]["labels"],
        json!({"data": "d", "volumes": "v"})
    );
    assert_eq!(pod["pod"]["spec"], json!({"nodeName": "n"}));
}

#[test]
fn other_kinds_are_counted_by_kind_and_group() {
    let objects = read(&directory_with(&[
        (
            "1.yaml",
            "kind: ConfigMap\napiVersion: v1\n---\nkind: ConfigMap\napiVersion: v1\n",
        ),
        (
            "2.yaml",
            "kind: Service\napiVersion: serving.knative.dev/v1\nmetadata: {name: s}\n",
        ),
        (
            "3.yaml",
            "kind: Service\napiVersion: v1\nmetadata: {name: s}\n",
        ),
        (
            "4.yaml",
            "kind: ReplicaSet\napiVersion: apps/v1\nmetadata: {name: r}\n",
        ),
    ]))
    .expect("it is valid");
    let skipped: Vec<_> = objects
        .skipped
        .iter()
        .map(|(kind, count)| (kind.as_str(), *count))
        .collect();
    assert_eq!(
        skipped,
        [("ConfigMap", 2), ("Service.serving.knative.dev", 1)]
    );
    assert_eq!(
        names(&objects),
        ["Service default/s", "ReplicaSet default/r"]
    );
}

#[test]
fn of_a_repeated_object_the_last_one_counts() {
    let objects = read(&directory_with(&[
        (
            "1.yaml",
            "kind: Pod\nmetadata: {name: p}\nspec: {nodeName: a}",
        ),
        (
            "2.yaml",
            "kind: Pod\nmetadata: {name: p, namespace: default}\nspec: {nodeName: b}",
        ),
    ]))
    .expect("it is valid");
    assert_eq!(names(&objects), ["Pod default/p"]);
    let pod = serde_json::to_value(&objects.changes[0]).expect("it has a JSON form");
    assert_eq!(pod["pod"]["spec"]["nodeName"], "b");
    assert_eq!(objects.repeated.len(), 1);
    assert!(objects.repeated[0].starts_with("Pod default/p occurs more than once"));
}

#[test]
fn errors_name_the_place_the_object_and_the_field() {
    let cases = [
        (
            "a.json",
            r#"{"kind":"Pod","metadata":{"name":"p","namespace":"x"},
                "spec":{"topologySpreadConstraints":[{"maxSkew":"many"}]}}"#,
            "a.json, document 1: Pod x/p: spec.topologySpreadConstraints[0].maxSkew: invalid digit",
        ),
        (
            "a.yaml",
            "kind: Node\nmetadata: {name: k}\n---\nkind: Node\nmetadata: {name: m, labels: {a: 1}}",
            "a.yaml, document 2: Node m: metadata.labels.a: invalid type: integer",
        ),
        (
            "a.yaml",
            "kind: Pod\nmetadata: {name: p, labels: {a: yes}}",
            "a.yaml, document 1: Pod default/p: metadata.labels.a: invalid type: boolean `true`, expected a string: put it in quotes",
        ),
        (
            "a.json",
            r#"{"items":[{"kind":"Node"},{"kind":"Pod","spec":{"nodeName":[]}}]}"#,
            "a.json, item 2: Pod default/(no name): spec.nodeName: invalid type: sequence",
        ),
        (
            "a.json",
            r#"[{"kind":"Node"},{}]"#,
            "a.json, item 2: an object without a `kind`",
        ),
        (
            "a.json",
            "[3]",
            "a.json, item 1: a plain value, not a Kubernetes object",
        ),
        (
            "a.yaml",
            "hello",
            "a.yaml, document 1: a plain value, not a Kubernetes object",
        ),
        (
            "a.yaml",
            "items: {}",
            "a.yaml, document 1: `items` is not a list",
        ),
        (
            "a.json",
            r#"{"items":{}}"#,
            "a.json: not valid JSON: invalid type: map, expected a list",
        ),
        (
            "a.json",
            r#"{"kind":"Node"} {"#,
            "a.json: not valid JSON: EOF while parsing",
        ),
        ("a.yaml", "a: [", "a.yaml: not valid YAML: "),
        (
            "a.yaml",
            "kind: Pod\nkind: Node",
            "a.yaml: not valid YAML: ",
        ),
        (
            "a.txt",
            "",
            "no *.json, *.yaml or *.yml file in this directory",
        ),
    ];
    for (file, content, expected) in cases {
        let directory = directory_with(&[(file, content)]);
        let error = read(&directory).expect_err(content);
        let message = message(&error, &directory);
        assert!(message.contains(expected), "{content}: {message}");
    }
}

fn workload(content: &str, name: Option<&str>, namespace: Option<&str>) -> Result<Value, String> {
    let directory = directory_with(&[("a.yaml", content)]);
    read_workload(&directory.path().join("a.yaml"), name, namespace)
        .map(|workload| json!([workload.name, workload.pod]))
        .map_err(|error| message(&error, &directory))
}

#[test]
fn a_pod_template_becomes_a_pod() {
    let template = "template: {metadata: {name: ignored, labels: {app: web}}, spec: {nodeSelector: {disk: ssd}}}";
    let owner = |version: &str, kind: &str| json!([{"apiVersion": version, "kind": kind, "name": "web", "controller": true}]);
    let cases = [
        ("apps/v1", "Deployment", None),
        ("apps/v1", "DaemonSet", None),
        ("batch/v1", "Job", None),
        ("batch/v1", "CronJob", None),
        (
            "apps/v1",
            "ReplicaSet",
            Some(owner("apps/v1", "ReplicaSet")),
        ),
        (
            "apps/v1",
            "StatefulSet",
            Some(owner("apps/v1", "StatefulSet")),
        ),
        (
            "v1",
            "ReplicationController",
            Some(owner("v1", "ReplicationController")),
        ),
    ];
    for (version, kind, owners) in cases {
        let spec = match kind {
            "CronJob" => format!("{{jobTemplate: {{spec: {{{template}}}}}}}"),
            _ => format!("{{{template}}}"),
        };
        let content = format!(
            "apiVersion: {version}\nkind: {kind}\nmetadata: {{name: web, namespace: shop, labels: {{not: used}}}}\nspec: {spec}"
        );
        let mut metadata = json!({"namespace": "shop", "labels": {"app": "web"}});
        if let Some(owners) = owners {
            metadata["ownerReferences"] = owners;
        }
        let pod = json!({"metadata": metadata, "spec": {"nodeSelector": {"disk": "ssd"}}});
        assert_eq!(
            workload(&content, None, None),
            Ok(json!([format!("{kind} shop/web"), pod]))
        );
    }
}

#[test]
fn a_workload_is_chosen_by_name() {
    let content = "kind: Pod\nmetadata: {name: a}\n---\nkind: Service\nmetadata: {name: a}\n---\n\
        kind: Pod\nmetadata: {name: a, namespace: x}\n---\nkind: Deployment\nmetadata: {name: b}\nspec: {template: {}}\n";
    let all = "Pod/default/a, Pod/x/a, Deployment/default/b";
    let cases = [
        (Some("b"), Ok("Deployment default/b")),
        (Some("deployment/b"), Ok("Deployment default/b")),
        (Some("pod/x/a"), Ok("Pod x/a")),
        (Some("Pod/default/a"), Ok("Pod default/a")),
        (
            None,
            Err(format!(
                "a.yaml: 3 pods and workloads in it; say which with --name KIND/NAME: {all}"
            )),
        ),
        (
            Some("c"),
            Err(format!("a.yaml: no c in it; there is {all}")),
        ),
        (
            Some("a"),
            Err(
                "a.yaml: 2 objects called a in it; say which with --name KIND/NAMESPACE/NAME: \
                 Pod/default/a, Pod/x/a"
                    .to_owned(),
            ),
        ),
    ];
    for (name, expected) in cases {
        let found = workload(content, name, None).map(|found| found[0].clone());
        assert_eq!(found, expected.map(Value::from), "{name:?}");
    }
}

#[test]
fn the_namespace_can_be_overridden() {
    let found = workload(
        "kind: Pod\nmetadata: {name: a, namespace: x}",
        None,
        Some("y"),
    );
    assert_eq!(
        found,
        Ok(json!(["Pod x/a, in namespace y", {"metadata": {"name": "a", "namespace": "y"}}]))
    );
}

#[test]
fn a_file_without_pods_is_refused() {
    let cases = [
        (
            "kind: Service\nmetadata: {name: a}",
            "a.yaml: no Pod or workload with a pod template in it",
        ),
        (
            "kind: Deployment\nmetadata: {name: a}\nspec: {}",
            "a.yaml, document 1: Deployment default/a: spec.template: no pod template there",
        ),
    ];
    for (content, expected) in cases {
        assert_eq!(workload(content, None, None), Err(expected.to_owned()));
    }
}

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
        (format!("defaultConstraints: {list}"), &one),
        (
            format!("defaultConstraints: {list}\ndefaultingType: List"),
            &one,
        ),
        (
            scheduler(&format!(
                "{{defaultConstraints: {list}, defaultingType: List}}"
            )),
            &one,
        ),
        (
            format!("apiVersion: evenkeel/v1\nkind: DefaultConstraints\nconstraints: {list}"),
            &one,
        ),
        ("defaultingType: System".to_owned(), &system),
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
            "0 documents, where one with default constraints is needed",
        ),
        (
            "[]\n---\n[]",
            "2 documents, where one with default constraints is needed",
        ),
        ("hello", "a plain value, not default constraints"),
        ("kind: Pod", "a Pod has no default constraints"),
        (
            "maxSkew: 1",
            "neither `defaultConstraints` nor `defaultingType: System` in it",
        ),
        ("defaultingType: Both", "is neither \"List\" nor \"System\""),
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

#[test]
fn standard_input_and_files_are_read_once() {
    let directory = directory_with(&[("a.yaml", "")]);
    let file = directory.path().join("a.yaml");
    let sources = expand(&[directory.path().to_path_buf(), file.clone()]).expect("both are there");
    assert_eq!(sources, [Source::File(file)]);
    let twice = expand(&[Path::new("-").to_path_buf(), Path::new("-").to_path_buf()]);
    assert!(matches!(twice, Err(Error::StandardInputTwice)));
}

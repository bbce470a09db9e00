//! Tests of input files by tables: the content of files, and the objects and default constraints in
//! them.

use std::path::PathBuf;

use serde_json::json;
use tempfile::TempDir;

use super::*;
use evenkeel_core::proto::v1::DefaultConstraints;

fn directory_with(files: &[(&str, &str)]) -> TempDir {
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    for (name, content) in files {
        let path = directory.path().join(name);
        std::fs::create_dir_all(path.parent().expect("it is inside")).expect("it can be made");
        std::fs::write(path, content).expect("it can be written");
    }
    directory
}

/// The message without the path of the directory.
fn message(error: &ManifestError, directory: &TempDir) -> String {
    let prefix = format!("{}/", directory.path().display());
    error.to_string().replace(&prefix, "")
}

fn read(directory: &TempDir) -> Result<LoadedObjects, ManifestError> {
    let sources = expand(&[directory.path().to_path_buf()])?;
    read_objects(sources, None)
}

fn names(objects: &LoadedObjects) -> Vec<String> {
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
    let cases: [(&str, String, &[&str]); 17] = [
        ("a.json", pod.to_owned(), &["Pod x/p"]),
        ("a.json", format!("{node}\n{pod}\n"), &both),
        ("a.json", format!("[{node},{pod}]"), &both),
        ("a.json", list("\"kind\":\"List\",", &[node, pod]), &both),
        ("a.json", list("", &[node, pod]).replace("]}", "],\"kind\":\"List\"}"), &both),
        ("a.json", list("\"kind\":\"PodList\",\"apiVersion\":\"v1\",", &[bare]), &["Pod x/p"]),
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
        let objects = read_objects(sources, None).expect("it is readable");
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
        "annotations":{"x":"y"}},"spec":{"containers":[{"name":"c","env":[{"name":"e"}]}],"nodeName":"n"}}"#;
    let objects = read(&directory_with(&[("pod.json", pod)])).expect("it is valid");
    let pod = serde_json::to_value(&objects.changes[0]).expect("it has a JSON form");
    assert_eq!(
        pod["pod"]["metadata"]["labels"],
        json!({"data": "d", "volumes": "v"})
    );
    let spec = json!({"containers": [{"name": "c"}], "nodeName": "n"});
    assert_eq!(pod["pod"]["spec"], spec);
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

#[test]
fn files_are_read_once() {
    let directory = directory_with(&[("a.yaml", "")]);
    let file = directory.path().join("a.yaml");
    let sources = expand(&[directory.path().to_path_buf(), file.clone()]).expect("both are there");
    assert_eq!(sources, [InputSource::File(file)]);
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

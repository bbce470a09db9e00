//! Answers on a terminal of 80 columns: nothing is cut, and nothing is wider.

use crate::cli::evenkeel::{Outcome, Workspace};

/// Names as clouds give them: they begin and end alike, and differ in the middle.
fn node(number: usize) -> String {
    format!("ip-10-0-{number}-17.eu-central-1.compute.internal-production")
}

const CONSTRAINT: &str = "{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: \
                          DoNotSchedule, labelSelector: {matchLabels: {app: web}}}";

/// Two zones with two nodes each. Zone a has three pods of a workload on one node, and b none. One
/// more pod waits.
fn cluster() -> String {
    let mut text = "apiVersion: v1\nkind: List\nitems:\n".to_owned();
    for (number, zone) in [(1, "a"), (2, "a"), (3, "b"), (4, "b")] {
        let name = node(number);
        let zone = format!("topology.kubernetes.io/zone: eu-central-1{zone}");
        let taint = if zone.ends_with('b') {
            "taints: [{key: gone, effect: NoSchedule}]"
        } else {
            ""
        };
        text += &format!(
            "- {{kind: Node, metadata: {{name: {name}, labels: {{{zone}, kubernetes.io/hostname: \
             {name}}}}}, spec: {{{taint}}}, status: {{allocatable: {{cpu: '4', memory: 8Gi, pods: \
             '9'}}}}}}\n"
        );
    }
    let owner = "ownerReferences: [{apiVersion: apps/v1, kind: StatefulSet, name: \
                 the-web-frontend-of-the-shop, controller: true}]";
    for (pod, place) in [("w0", 1), ("w1", 1), ("w2", 1), ("w3", 0)] {
        let on = if place == 0 {
            String::new()
        } else {
            format!("nodeName: {}, ", node(place))
        };
        text += &format!(
            "- {{kind: Pod, metadata: {{name: {pod}, namespace: the-shop-in-production, labels: {{app: \
             web}}, {owner}}}, spec: {{{on}containers: [{{name: c, resources: {{requests: {{cpu: '1', \
             memory: 1Gi}}}}}}], topologySpreadConstraints: [{CONSTRAINT}]}}}}\n"
        );
    }
    text
}

fn workspace() -> Workspace {
    let pod = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: one-more, namespace: the-shop-in-production, \
         labels: {{app: web}}}}\nspec:\n  topologySpreadConstraints: [{CONSTRAINT}]\n"
    );
    Workspace::new()
        .file("cluster.yaml", &cluster())
        .file("pod.yaml", &pod)
}

fn narrow(workspace: &Workspace, line: &str) -> Outcome {
    let command = workspace.command(line).env("COLUMNS", "80").output();
    Outcome::of(command.expect("it runs"))
}

/// The text without what wrapping adds.
fn joined(text: &str) -> String {
    text.split_whitespace().collect()
}

#[test]
fn nothing_is_cut_at_80_columns() {
    let workspace = workspace();
    let skew = "topology.kubernetes.io/zone: skew 4 > 1";
    let over = "topology.kubernetes.io/zone, max skew 1, DoNotSchedule";
    let place = format!("all 3 in kubernetes.io/hostname {}", node(1));
    for (line, parts) in [
        (
            "filter -f pod.yaml",
            vec![skew, "skew 4 > 1", "node(s) had untolerated taint"],
        ),
        ("spread", vec![over, "DoNotSchedule", "3 > 1"]),
        ("report", vec![over, &place, "the-web-frontend-of-the-shop"]),
        ("explain -f pod.yaml", vec!["skew 4 > 1"]),
        (
            "explain --pending",
            vec!["StatefulSet/the-shop-in-production/the-web-frontend-of-the-shop"],
        ),
    ] {
        let told = narrow(&workspace, &format!("{line} --load cluster.yaml")).out;
        for row in told.lines() {
            assert!(row.chars().count() <= 80, "{line}: {row:?} in\n{told}");
        }
        assert!(!told.contains('…'), "{line}:\n{told}");
        for part in parts {
            // Rows of a table are wrapped by column, so that words of a part are apart.
            for word in part.split(' ') {
                let is_whole = told.contains(word) || joined(&told).contains(word);
                let pieces = word.split_inclusive(['-', '.', '/']);
                let in_pieces = pieces.into_iter().all(|piece| told.contains(piece));
                assert!(
                    is_whole || in_pieces,
                    "{line}: {word} of {part:?} in\n{told}"
                );
            }
        }
    }
    let rows = narrow(&workspace, "filter -f pod.yaml --load cluster.yaml").out;
    assert!(rows.contains("skew 4 > 1"), "{rows}");
    let spread = narrow(&workspace, "spread --load cluster.yaml").out;
    assert!(spread.contains("DoNotSchedule"), "{spread}");
}

#[test]
fn warnings_and_errors_wrap() {
    let workspace = workspace().file("plain.yaml", "kind: Pod\nmetadata: {name: p}\n");
    let warned = narrow(
        &workspace,
        "filter -f plain.yaml --load cluster.yaml --default-constraints system",
    );
    assert!(warned.err.contains("Service"), "{}", warned.err);
    let failed = narrow(
        &workspace,
        "filter deploy/nosuch -n the-shop-in-production --load cluster.yaml",
    );
    for told in [&warned.err, &failed.err] {
        assert!(told.lines().count() > 1, "{told}");
        for row in told.lines() {
            assert!(row.chars().count() <= 80, "{row:?} in\n{told}");
        }
    }
}

#[test]
fn pending_pods_are_a_page() {
    let workspace = workspace();
    let page = workspace.expect(1, "explain --pending --load cluster.yaml -o html");
    for part in [
        "<!DOCTYPE html>",
        "evenkeel explain --pending",
        "pending: 1 pod, 1 of which fits nowhere",
        "StatefulSet/the-shop-in-production/the-web-frontend-of-the-shop",
        "skew 4 &gt; 1",
    ] {
        page.says(part);
    }
    let none = "explain --pending -n nosuch-namespace --load cluster.yaml -o html";
    let none = workspace.run(none);
    assert!(!none.out.contains("the-web-frontend"), "{}", none.out);
}

/// The bars of the load are in one unit, which is named: the resource that is scarcest.
#[test]
fn the_load_has_one_unit() {
    let workspace = workspace();
    let page = workspace.run("report --load cluster.yaml -n the-shop-in-production -o html");
    page.says("cpu requested, in % of what nodes have");
    page.says("--count:37.00%");
    let bare = cluster().replace("cpu: '4', memory: 8Gi, ", "");
    let workspace = Workspace::new().file("cluster.yaml", &bare);
    let page = workspace.run("report --load cluster.yaml -o html");
    page.says("<span class=\"key pods\">pods</span>");
    // A domain without the resource has no share of it.
    let some = cluster().replacen("cpu: '4', memory: 8Gi, ", "", 2);
    let workspace = Workspace::new().file("cluster.yaml", &some);
    let page = workspace.run("report --load cluster.yaml -o html");
    page.says("<span class=\"key pods\">pods</span>");
}

#[test]
fn a_shell_gets_the_names_in_files() {
    let workspace = workspace().file("broken.yaml", "kind: [");
    let of_namespace = "explain --load cluster.yaml -n the-shop-in-production";
    let cases = [
        (format!("{of_namespace} po/w"), "po/w0\npo/w1\npo/w2\npo/w3"),
        (
            "explain --load=cluster.yaml pod/the-shop-in-production/w3".to_owned(),
            "pod/the-shop-in-production/w3",
        ),
        (
            "spread --load cluster.yaml -n the".to_owned(),
            "the-shop-in-production",
        ),
        (format!("{of_namespace} deploy/"), ""),
        ("explain --load broken.yaml po/".to_owned(), ""),
        ("explain --load nosuch.yaml po/".to_owned(), ""),
    ];
    for (line, expected) in cases {
        assert_eq!(workspace.completed(&line), expected, "{line}");
    }
}

/// Everybody who dumps a cluster dumps the same kinds.
#[test]
fn the_recommended_dump_is_one_list() {
    let workspace = Workspace::new();
    let read = |file: &str| {
        let path = format!("{}/{file}", env!("CARGO_MANIFEST_DIR"));
        std::fs::read_to_string(path).expect(file)
    };
    let texts = [
        workspace.expect(0, "--help").out,
        workspace.expect(0, "load --help").out,
        read("README.md"),
        read("docs/feeding.md"),
    ];
    let lists: Vec<String> = texts
        .iter()
        .map(|text| {
            let (_, list) = text.split_once("kubectl get nodes,").expect("a dump");
            list.split_whitespace().next().expect("kinds").to_owned()
        })
        .collect();
    assert!(lists[0].contains("deployments"), "{lists:?}");
    assert!(lists.iter().all(|list| *list == lists[0]), "{lists:?}");
}

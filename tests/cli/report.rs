//! A report on a whole cluster, pages that are kept, and how wide output is.

use serde_json::json;

use crate::desk;
use crate::evenkeel::Desk;
use crate::process::Server;

const AFTER_OUTAGE: &str = include_str!("../../examples/three-zones/after-outage.yaml");

fn outage() -> Desk {
    Desk::new().file("cluster.yaml", AFTER_OUTAGE)
}

#[test]
fn a_report_has_the_score_and_what_it_is_made_of() {
    let answer = outage()
        .run("report --load cluster.yaml -o json")
        .expect(1)
        .json();
    // Of the fullest zone: web violates its constraint, cache has 2 of 1, db 1 of 1.
    assert_eq!(answer["score"], json!({"value": 50, "workloadCount": 3}));
    assert_eq!(answer["by"], "topology.kubernetes.io/zone");
    assert_eq!(
        answer["risks"],
        json!([{"workload": "StatefulSet/shop/cache", "pods": 2,
            "risk": "all 2 in kubernetes.io/hostname node-b1"}])
    );
    let unbalanced = answer["unbalanced"].as_array().expect("a list").iter();
    let unbalanced: Vec<_> = unbalanced
        .map(|one| json!([one["workload"], one["even"], one["most"], one["percent"]]))
        .collect();
    assert_eq!(
        unbalanced,
        [
            json!(["StatefulSet/shop/cache", 1, 2, 50]),
            json!(["Deployment/shop/web", 2, 3, 66]),
        ]
    );
    assert_eq!(answer["constraints"]["violatingCount"], "2");
}

#[test]
fn a_server_reports_the_same() {
    let server = Server::start(&[]);
    let (asking, alone) = (outage().with_server(server.url()), outage());
    asking
        .run("load cluster.yaml --default-constraints system")
        .expect(0);
    for flags in ["", "-n shop", "--by kubernetes.io/hostname", "-n elsewhere"] {
        let there = asking.run(&format!("report {flags}"));
        let here = alone.run(&format!("report {flags} --load cluster.yaml"));
        assert_eq!((there.code, there.out), (here.code, here.out), "{flags}");
    }
    let page = asking.run("report -o html").expect(1).out;
    assert!(page.contains(&format!("server {}", server.url())), "{page}");
    let refused = alone.run("report --by racks --load cluster.yaml").expect(2);
    assert!(
        refused.err.contains("no node has the label"),
        "{}",
        refused.err
    );
}

#[test]
fn what_cannot_be_uneven_has_no_score() {
    let desk = Desk::new().file(
        "one.yaml",
        "{kind: Node, metadata: {name: a, labels: {kubernetes.io/hostname: a}}}",
    );
    let answer = desk.run("report --load one.yaml -o json").expect(0).json();
    assert_eq!(answer["score"]["value"], json!(null));
    let text = desk.run("report --load one.yaml").expect(0).out;
    assert!(text.contains("no workload: there is no pod here"), "{text}");
}

#[test]
fn pages_say_where_they_are_from_and_fold_what_is_long() {
    let mut many = "apiVersion: v1\nkind: List\nitems:\n".to_owned();
    for number in 0..40 {
        many += &format!(
            "- {{kind: Node, metadata: {{name: n{number}, labels: {{kubernetes.io/hostname: n{number}}}}}}}\n\
             - {{kind: Pod, metadata: {{name: p{number}, labels: {{app: web}}}}, spec: {{nodeName: n{number}}}}}\n"
        );
    }
    let desk = outage().file("many.yaml", &many).file(
        "pod.yaml",
        "kind: Pod\nmetadata: {labels: {app: web}}\nspec: {topologySpreadConstraints: \
             [{maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule, \
             labelSelector: {matchLabels: {app: web}}}]}",
    );
    let cases = [
        (
            "explain -f pod.yaml --load many.yaml",
            0,
            "files many.yaml",
            true,
        ),
        ("spread --load cluster.yaml", 1, "files cluster.yaml", false),
        (
            "spread --by kubernetes.io/hostname --load many.yaml --max-domains 0",
            0,
            "files many.yaml",
            true,
        ),
        ("report --load cluster.yaml", 1, "files cluster.yaml", false),
    ];
    for (line, code, from, folds) in cases {
        let page = desk
            .run(&format!("{line} -o html -s mine"))
            .expect(code)
            .out;
        for part in [
            "<!DOCTYPE html>",
            from,
            "snapshot mine, revision 1",
            "<time datetime=\"20",
        ] {
            assert!(page.contains(part), "{line}: {part} in {page}");
        }
        let folded = page.contains("<details class=\"more\"><summary>30 more domains</summary>");
        assert_eq!(folded, folds, "{line}: {page}");
    }
}

/// A terminal of 60 columns wraps sentences and tables; what is no terminal gets
/// lines as they are.
#[test]
fn output_is_as_wide_as_the_terminal() {
    let desk = desk();
    let question = "-f workloads.yaml --name web --load cluster.yaml";
    for command in ["filter", "explain", "place --replicas 3"] {
        let line = format!("{command} {question}");
        let narrow = desk.command(&line).env("COLUMNS", "60").output();
        let narrow = String::from_utf8(narrow.expect("it runs").stdout).expect("it is text");
        for shown in narrow.lines() {
            assert!(shown.chars().count() <= 60, "{line}: {shown:?}");
        }
        let wide = desk.run(&line).out;
        let words = |text: &str| {
            let mut words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
            words.sort();
            words
        };
        assert_eq!(words(&narrow), words(&wide), "{line}");
    }
    let summary = desk.run(&format!("explain {question}")).out;
    let longest = summary.lines().map(|line| line.chars().count()).max();
    assert!(longest > Some(100), "{summary}");
}

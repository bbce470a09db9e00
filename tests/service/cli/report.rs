//! The report on a whole cluster, pages in HTML, and the width of output.

use serde_json::json;

use crate::cli::evenkeel::Workspace;
use crate::cli::process::Server;
use crate::cli::workspace;

const AFTER_OUTAGE: &str = include_str!("../../../examples/three-zones/after-outage.yaml");

fn outage() -> Workspace {
    Workspace::new().file("cluster.yaml", AFTER_OUTAGE)
}

#[test]
fn a_report_has_the_score_and_what_it_is_made_of() {
    let answer = outage()
        .expect(1, "report --load cluster.yaml -o json")
        .json();
    // web violates its constraint. A zone has 2 pods of cache, where 1 is even, and 1 of db.
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
            json!(["StatefulSet/shop/cache", 1, 2, 50.0]),
            json!(["Deployment/shop/web", 2, 3, 66.7]),
        ]
    );
    assert_eq!(answer["constraints"]["violatingCount"], "1");
    assert_eq!(answer["constraints"]["exceedingCount"], "1");
}

#[test]
fn a_server_reports_the_same() {
    let server = Server::start(&[]);
    let (asking, alone) = (outage().with_server(server.url()), outage());
    asking.expect(0, "load cluster.yaml --default-constraints system");
    for flags in ["", "-n shop", "--by kubernetes.io/hostname", "-n elsewhere"] {
        let there = asking.run(&format!("report {flags}"));
        let here = alone.run(&format!("report {flags} --load cluster.yaml"));
        assert_eq!((there.code, there.out), (here.code, here.out), "{flags}");
    }
    let page = asking.expect(1, "report -o html").out;
    assert!(page.contains(&format!("server {}", server.url())), "{page}");
    let refused = alone.expect(2, "report --by racks --load cluster.yaml");
    refused.complains("no node has the label");
    for (workspace, flags) in [(&asking, ""), (&alone, "--load cluster.yaml")] {
        let refused = workspace.expect(2, &format!("report -n nope {flags}"));
        refused.complains("there is no such namespace, or no pod in it: nope");
    }
}

#[test]
fn what_cannot_be_uneven_has_no_score() {
    let workspace = Workspace::new().file(
        "one.yaml",
        "{kind: Node, metadata: {name: a, labels: {kubernetes.io/hostname: a}}}",
    );
    let answer = workspace.expect(0, "report --load one.yaml -o json").json();
    assert_eq!(answer["score"]["value"], json!(null));
    let text = workspace.expect(0, "report --load one.yaml").out;
    assert!(text.contains("no workload: there are no pods"), "{text}");
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
    let workspace = outage().file("many.yaml", &many).file(
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
        let page = workspace
            .expect(code, &format!("{line} -o html -s mine"))
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

#[test]
fn every_answer_can_be_a_page() {
    let workspace = workspace();
    let web = "-f workloads.yaml --name web --load cluster.yaml -o html";
    for (line, parts) in [
        (
            format!("filter {web}"),
            ["feasible: 0 of 5 nodes", "<td class=\"bad\">"],
        ),
        (
            format!("score {web}"),
            ["evenkeel score", "no node to score"],
        ),
        (
            format!("place {web} --replicas 4"),
            ["1 pod before", "2 pods after"],
        ),
        (
            "snapshot get --load cluster.yaml -o html".to_owned(),
            ["<dt>nodes</dt>", "<dd>5</dd>"],
        ),
    ] {
        let page = workspace.run(&line);
        page.says("<!DOCTYPE html>");
        parts.iter().for_each(|part| page.says(part));
    }
}

/// Sentences and tables are as wide as the terminal, but sentences never too wide to read. A file
/// or a pipe gets lines as they are.
#[test]
fn output_is_as_wide_as_the_terminal() {
    let workspace = workspace().file("outage.yaml", AFTER_OUTAGE);
    let web = "-f workloads.yaml --name web --load cluster.yaml";
    let widest = |text: &str| text.lines().map(|line| line.chars().count()).max();
    for line in [
        format!("filter {web}"),
        format!("explain {web}"),
        format!("place --replicas 3 {web}"),
        "spread --load outage.yaml".to_owned(),
        "report --load outage.yaml".to_owned(),
    ] {
        let told = workspace.run(&line).out;
        assert!(widest(&told) > Some(80), "{line}: {told}");
        for columns in [60, 80, 100, 200] {
            let command = workspace
                .command(&line)
                .env("COLUMNS", columns.to_string())
                .output();
            let shown = String::from_utf8(command.expect("it runs").stdout).expect("it is text");
            assert!(widest(&shown) <= Some(columns), "{line}: {shown}");
            // A row of a table is a line, whatever the width.
            let nodes = |text: &str| {
                let rows = text.lines().filter(|line| line.starts_with("node-"));
                rows.count()
            };
            assert_eq!(nodes(&shown), nodes(&told), "{line}: {shown}");
        }
    }
    let wide = workspace
        .command("report --load outage.yaml")
        .env("COLUMNS", "200")
        .output();
    let wide = String::from_utf8(wide.expect("it runs").stdout).expect("it is text");
    let formula = wide
        .lines()
        .filter(|line| line.starts_with("  score") || line.starts_with("  domains"));
    assert!(
        widest(&formula.collect::<Vec<_>>().join("\n")) <= Some(100),
        "{wide}"
    );
}

/// A workload: kind, name, whether its constraint on zones is `hard` or `soft`,
/// and the nodes of its pods; `-` is none yet.
type Placed = (&'static str, &'static str, &'static str, &'static str);

/// Nodes a1 and a2 in zone a, b1 in zone b, x in none.
fn placed(workloads: &[Placed]) -> String {
    let mut file = "apiVersion: v1\nkind: List\nitems:\n".to_owned();
    for (node, zone) in [("a1", "a"), ("a2", "a"), ("b1", "b"), ("x", "")] {
        let zone = match zone {
            "" => String::new(),
            zone => format!("topology.kubernetes.io/zone: {zone}, "),
        };
        file += &format!(
            "- {{kind: Node, metadata: {{name: {node}, labels: {{{zone}kubernetes.io/hostname: {node}}}}}}}\n"
        );
    }
    for (kind, name, constraint, nodes) in workloads {
        let action = match *constraint {
            "hard" => "DoNotSchedule",
            _ => "ScheduleAnyway",
        };
        let constraint = match *constraint {
            "" => String::new(),
            _ => format!(
                "topologySpreadConstraints: [{{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, \
                 whenUnsatisfiable: {action}, labelSelector: {{matchLabels: {{app: {name}}}}}}}]"
            ),
        };
        for (index, node) in nodes.split_whitespace().enumerate() {
            let node = match node {
                "-" => String::new(),
                node => format!("nodeName: {node}, "),
            };
            file += &format!(
                "- {{kind: Pod, metadata: {{name: {name}-{index}, labels: {{app: {name}}}, \
                 ownerReferences: [{{apiVersion: apps/v1, kind: {kind}, name: {name}, controller: true}}]}}, \
                 spec: {{{node}{constraint}}}}}\n"
            );
        }
    }
    file
}

#[test]
fn each_workload_counts_as_the_formula_says() {
    const DB: &str = "StatefulSet";
    let in_zone = |pods: usize| format!("all {pods} in topology.kubernetes.io/zone a");
    let on_node = |pods: usize| format!("all {pods} in kubernetes.io/hostname a1");
    // Each case: the workloads; the score; of each uneven workload its pods, those of the fullest
    // domain, the same if it were even, and the percentage; and the risks.
    type Case<'a> = (&'a [Placed], Option<i64>, serde_json::Value, Vec<String>);
    let cases: [Case<'_>; 15] = [
        (&[(DB, "db", "", "a1 b1")], Some(100), json!([]), vec![]),
        (&[(DB, "db", "", "a1 a2 b1")], Some(100), json!([]), vec![]),
        (
            &[(DB, "db", "", "a1 a2")],
            Some(50),
            json!([["db", 2, 2, 1, 50.0]]),
            vec![in_zone(2)],
        ),
        (
            &[(DB, "db", "", "a1 a1")],
            Some(50),
            json!([["db", 2, 2, 1, 50.0]]),
            vec![on_node(2)],
        ),
        (
            &[(DB, "db", "", "a1 a2 a1")],
            Some(66),
            json!([["db", 3, 3, 2, 66.7]]),
            vec![in_zone(3)],
        ),
        (
            &[(DB, "db", "", "a1 a1 a2 b1")],
            Some(66),
            json!([["db", 4, 3, 2, 66.7]]),
            vec![],
        ),
        (&[("DaemonSet", "db", "", "a1 a2")], None, json!([]), vec![]),
        (&[(DB, "db", "", "a1")], None, json!([]), vec![]),
        (&[(DB, "db", "", "a1 -")], None, json!([]), vec![]),
        (&[(DB, "db", "", "a1 x")], None, json!([]), vec![]),
        // Pods that wait, and those in no zone, are in no domain.
        (&[(DB, "db", "", "a1 b1 - -")], Some(100), json!([]), vec![]),
        (
            &[(DB, "db", "", "a1 a2 x")],
            Some(50),
            json!([["db", 2, 2, 1, 50.0]]),
            vec![in_zone(2)],
        ),
        (
            &[(DB, "db", "hard", "a1 a2")],
            Some(0),
            json!([["db", 2, 2, 1, 50.0]]),
            vec![in_zone(2)],
        ),
        (
            &[(DB, "db", "soft", "a1 a2")],
            Some(50),
            json!([["db", 2, 2, 1, 50.0]]),
            vec![in_zone(2)],
        ),
        // The average of 50, 66 and 100, rounded down. The least even comes first,
        // and the risk of most pods.
        (
            &[
                (DB, "even", "", "a1 b1"),
                (DB, "large", "", "a1 a1 a1"),
                (DB, "small", "", "a1 a2"),
            ],
            Some(72),
            json!([["small", 2, 2, 1, 50.0], ["large", 3, 3, 2, 66.7]]),
            vec![on_node(3), in_zone(2)],
        ),
    ];
    for (workloads, score, unbalanced, risks) in cases {
        let workspace = Workspace::new().file("cluster.yaml", &placed(workloads));
        let line = "report --load cluster.yaml --default-constraints none -o json";
        let answer = workspace.run(line).json();
        let list = |field: &str| answer[field].as_array().cloned().unwrap_or_default();
        let found = list("unbalanced").into_iter().map(|one| {
            let name = one["workload"].as_str().unwrap_or_default();
            let name = name.rsplit('/').next().unwrap_or_default();
            json!([name, one["pods"], one["most"], one["even"], one["percent"]])
        });
        let found: Vec<_> = found.collect();
        let told: Vec<_> = list("risks")
            .into_iter()
            .map(|it| it["risk"].clone())
            .collect();
        assert_eq!(answer["score"]["value"], json!(score), "{workloads:?}");
        assert_eq!(json!(found), unbalanced, "{workloads:?}");
        assert_eq!(json!(told), json!(risks), "{workloads:?}");
    }
}

#[test]
fn a_report_in_words_leaves_nothing_out() {
    let workloads = [
        ("StatefulSet", "broken", "hard", "a1 a2"),
        ("StatefulSet", "bent", "soft", "a1 a2"),
        ("StatefulSet", "lonely", "", "b1 b1"),
    ];
    let workspace = Workspace::new().file("cluster.yaml", &placed(&workloads));
    let line = "report --load cluster.yaml --default-constraints none -o";
    // Each section of the text and of the page names these workloads.
    let (text, page) = (
        workspace.run(&format!("{line} text")),
        workspace.run(&format!("{line} html")),
    );
    let sections = [
        ("beyond max skew", vec!["broken", "bent"], "risks"),
        ("risks", vec!["broken", "bent", "lonely"], "unbalanced"),
        ("unbalanced", vec!["broken", "bent", "lonely"], "</main>"),
    ];
    for answer in [text.expect(1).out, page.expect(1).out] {
        let lower = answer.to_lowercase();
        for (from, names, to) in &sections {
            let begin = lower.find(from).unwrap_or(lower.len());
            let section = &lower[begin..];
            let end = section.find(to).unwrap_or(section.len());
            for name in names {
                assert!(section[..end].contains(name), "{name} of {from}: {answer}");
            }
        }
    }
}

/// Pods that fit nowhere come first. The page shows the pods as they are and as they would be even,
/// and is not green where the score is low.
#[test]
fn a_page_shows_what_fits_nowhere_and_what_would_be_even() {
    let stuck = "kind: Pod\nmetadata: {name: stuck, labels: {app: big}}\nspec: {nodeSelector: {disk: none}}\n";
    let of = |workloads: &[Placed], more: &str| {
        let file = placed(workloads) + more;
        Workspace::new().file("cluster.yaml", &file)
    };
    let uneven: &[Placed] = &[("ReplicaSet", "web", "", "a1 a1 a2 a2 a1 b1")];
    let even: &[Placed] = &[("ReplicaSet", "web", "", "a1 b1")];
    for (workloads, more, code, class) in [
        (uneven, String::new(), 0, "fair"),
        (even, String::new(), 0, "good"),
        (even, format!("---\n{stuck}"), 0, "bad"),
    ] {
        let workspace = of(workloads, &more);
        let page = workspace
            .expect(code, "report --load cluster.yaml -o html")
            .out;
        assert!(
            page.contains(&format!("<header class=\"{class}\">")),
            "{class}: {page}"
        );
        assert!(!page.contains("--by"), "{page}");
        assert!(!page.contains(" 0 all"), "{page}");
        let folded = "<summary>How the score is made</summary>";
        assert!(page.contains(folded), "{page}");
        let has_bars = page.contains("5 pods, 3 if they were even");
        assert_eq!(has_bars, class == "fair", "{page}");
        let first = page.find("<h2>").map(|at| &page[at..]).expect("a heading");
        assert_eq!(
            first.starts_with("<h2>fit nowhere"),
            class == "bad",
            "{page}"
        );
    }
    let workspace = of(even, &format!("---\n{stuck}"));
    let text = workspace.expect(0, "report --load cluster.yaml").out;
    let (nowhere, constraints) = (text.find("fit nowhere"), text.find("\nconstraints"));
    assert!(nowhere.is_some() && nowhere < constraints, "{text}");
    assert!(
        text.contains("4 node(s) didn't match Pod's node affinity/selector"),
        "{text}"
    );
    let answer = workspace
        .expect(0, "report --load cluster.yaml -o json")
        .json();
    assert_eq!(answer["stuck"][0]["pods"], 1);
    let load = json!([
        {"domain": "a", "pods": 1, "shares": []},
        {"domain": "b", "pods": 1, "shares": []},
    ]);
    assert_eq!(answer["load"], load);
}

//! Decisions without a server.

use serde_json::json;

use crate::cli::evenkeel::objects;
use crate::cli::workspace;

const WEB: &str = "-f workloads.yaml --name web --load cluster.yaml";
const DB: &str = "-f workloads.yaml --name sts/db --load cluster.yaml";

#[test]
fn names_and_exit_codes_say_which_nodes_are_feasible() {
    let cases = [
        (format!("filter {WEB}"), 1, vec![]),
        (format!("filter {WEB} --spread-only"), 0, vec!["c1"]),
        (
            format!("filter {WEB} --spread-only --candidate a1,b1"),
            1,
            vec![],
        ),
        (
            format!("filter {WEB} --spread-only --candidate c1 --candidate no/a1"),
            0,
            vec!["c1"],
        ),
        (
            format!("filter {WEB} --overlay-delete node/c1"),
            0,
            vec!["b1"],
        ),
        (
            format!("filter {WEB} --overlay-delete Pod/w1 --overlay-delete pod/default/w2"),
            0,
            vec!["b1"],
        ),
        (format!("filter {WEB} --overlay more.yaml"), 0, vec!["c2"]),
        (
            format!("filter {WEB} --namespace empty"),
            0,
            vec!["a1", "b1"],
        ),
        (format!("filter {DB}"), 0, vec!["a1", "b1", "x1"]),
        (format!("score {WEB}"), 1, vec![]),
        (
            format!("score {DB} --default-constraints system"),
            0,
            vec!["x1", "a1", "b1"],
        ),
        (
            format!("score {DB} --default-constraints system --top 1"),
            0,
            vec!["x1"],
        ),
    ];
    let workspace = workspace().file(
        "more.yaml",
        "kind: Node\nmetadata: {name: c2, labels: {zone: c}}",
    );
    for (line, code, names) in cases {
        let outcome = workspace.expect(code, &format!("{line} -o name"));
        assert_eq!(outcome.out.lines().collect::<Vec<_>>(), names, "{line}");
    }
}

#[test]
fn the_table_shows_verdicts_reasons_and_what_pins_the_minimum() {
    let outcome = workspace().expect(1, &format!("filter {WEB}"));
    for line in [
        "feasible: 0 of 5 nodes",
        "a1    unschedulable  node(s) didn't match pod topology spread constraints; zone: skew 3 > 1",
        "a2    unresolvable   node(s) were unschedulable",
        "  counts      pods with app=web",
        "  minimum     0, held by c",
        "  c       0     1     1      no feasible node",
    ] {
        assert!(
            outcome.out.lines().any(|found| found == line),
            "{line}\n{}",
            outcome.out
        );
    }
    assert_eq!(outcome.err, "");
}

#[test]
fn json_and_yaml_are_the_proto_json_of_the_answer() {
    let workspace = workspace();
    let answer = workspace
        .expect(0, &format!("filter {WEB} --spread-only -o json"))
        .json();
    assert_eq!(answer["feasible"], json!(["c1"]));
    assert_eq!(answer["feasibleCount"], "1");
    assert_eq!(answer["infeasible"][0]["node"], "a1");
    assert_eq!(answer["infeasible"][0]["skew"], "3");
    assert_eq!(answer["constraints"][0]["domains"][0]["value"], "c");

    let yaml = workspace
        .expect(0, &format!("filter {WEB} --spread-only -o yaml"))
        .out;
    for line in ["feasible:", "- c1", "feasibleCount: \"1\""] {
        assert!(yaml.lines().any(|found| found == line), "{line}\n{yaml}");
    }
}

#[test]
fn the_owner_of_a_template_deduces_the_selector_of_defaults() {
    let owner = "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: db}\n\
        spec: {selector: {matchLabels: {role: store}}, template: {metadata: {labels: {role: store}}}}\n";
    let workspace = workspace().file("owner.yaml", owner).file(
        "defaults.yaml",
        "- {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}",
    );
    let line = "filter -f owner.yaml --load cluster.yaml --load owner.yaml \
        --default-constraints defaults.yaml";
    let answer = workspace.expect(0, &format!("{line} -o json")).json();
    let report = &answer["constraints"][0];
    assert_eq!(report["fromDefaults"], true);
    assert_eq!(
        report["constraint"]["labelSelector"]["matchLabels"],
        json!({"role": "store"})
    );
}

#[test]
fn files_directories_and_standard_input_are_the_same() {
    let workspace = workspace();
    let whole = workspace.expect(0, &format!("filter {WEB} --spread-only"));
    std::fs::create_dir(workspace.path("parts")).expect("it can be made");
    for (number, item) in crate::cli::CLUSTER
        .lines()
        .filter_map(|line| line.strip_prefix("- "))
        .enumerate()
    {
        std::fs::write(workspace.path(&format!("parts/{number}.yml")), item)
            .expect("it can be written");
    }
    let rest = "--spread-only -f workloads.yaml --name web";
    let directory = workspace.expect(0, &format!("filter {rest} --load parts"));
    assert_eq!(directory.out, whole.out);
    let standard_input = workspace
        .run_with(&format!("filter {rest} --load -"), crate::cli::CLUSTER)
        .expect(0);
    assert_eq!(standard_input.out, whole.out);
    let pod = workspace.run_with(
        "filter --spread-only -f - --name web --load cluster.yaml",
        crate::cli::WORKLOADS,
    );
    assert_eq!(pod.expect(0).out, whole.out);
}

#[test]
fn a_saved_snapshot_reads_back_whole() {
    let workspace = workspace();
    let save = "snapshot save saved.json --load cluster.yaml --default-constraints system";
    let saved = workspace.expect(0, save);
    assert_eq!(
        saved.out,
        "snapshot \"default\", revision 1: 9 objects written to saved.json\n"
    );
    let again = workspace.expect(0, "snapshot save - --load saved.json");
    let saved = std::fs::read_to_string(workspace.path("saved.json")).expect("it was written");
    assert_eq!(objects(&again.out), objects(&saved));
    assert!(
        saved.contains(r#""kind":"DefaultConstraints","system":true"#),
        "{saved}"
    );
    // A saved snapshot keeps its version of Kubernetes, unless a flag says another.
    let save = |source: &str| {
        let outcome = workspace.expect(0, &format!("snapshot save - --load {source}"));
        let list: serde_json::Value = serde_json::from_str(&outcome.out).expect("JSON");
        let version = list["items"][0]["kubernetesVersion"].as_str();
        (outcome.out.clone(), version.expect("it is said").to_owned())
    };
    assert_eq!(save("saved.json").1, "");
    let (of_136, version) = save("cluster.yaml --kubernetes-version v1.36.3");
    assert_eq!(version, "1.36");
    std::fs::write(workspace.path("saved-1.36.json"), of_136).expect("it can be written");
    assert_eq!(save("saved-1.36.json").1, "1.36");
    assert_eq!(save("saved-1.36.json --kubernetes-version 1.35").1, "1.35");
    let line = "snapshot save - --load cluster.yaml --kubernetes-version next";
    workspace
        .run(line)
        .complains("must be a version of Kubernetes, such as 1.37");
}

#[test]
fn a_saved_snapshot_that_is_not_whole_is_refused() {
    let workspace = workspace();
    workspace.expect(
        0,
        "snapshot save saved.json --load cluster.yaml --default-constraints system",
    );
    let saved = std::fs::read_to_string(workspace.path("saved.json")).expect("it was written");
    let without = |part: &str| -> String {
        let is_kept = |line: &&str| !line.contains(part);
        let kept: Vec<&str> = saved.lines().filter(is_kept).collect();
        // The last item has no comma behind it.
        kept.join("\n").replace(",\n]", "\n]")
    };
    let line = |part: &str| {
        saved
            .lines()
            .find(|line| line.contains(part))
            .expect("a line")
    };
    let changed = |from: &str, to: &str| {
        assert!(saved.contains(from), "{from} is not in {saved}");
        saved.replace(from, to)
    };
    let twice = saved.replace("]}", "") + "," + &saved;
    let cases = [
        ("cut short", without("SavedSnapshotEnd"), "cut short"),
        (
            "no object at the end",
            without("\"db\""),
            "not what was saved",
        ),
        ("one node less", without("\"x1\""), "not what was saved"),
        (
            "no default constraints",
            without("DefaultConstraints"),
            "not what was saved",
        ),
        (
            "one pod twice",
            changed(line("\"w1\""), &[line("\"w1\""); 2].join("\n")),
            "not what was saved",
        ),
        (
            "another node",
            changed("\"nodeName\":\"b1\"", "\"nodeName\":\"a1\""),
            "not what was saved",
        ),
        (
            "another label",
            changed("\"app\":\"db\"", "\"app\":\"d\""),
            "not what was saved",
        ),
        (
            "another sum",
            changed("\"sha256\":\"", "\"sha256\":\"00"),
            "not what was saved",
        ),
        (
            "no beginning",
            without("\"SavedSnapshot\""),
            "without a SavedSnapshot",
        ),
        (
            "half a file",
            saved[..saved.len() / 2].to_owned(),
            "not valid JSON",
        ),
        ("two that run into each other", twice, "not valid JSON"),
    ];
    for (what, content, why) in cases {
        std::fs::write(workspace.path("odd.json"), content).expect("it can be written");
        for line in [
            "snapshot save again.json --load odd.json",
            "snapshot restore odd.json --server http://127.0.0.1:1",
            "load odd.json --server http://127.0.0.1:1",
        ] {
            let refused = workspace.expect(2, line);
            assert!(refused.err.contains(why), "{what}: {line}: {}", refused.err);
            refused.complains("odd.json");
        }
        assert!(!workspace.path("again.json").exists(), "{what}");
    }
    // Lists that are no saved snapshot have no end mark, and files may be laid out anew.
    let lists = [without("SavedSnapshot"), saved.replace("\n", "\n  ")];
    for list in lists {
        std::fs::write(workspace.path("list.json"), list).expect("it can be written");
        let again = workspace.expect(0, "snapshot save - --load list.json");
        assert_eq!(objects(&again.out), objects(&saved));
    }
}

#[test]
fn what_is_odd_about_the_input_is_said_beside_the_answer() {
    let workspace = workspace().file(
        "again.yaml",
        "kind: Pod\nmetadata: {name: w1}\nspec: {nodeName: c1}",
    );
    let cases = [
        (
            format!("filter {DB} --load again.yaml"),
            0,
            "warning: Pod default/w1 occurs more than once: taking the one of again.yaml, document 1, \
             not of cluster.yaml, item 6\n",
        ),
        (
            format!("filter {DB} --candidate a1,nowhere"),
            0,
            "warning: no such node in the snapshot: nowhere; the nearest are a1, a2, b1\n",
        ),
        (
            "filter -f workloads.yaml --name db --load again.yaml".to_owned(),
            1,
            "warning: no Node in the files\n",
        ),
        (
            format!("filter {DB} --overlay workloads.yaml"),
            0,
            "warning: --overlay: no decision reads Deployment.apps\n",
        ),
    ];
    for (line, code, expected) in cases {
        assert_eq!(workspace.expect(code, &line).err, expected, "{line}");
    }
}

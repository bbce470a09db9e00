//! Questions about another state than the present: with objects deleted, or without the pod itself
//! where it already runs.

use crate::cli::evenkeel::Workspace;
use crate::cli::remote::with_server;
use crate::cli::workspace;

/// Runs `check` on a workspace of files, and on one whose server holds `cluster.yaml`.
fn both(check: impl Fn(&Workspace, &str)) {
    let files = workspace();
    let (_runtime, server, _) = with_server();
    let served = workspace().with_server(&server.address);
    served.expect(0, "load cluster.yaml");
    for (workspace, source) in [(files, "--load cluster.yaml"), (served, "")] {
        // Pod w1 as the cluster shows it, as a manifest has it, and bound without a status; and a
        // pod that does not run.
        let spread = "topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, \
            whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: web}}}]";
        let pod = |name: &str, node: &str, more: &str| {
            format!(
                "kind: Pod\nmetadata: {{name: {name}, labels: {{app: web}}}}\n\
                 spec: {{{node}tolerations: [{{operator: Exists}}], {spread}}}\n{more}"
            )
        };
        let workspace = workspace
            .file(
                "runs.yaml",
                &pod("w1", "nodeName: a1, ", "status: {phase: Running}"),
            )
            .file("manifest.yaml", &pod("w1", "", ""))
            .file("bound.yaml", &pod("w1", "nodeName: a1, ", ""))
            .file("new.yaml", &pod("w9", "", ""));
        check(&workspace, source);
    }
}

#[test]
fn a_deletion_that_hits_nothing_is_refused() {
    both(|workspace, source| {
        for command in ["filter", "score", "explain", "place --replicas 1"] {
            let line = format!("{command} -f workloads.yaml --name web {source} --overlay-delete");
            for (object, named) in [
                ("node/typo", "Node typo"),
                (
                    "po/w1 --overlay-delete pod/elsewhere/w1",
                    "Pod elsewhere/w1",
                ),
                ("svc/typo", "Service default/typo"),
            ] {
                let refused = workspace.expect(2, &format!("{line} {object}"));
                let expected = format!("error: --overlay-delete: the snapshot has no {named}\n");
                assert_eq!(refused.err, expected, "{line} {object}");
                assert_eq!(refused.out, "", "{line} {object}");
            }
            let there = workspace.run(&format!("{line} no/c1"));
            assert!(there.err.is_empty(), "{line}: {}", there.err);
        }
    });
}

/// Zones a and b have two pods and one, c has none. The pod may go to c alone, with w1 or without,
/// but the counts differ.
#[test]
fn a_pod_that_runs_is_taken_out_first() {
    const SAID: &str = "the pod is in the snapshot: it was taken out first";
    both(|workspace, source| {
        for file in ["runs.yaml", "manifest.yaml", "bound.yaml"] {
            for command in ["filter", "score", "explain", "place"] {
                let table = workspace.expect(0, &format!("{command} -f {file} {source}"));
                table.says(&format!("\n{SAID}\n"));
                let line = format!("{command} -f {file} {source} -o json");
                let json = workspace.expect(0, &line);
                assert_eq!(json.err, format!("warning: {SAID}\n"), "{line}");
            }
            let filter = workspace.run(&format!("filter -f {file} {source} -o json"));
            let answer = filter.json();
            let domains = answer["constraints"][0]["domains"].as_array();
            let counts = domains.expect("a list").iter();
            let counts: Vec<_> = counts.map(|d| d["matchingPods"].as_str()).collect();
            assert_eq!(counts, [None, Some("1"), Some("1")], "{answer}");
            assert_eq!(answer["feasible"], serde_json::json!(["c1"]), "{answer}");
        }
        let new = workspace.expect(0, &format!("explain -f new.yaml {source}"));
        assert!(!new.out.contains(SAID), "{}", new.out);
        // An overlay that deletes the pod itself makes this unnecessary.
        let told = format!("filter -f runs.yaml {source} --overlay-delete po/w1");
        assert!(!workspace.expect(0, &told).out.contains(SAID));
    });
}

#[test]
fn a_reservation_supposes_nothing() {
    let (_runtime, _server, workspace) = with_server();
    workspace.expect(0, "load cluster.yaml");
    let workspace = workspace.file("runs.yaml", "kind: Pod\nmetadata: {name: w1}");
    for flags in [
        "-f runs.yaml",
        "-f workloads.yaml --name web --overlay-delete no/c1",
    ] {
        let refused = workspace.expect(2, &format!("place {flags} --reserve 5m"));
        let why = "--reserve: a server reserves only on the state that it holds";
        refused.complains(why);
    }
}

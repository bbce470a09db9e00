//! `lint` of named workloads, in files and in a cluster alike.

use serde_json::Value;

use crate::cli::shop::{CLUSTER, FILES, workspace};

#[test]
fn lint_checks_what_a_cluster_has() {
    let workspace = workspace();
    let cases = [("deploy -A", 1, 1), ("deploy", 1, 1), ("deploy/web", 1, 1)];
    for (names, code, templates) in cases {
        let of_cluster = workspace.expect(code, &format!("lint {names} {CLUSTER} -o json"));
        let found = of_cluster.json();
        assert_eq!(found["templates"], templates, "{names}");
        for finding in found["findings"].as_array().expect("a list") {
            assert_eq!(finding["file"], "cluster one", "{names}");
            assert_eq!(finding["object"], "Deployment shop/web", "{names}");
        }
        let namespace = if names == "deploy" || names == "deploy/web" {
            "-n shop"
        } else {
            ""
        };
        let of_files = workspace.expect(code, &format!("lint {names} {namespace} {FILES} -o json"));
        let rules = |found: &Value| -> Vec<Value> {
            let findings = found["findings"].as_array().expect("a list").iter();
            let mut rules: Vec<Value> = findings.map(|it| it["rule"].clone()).collect();
            // Findings are sorted by line, and those of a cluster have no lines.
            rules.sort_by_key(Value::to_string);
            rules
        };
        assert_eq!(rules(&of_files.json()), rules(&found), "{names}");
    }
}

/// An object that is not there, or a kind without objects, is not reported as clean.
#[test]
fn lint_says_when_there_is_nothing_to_check() {
    let workspace = workspace();
    for (from, place) in [(CLUSTER, "cluster one"), (FILES, "cluster.json")] {
        for (names, missing) in [
            ("deploy/shop/web,deploy/shop/gone", "Deployment/shop/gone"),
            ("deploy/default/web", "Deployment/default/web"),
            ("deploy/gone -n shop", "Deployment/shop/gone"),
            ("sts/web -n shop", "StatefulSet/shop/web"),
        ] {
            let refused = workspace.expect(2, &format!("lint {names} {from}"));
            let expected = format!("error: {place} has no {missing}");
            assert!(refused.err.contains(&expected), "{names}: {}", refused.err);
            assert_eq!(refused.out, "", "{names}");
        }
        let nothing = workspace.expect(2, &format!("lint sts,ds -n shop {from}"));
        nothing.complains(&format!("{place} has no StatefulSet/shop"));
    }
    let some = workspace.expect(1, &format!("lint deploy -A {CLUSTER}"));
    assert!(
        some.out.ends_with("1 pod template in cluster one\n"),
        "{}",
        some.out
    );
    let which = workspace.expect(2, "lint");
    which.complains("<--file <FILE>|KIND[/NAME]>");
}

//! Pod templates: each is decided about as the pod that a cluster makes of it.

use serde_json::{Value, json};

use crate::cli::evenkeel::Workspace;
use crate::cli::templates::{Case, admission, cases, deployment, nodes};

fn list(items: Vec<Value>) -> String {
    json!({ "apiVersion": "v1", "kind": "List", "items": items }).to_string()
}

fn placed(workspace: &Workspace, line: &str) -> usize {
    workspace.run(line).out.lines().count()
}

#[test]
fn a_template_takes_the_room_that_its_pods_take() {
    let cluster = || nodes().into_iter().chain(admission());
    for case in cases() {
        let Case {
            name,
            placed: expected,
            ..
        } = case;
        let workload = deployment(&case);
        let all = cluster().chain([workload.clone()]).collect();
        let workspace = Workspace::new()
            .file("cluster.json", &list(cluster().collect()))
            .file("nodes.json", &list(nodes()))
            .file("all.json", &list(all))
            .file("workload.json", &workload.to_string())
            .file(
                "beside.json",
                &list(admission().into_iter().chain([workload]).collect()),
            );
        for line in [
            "place -f workload.json --load cluster.json -o name",
            "place -f beside.json --load nodes.json -o name",
            &format!(
                "place deploy/{}/made --load all.json -o name",
                case.namespace
            ),
        ] {
            assert_eq!(placed(&workspace, line), expected, "{name}: {line}");
        }
    }
}

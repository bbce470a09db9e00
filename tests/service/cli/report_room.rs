//! The room of each domain, on a report.

use serde_json::json;

use crate::cli::evenkeel::Workspace;

#[test]
fn a_report_tells_how_full_each_zone_is() {
    let node = |name: &str, zone: &str, cpu: &str| {
        format!(
            "kind: Node\nmetadata: {{name: {name}, labels: {{zone: {zone}}}}}\n\
             status: {{allocatable: {{cpu: {cpu}, memory: 4Gi, pods: 9}}}}\n---\n"
        )
    };
    let pod = |name: &str, node: &str, phase: &str| {
        format!(
            "kind: Pod\nmetadata: {{name: {name}, labels: {{app: web}}}}\nstatus: {{phase: {phase}}}\n\
             spec: {{nodeName: {node}, containers: [{{name: c, resources: {{requests: \
             {{cpu: 1500m, memory: 1Gi}}}}}}]}}\n---\n"
        )
    };
    let cluster = [
        pod("p", "a1", "Running"),
        node("a1", "a", "2"),
        node("a2", "a", "4"),
        node("b1", "b", "6"),
        pod("q", "a2", "Running"),
        pod("done", "b1", "Succeeded"),
        pod("r", "b1", "Pending"),
    ];
    let workspace = Workspace::new().file("cluster.yaml", &cluster.concat());
    let line = "report --load cluster.yaml --by zone";
    let answer = workspace.expect(0, &format!("{line} -o json")).json();
    let share = |resource: &str, requested: &str, allocatable: &str, percent: i64| {
        json!({"resource": resource, "requested": requested, "allocatable": allocatable,
            "percent": percent})
    };
    assert_eq!(
        answer["load"],
        json!([
            {"domain": "a", "pods": 2, "shares": [
                share("cpu", "3", "6", 50), share("memory", "2Gi", "8Gi", 25)]},
            {"domain": "b", "pods": 1, "shares": [
                share("cpu", "1500m", "6", 25), share("memory", "1Gi", "4Gi", 25)]},
        ])
    );
    let page = workspace.expect(0, &format!("{line} -o html")).out;
    assert!(page.contains("cpu 50 %: 3 of 6"), "{page}");
}

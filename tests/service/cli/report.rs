//! The report on a whole cluster, pages in HTML, and the width of output.

use crate::cli::workspace;

const AFTER_OUTAGE: &str = include_str!("../../../examples/three-zones/after-outage.yaml");

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
}

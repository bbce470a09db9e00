//! Names, owners and messages that a terminal would obey, through the binary.

use crate::cli::remote::with_server;

/// The text of a YAML string: an escape sequence, a line that looks like one of the program's own,
/// and a mark that turns the direction of writing.
const HOSTILE: &str = r"a\e[2J\nFORGED\u202Eb";

/// Files of objects that have `HOSTILE` wherever they may have it.
fn files() -> [(&'static str, String); 5] {
    let pod = |kind: &str, name: &str, key: &str| {
        format!(
            "kind: {kind}\nmetadata: {{name: \"{name}\", labels: {{\"{key}\": x}}}}\nspec:\n  \
             topologySpreadConstraints:\n  - {{maxSkew: 0, topologyKey: \"{key}\", \
             whenUnsatisfiable: DoNotSchedule}}\n"
        )
    };
    [
        ("name.yaml", pod("Pod", HOSTILE, "k")),
        ("kind.yaml", pod(HOSTILE, "p", "k")),
        ("key.yaml", pod("Pod", "p", HOSTILE)),
        (
            "text.yaml",
            format!("kind: \"{HOSTILE}\"\nmetadata: [\u{7}\n"),
        ),
        (
            "owned.yaml",
            format!(
                "kind: Pod\nmetadata: {{name: p, ownerReferences: [{{kind: \"{HOSTILE}\", name: \
                 \"{HOSTILE}\", controller: true}}]}}\nspec: {{nodeName: a1}}\n"
            ),
        ),
    ]
}

#[test]
fn no_command_shows_what_moves_the_terminal() {
    let (_runtime, _server, mut workspace) = with_server();
    workspace.expect(0, "load cluster.yaml");
    for (name, content) in files() {
        workspace = workspace.file(name, &content);
    }
    let mut hold =
        workspace.command("place -f workloads.yaml --name web --spread-only --reserve 5m");
    let held = hold
        .args(["--owner", "a\u{1b}[2J\nFORGED\u{202e}b"])
        .output();
    assert!(held.expect("it runs").status.success());
    workspace.run("load owned.yaml --merge");
    let mut lines = vec![
        "reservation list".to_owned(),
        "reservation list -o json".to_owned(),
        "reservation list -o yaml".to_owned(),
        "spread".to_owned(),
        "spread -o json".to_owned(),
        "snapshot get -o json".to_owned(),
    ];
    for (name, _) in files() {
        let asked = ["filter", "score", "explain", "place --replicas 1", "lint"];
        lines.extend(asked.map(|command| format!("{command} -f {name}")));
        lines.push(format!("lint -o json -f {name}"));
        lines.push(format!("load {name} --merge"));
        lines.push(format!(
            "filter -f workloads.yaml --name web --overlay {name}"
        ));
        lines.push(format!("filter -f workloads.yaml --name web --load {name}"));
    }
    for line in lines {
        let outcome = workspace.run(&line);
        for text in [&outcome.out, &outcome.err] {
            let is_hidden = |c: char| c != '\n' && (c.is_control() || c == '\u{202e}');
            let hidden = text.chars().find(|c| is_hidden(*c));
            assert_eq!(hidden, None, "{line}: {text}");
            let forged = text.lines().find(|line| line.starts_with("FORGED"));
            assert_eq!(forged, None, "{line}: {text}");
        }
    }
}

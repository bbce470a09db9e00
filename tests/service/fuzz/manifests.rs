//! Files of any content are read or refused. Objects that were read and written are read again
//! alike.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use clap::Parser;
use evenkeel::cli::Cli;
use tempfile::TempDir;

const POD: &str = "kind: Pod\nmetadata: {name: new, labels: {app: web}}\n";

/// The first byte says what kind of text follows: cluster objects in YAML or JSON, a pod or
/// workload to filter or to place, default constraints.
pub fn check(input: &[u8]) {
    let Some((kind, text)) = input.split_first() else {
        return;
    };
    let workspace = workspace();
    match kind % 5 {
        0 => reads_what_it_wrote(workspace, "cluster.yaml", text),
        1 => reads_what_it_wrote(workspace, "cluster.json", text),
        2 => decides(workspace, "pod.yaml", text, "filter -f"),
        3 => decides(workspace, "workload.yaml", text, "place -f"),
        _ => decides(
            workspace,
            "defaults.yaml",
            text,
            "filter -f $POD --default-constraints",
        ),
    }
}

/// A directory with a cluster and a pod in it.
fn workspace() -> &'static Path {
    static DESK: OnceLock<TempDir> = OnceLock::new();
    let workspace = DESK.get_or_init(|| {
        let workspace = TempDir::new().expect("a directory for files");
        let cluster = "kind: Node\nmetadata: {name: node, labels: {zone: a}}\n";
        fs::write(workspace.path().join("base.yaml"), cluster).expect("a file can be written");
        fs::write(workspace.path().join("new.yaml"), POD).expect("a file can be written");
        workspace
    });
    workspace.path()
}

fn reads_what_it_wrote(workspace: &Path, name: &str, text: &[u8]) {
    let given = put(workspace, name, text);
    let [once, twice] = ["once.json", "twice.json"].map(|name| workspace.join(name));
    let _ = fs::remove_file(&once);
    save(&given, &once);
    if !once.exists() {
        return;
    }
    let _ = fs::remove_file(&twice);
    save(&once, &twice);
    // The line that names the snapshot differs, so it is left out.
    let [once, twice] = [once, twice].map(|path| {
        let saved = fs::read_to_string(path).expect("it was written");
        let lines = saved.lines().filter(|line| !line.contains("SavedSnapshot"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    });
    assert_eq!(once, twice);
}

fn save(from: &Path, to: &Path) {
    run(&["snapshot", "save", text(to), "--load", text(from)]);
}

fn decides(workspace: &Path, name: &str, content: &[u8], command: &str) {
    let given = put(workspace, name, content);
    let (pod, base) = (workspace.join("new.yaml"), workspace.join("base.yaml"));
    let mut words: Vec<&str> = command.split(' ').collect();
    for word in &mut words {
        if *word == "$POD" {
            *word = text(&pod);
        }
    }
    words.extend([text(&given), "--load", text(&base)]);
    run(&words);
}

fn put(workspace: &Path, name: &str, content: &[u8]) -> PathBuf {
    let path = workspace.join(name);
    fs::write(&path, content).expect("a file can be written");
    path
}

fn text(path: &Path) -> &str {
    path.to_str().expect("the path is ours")
}

fn run(words: &[&str]) {
    let words = ["evenkeel"].iter().chain(words);
    let cli = Cli::try_parse_from(words).expect("the command is ours");
    cli.run();
}

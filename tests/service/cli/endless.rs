//! Files without an end, and files with a line or an object that is too long.

use std::fs::File;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::cli::evenkeel::{Outcome, Workspace};
use crate::cli::process;
use crate::cli::workspace;

/// The longest time that a command may take to refuse a file.
const SOON: Duration = Duration::from_secs(60);

/// Longer than an object or a line may be.
const LONG: usize = 20 << 20;

/// Files that are refused, each with words of the refusal.
fn files() -> (Workspace, Vec<(&'static str, &'static str)>) {
    let long = "a".repeat(LONG);
    let zeros = "0,".repeat(LONG / 2);
    let object = |spec: &str| {
        format!(r#"{{"apiVersion": "v1", "kind": "Pod", "metadata": {{}}, "spec": {spec}}}"#)
    };
    let of_list = format!(
        r#"{{"items": [{}, {}]}}"#,
        object("{}"),
        object(&format!("[{zeros}0]"))
    );
    let workspace = workspace()
        .file(
            "line.yaml",
            &format!("kind: Pod\nmetadata: {{name: {long}}}\n"),
        )
        .file("flow.yaml", &format!("kind: Pod\nspec: [{zeros}0]\n"))
        .file("string.json", &object(&format!("\"{long}\"")))
        .file("list.json", &of_list)
        .file("blank.json", &" ".repeat(LONG))
        .file("binary.yaml", "kind: Pod\n\0\n");
    for (name, size) in [("size.yaml", 2_u64 << 30), ("size.json", 17 << 30)] {
        let file = File::create(workspace.path(name)).expect("it can be made");
        file.set_len(size).expect("it takes no room");
    }
    let refused = vec![
        (
            "/dev/zero",
            "/dev/zero: it holds a zero byte, so it is no text",
        ),
        ("binary.yaml", "binary.yaml: it holds a zero byte"),
        ("line.yaml", "line.yaml: one line of more than 16 MiB"),
        ("string.json", "one object of more than 16 MiB"),
        ("list.json", "one object of more than 16 MiB"),
        ("size.yaml", "size.yaml: more than 1 GiB"),
    ];
    (workspace, refused)
}

#[test]
fn no_command_reads_what_has_no_end() {
    let (workspace, mut refused) = files();
    let commands = [
        "lint -f",
        "lint pod/p --load",
        "filter -f workloads.yaml --name web --load",
        "filter --load cluster.yaml -f",
        "place --load cluster.yaml -f workloads.yaml --name web --overlay",
        "spread --load",
    ];
    let ask = |command: &str, file: &str, words: &str| {
        let start = Instant::now();
        let outcome = workspace.run(&format!("{command} {file}"));
        let took = start.elapsed();
        // An object that cannot be read is a finding of lint.
        let is_finding = command == "lint -f" && words.contains("object");
        let code = if is_finding { 1 } else { 2 };
        assert_eq!(outcome.code, code, "{command} {file}: {outcome:?}");
        let told = outcome.out + &outcome.err;
        assert!(told.contains(words), "{command} {file}: {told}");
        assert!(took < SOON, "{command} {file}: {took:?}");
    };
    for (number, command) in commands.into_iter().enumerate() {
        for (file, words) in &refused {
            // Long files take a while to read, so only every third command reads them.
            let is_long = words.contains("16 MiB");
            if !is_long || number % 3 == 0 {
                ask(command, file, words);
            }
        }
    }
    // `spread` takes JSON objects one by one, so it does not hold the file as a whole.
    refused = vec![
        ("size.json", "size.json: more than 16 GiB"),
        ("blank.json", "blank.json: one object of more than 16 MiB"),
    ];
    for (file, words) in refused {
        ask("spread --load", file, words);
    }
    ask(
        "lint -f",
        "flow.yaml",
        "flow.yaml: one line of more than 16 MiB",
    );
    ask("lint -f", "size.json", "size.json: more than 1 GiB");
}

#[cfg(unix)]
#[test]
fn pipes_are_read_to_their_end_and_no_further() {
    let workspace = workspace();
    let program = process::command(&[]).get_program().to_owned();
    let shell = |script: &str| {
        let mut command = std::process::Command::new("sh");
        command.args(["-c", script]).arg(&program);
        let child = command
            .current_dir(workspace.path(""))
            .stdin(Stdio::null())
            .output();
        Outcome::of(child.expect("there is a shell"))
    };
    let asked = "\"$0\" filter -f workloads.yaml --name web --load";
    let pipe = format!("mkfifo pipe; cat cluster.yaml > pipe & {asked} pipe");
    shell(&pipe).expect(1).says("b1");
    shell(&format!("cat cluster.yaml | {asked} -"))
        .expect(1)
        .says("b1");
    for command in [asked, "\"$0\" lint -f"] {
        let endless = shell(&format!("yes | tr -d '\\n' | {command} -"));
        endless
            .expect(2)
            .complains("standard input: one line of more than 16 MiB");
        let zeros = shell(&format!("{command} - < /dev/zero"));
        zeros
            .expect(2)
            .complains("standard input: it holds a zero byte");
    }
}

#[test]
fn a_line_of_a_decision_log_has_an_end() {
    let outcome = workspace().run("admin replay /dev/zero --load cluster.yaml");
    outcome.expect(2).complains("zero byte");
}

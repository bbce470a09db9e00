//! The binary as a plugin of kubectl: it asks the current context.

use crate::cli::evenkeel::{Outcome, Workspace};
use crate::cli::shop::workspace;

/// Runs the binary under another name, as kubectl runs plugins.
fn plugin(workspace: &Workspace, name: &str, args: &[&str]) -> Outcome {
    let path = workspace.path(name);
    if !path.exists() {
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_evenkeel"), &path).expect("a link");
    }
    let mut command = std::process::Command::new(path);
    command
        .args(args)
        .env("KUBECONFIG", workspace.path("kube.yaml"));
    command
        .env_remove("EVENKEEL_SERVER")
        .current_dir(workspace.path(""));
    crate::cli::process::run(command)
}

#[test]
fn as_a_plugin_it_asks_the_current_context() {
    let workspace = workspace();
    let run = |line: &str| {
        let args: Vec<&str> = line.split_whitespace().collect();
        plugin(&workspace, "kubectl-evenkeel", &args)
    };
    for (line, code) in [
        ("explain --pending", 1),
        ("explain deploy/web", 1),
        ("spread -A", 0),
        ("snapshot get", 0),
    ] {
        let outcome = run(line).expect(code);
        let is_told = outcome.out.contains("cluster one") || line == "snapshot get";
        assert!(is_told, "{line}: {}", outcome.out);
    }
    assert!(
        run("lint deploy -A")
            .expect(1)
            .out
            .contains("Deployment shop/web")
    );
    // A flag that says whom to ask wins over the current context.
    let files = run("explain --pending --load cluster.json").expect(1);
    assert!(
        files.out.starts_with("snapshot \"default\""),
        "{}",
        files.out
    );
    let server = run("explain --pending --server 127.0.0.1:1").expect(3);
    server.complains("cannot reach the server");
    let gone = run("explain --pending --context gone").expect(3);
    gone.complains("API server of gone");

    let help = run("--help").expect(0).out;
    assert!(help.contains("Usage: kubectl evenkeel "), "{help}");
    assert!(
        help.contains("kubectl evenkeel explain --pending"),
        "{help}"
    );
    let help = run("explain --help").expect(0).out;
    assert!(help.contains("Usage: kubectl evenkeel explain "), "{help}");
    assert!(
        help.contains("\n  kubectl evenkeel explain -f pod.yaml"),
        "{help}"
    );
}

#[test]
fn kubectl_gets_completions() {
    let workspace = workspace();
    let cases: [(&[&str], &[&str]); 11] = [
        (&["expl"], &["explain"]),
        (&["explain", "--pend"], &["--pending"]),
        (&["explain", "-o", "y"], &["yaml"]),
        (&["snapshot", "g"], &["get"]),
        (&["explain", "deploy/"], &["deploy/web"]),
        (&["spread", "rs/web-n"], &["rs/web-new"]),
        (&["explain", "-n", "default", "pod/"], &["pod/db-0"]),
        (&["explain", "pod/default/"], &["pod/default/db-0"]),
        (&["report", "-n", ""], &["default", "shop"]),
        (&["lint", "--context", "o"], &["one"]),
        (&["explain", "--context", "gone", "deploy/"], &[]),
    ];
    for (args, expected) in cases {
        let outcome = plugin(&workspace, "kubectl_complete-evenkeel", args).expect(0);
        let mut lines: Vec<&str> = outcome.out.lines().collect();
        assert_eq!(lines.pop(), Some(":4"), "{args:?}: {}", outcome.out);
        let words: Vec<&str> = lines
            .iter()
            .filter_map(|line| line.split('\t').next())
            .collect();
        assert_eq!(words, expected, "{args:?}");
    }
}

#[test]
fn a_shell_gets_the_names_of_a_cluster() {
    let workspace = workspace();
    let cases = [
        ("explain --kubeconfig kube.yaml deploy/", "deploy/web"),
        ("spread --kubeconfig kube.yaml -n s", "shop"),
        ("filter --kubeconfig kube.yaml --context g", "gone"),
        // Without a cluster only kinds are completed.
        ("explain s", "sts/"),
        ("explain deploy/", ""),
    ];
    for (line, expected) in cases {
        assert_eq!(workspace.completed(line), expected, "{line}");
    }
}

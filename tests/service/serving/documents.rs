//! The documents and examples are true: each command prints what they say.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Parser;
use evenkeel::proto::v1::FilterRequest;
use support::sessions::sessions;
use support::synth::Flags;

/// The path under which the documents call the binary.
const BINARY: &str = "target/debug/evenkeel ";

#[test]
fn documents_show_what_commands_print() {
    let mut shown = 0;
    for document in files("docs", "md") {
        for session in sessions(&read(&document)) {
            for command in session.commands {
                // Other commands need a server or other programs.
                let Some(arguments) = in_process(&command) else {
                    continue;
                };
                let printed = run(arguments, &[]);
                assert_eq!(
                    printed,
                    session.printed,
                    "{}: {command}",
                    document.display()
                );
                shown += 1;
            }
        }
    }
    assert!(shown > 0, "the documents show no command");
}

#[test]
fn the_tour_of_the_readme_is_real() {
    let tour = sessions(&read(&root().join("README.md"))).into_iter();
    let tour: Vec<(String, String)> = tour
        .map(|it| (it.commands.join("; "), it.printed))
        .collect();
    let served = |command: &str| -> Option<Vec<String>> {
        let arguments = command.strip_prefix("cargo run -- serve ")?;
        Some(arguments.split_whitespace().map(str::to_owned).collect())
    };
    let start = |(command, log): &(String, String)| Some((served(command)?, log.clone()));
    let start = tour.iter().find_map(start);
    let (arguments, log) = start.expect("the tour starts a server, with cargo");
    let mut serve = crate::serving::process::command(&["serve"]);
    let mut server =
        crate::serving::process::Server::spawn(serve.args(arguments).current_dir(root()));
    for line in log.lines() {
        let line = line.strip_prefix("INFO ").expect("nothing is wrong");
        let (target, said) = line.split_once(": ").expect("a target and a message");
        let words = said.split(' ').take_while(|word| !word.contains('='));
        let message = words.collect::<Vec<_>>().join(" ");
        assert_eq!(server.logged(&message, "target"), target, "{line}");
    }

    let mut shown = 0;
    // A command after other programs may depend on what those did.
    let mut alone = true;
    for (command, expected) in tour {
        if served(&command).is_some() {
            continue;
        }
        alone &= command.starts_with(BINARY);
        let arguments = match command.strip_prefix(BINARY) {
            Some(arguments) if alone => Some(arguments),
            _ => in_process(&command),
        };
        let Some(arguments) = arguments else { continue };
        let printed = run(arguments, &[("EVENKEEL_SERVER", server.url())]);
        assert_eq!(printed, expected, "{command}");
        shown += 1;
    }
    assert!(shown > 0, "the tour shows no command");
}

/// The commands of the page about load tests fill a server, and its question is answered.
#[test]
fn the_load_test_asks_what_it_says() {
    let page = read(&root().join("docs/load-testing.md"));
    let (_, rest) = page.split_once("filter.json <<'END'\n").expect("a file");
    let (question, _) = rest.split_once("\nEND\n").expect("its end");
    let fill = page
        .lines()
        .find_map(|line| line.strip_prefix("cargo run --release -p evenkeel-testing --bin "))
        .expect("it generates a cluster");
    assert!(
        page.contains(" |\n  evenkeel load -\n"),
        "it fills a server"
    );
    let smaller = fill
        .trim_end_matches(" |")
        .replace(" -- ", " ")
        .replace("--nodes 5000", "--nodes 50")
        .replace("--pods 150000", "--pods 3000");
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("cluster.json");
    let cluster = Flags::parse_from(smaller.split(' ')).cluster();
    let written = cluster.write_list(fs::File::create(&file).expect("a file"));
    written.expect("it is written");
    let server = crate::serving::process::Server::start(&[]);
    let address = [("EVENKEEL_SERVER", server.url())];
    run(&format!("load {}", file.display()), &address);
    let asked: FilterRequest = serde_json::from_str(question).expect("a request");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let answer = runtime.block_on(server.filter(asked));
    assert!(answer.feasible_count > 0, "{answer:?}");
    assert_eq!(answer.constraints[0].domain_count, 10);
    assert!(answer.feasible.is_empty(), "names are not asked for");
}

#[test]
fn examples_do_what_their_comments_say() {
    let mut checked = 0;
    for example in files("examples", "yaml") {
        let text = read(&example);
        let comment = |line: &str| Some(line.strip_prefix('#')?.trim().to_owned());
        let head: Vec<String> = text.lines().map_while(comment).collect();
        let expect = head.iter().find_map(|line| line.strip_prefix("expect:"));
        let Some(expected) = expect else { continue };
        let commands = joined(head.iter().map(String::as_str));
        let command = commands.iter().find_map(|line| line.strip_prefix(BINARY));
        let command = command.expect("an example with an expectation has a command");
        let names = run(&format!("{command} -o name"), &[]);
        let names: Vec<&str> = names.lines().collect();
        let expected: Vec<&str> = expected.split_whitespace().collect();
        assert_eq!(names, expected, "{}", example.display());
        checked += 1;
    }
    assert!(checked > 0, "no example says what to expect");
}

#[test]
fn links_lead_to_files_and_headings() {
    let named = [
        "CONTRIBUTING.md",
        "README.md",
        "SECURITY.md",
        "clients/go/README.md",
        "clients/python/README.md",
        "examples/README.md",
        "tests/README.md",
    ];
    let named = named.map(|name| root().join(name));
    let documents = files("docs", "md").into_iter().chain(files("deploy", "md"));
    for document in documents.chain(named) {
        let directory = document.parent().expect("a file is in a directory");
        for link in links(&read(&document)) {
            let (path, heading) = link.split_once('#').unwrap_or((&link, ""));
            let target = match path {
                "" => document.clone(),
                path => directory.join(path),
            };
            let from = document.display();
            assert!(target.exists(), "{from}: {link} leads to no file");
            let found = heading.is_empty() || anchors(&read(&target)).any(|it| it == heading);
            assert!(found, "{from}: {link} leads to no heading");
        }
    }
}

/// Everybody who dumps a cluster dumps the same kinds.
#[test]
fn the_recommended_dump_is_one_list() {
    let texts = [
        run("--help", &[]),
        run("load --help", &[]),
        read(&root().join("README.md")),
        read(&root().join("docs/feeding.md")),
    ];
    let lists = texts.iter().map(|text| {
        let (_, list) = text.split_once("kubectl get nodes,").expect("a dump");
        list.split_whitespace().next().expect("kinds")
    });
    let lists: Vec<&str> = lists.collect();
    assert!(lists[0].contains("deployments"), "{lists:?}");
    assert!(lists.iter().all(|list| *list == lists[0]), "{lists:?}");
}

/// The document about explanations lists the rules of lint.
#[test]
fn every_rule_of_lint_is_listed() {
    let document = read(&root().join("docs/explaining.md"));
    let (_, table) = document
        .split_once("| rule | severity | finds |")
        .expect("a table");
    let rows = table
        .lines()
        .skip(2)
        .take_while(|line| line.starts_with('|'));
    let named = rows.filter_map(|row| row.split('`').nth(1));
    let listed: BTreeSet<&str> = named.collect();
    let help = run("lint --help", &[]);
    let (_, flag) = help.split_once("--ignore").expect("a flag");
    let (_, values) = flag.split_once("Possible values:").expect("values");
    let values = values.lines().skip(1).map(str::trim);
    let values = values.take_while(|line| !line.is_empty());
    let named = values.filter_map(|line| line.strip_prefix("- "));
    let known: BTreeSet<&str> = named.filter_map(|line| line.split(':').next()).collect();
    assert_eq!(listed, known);
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).expect("the file can be read")
}

/// All files with an extension below a directory, by name.
fn files(directory: &str, extension: &str) -> Vec<PathBuf> {
    let walk = walkdir::WalkDir::new(root().join(directory)).sort_by_file_name();
    let paths = walk
        .into_iter()
        .map(|entry| entry.expect("the directory can be read").into_path());
    paths
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .collect()
}

/// The arguments of a command that decides without a server.
fn in_process(command: &str) -> Option<&str> {
    let arguments = command.strip_prefix(BINARY)?;
    let decides = arguments.contains("--load ") && !arguments.starts_with("serve");
    decides.then_some(arguments)
}

/// The lines of a document that are not in blocks of code.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// Where the links of a document lead that stay in the repository.
fn links(text: &str) -> Vec<String> {
    let targets = prose(text).flat_map(|line| line.split("](").skip(1));
    let targets = targets.map(|rest| rest.split_once(')').expect("a link has an end").0);
    let inside = targets.filter(|target| !target.contains("://"));
    inside.map(str::to_owned).collect()
}

/// The anchors that the headings of a document have.
fn anchors(text: &str) -> impl Iterator<Item = String> {
    let headings = prose(text).filter_map(|line| line.strip_prefix('#'));
    headings.map(|heading| {
        let heading = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = |c: &char| c.is_alphanumeric() || "-_ ".contains(*c);
        heading
            .chars()
            .filter(kept)
            .collect::<String>()
            .replace(' ', "-")
    })
}

/// Lines, where a line that ends with a backslash is joined with the next.
fn joined<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut joined: Vec<String> = Vec::new();
    let mut goes_on = false;
    for line in lines {
        let (text, continues) = match line.strip_suffix(" \\") {
            Some(text) => (text, true),
            None => (line, false),
        };
        match joined.last_mut() {
            Some(last) if goes_on => last.push_str(&format!(" {}", text.trim())),
            _ => joined.push(text.to_owned()),
        }
        goes_on = continues;
    }
    joined
}

/// Returns the standard output of the binary. No argument in the documents needs quotes.
fn run(arguments: &str, variables: &[(&str, &str)]) -> String {
    let arguments: Vec<&str> = arguments.split_whitespace().collect();
    let mut command = crate::serving::process::command(&arguments);
    // The documents show a terminal of this width.
    command.current_dir(root()).env("COLUMNS", "120");
    command.envs(variables.iter().copied());
    crate::serving::process::run(command).out
}

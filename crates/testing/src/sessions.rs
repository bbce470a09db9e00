//! Documents that show a terminal: commands, and all that they print. They are Markdown.
//!
//! A block of code whose first line names a file is that file. A block of `console` has commands
//! after `$`, each with its exit code after `?` unless that is 0, its standard output, and the lines
//! of its standard error after `!`. Commands without anything between them all print what stands
//! below the last of them. `[..]` stands for any text of a line, a line `...` for any lines, and
//! `UUID`, `SERVER`, `API` and `PWD` for identifiers, addresses and the directory.
//!
//! Each section begins in a directory of its own with the files that stand before the first section.
//! A shell runs the commands there. `serve` starts a server that further commands ask, once it is
//! ready, and `cluster FILE NAMESPACE` an API server with the objects of a file and a context in this namespace.
//! `SESSIONS=write` writes what commands print now.

use std::fmt::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::api_server::ApiServer;
use crate::process::{self, Outcome, Server};

/// Commands that print the same, and what that is.
#[derive(Debug, Default)]
pub struct Session {
    pub commands: Vec<String>,
    pub printed: String,
    /// The lines of each command.
    shown: Vec<String>,
    /// The line of the document at which the commands begin, and that after what they print.
    lines: (usize, usize),
}

#[derive(Debug)]
enum Step {
    /// A name and a content.
    File(String, String),
    Run(Session),
}

/// Returns the commands of all blocks of `console`.
pub fn sessions(document: &str) -> Vec<Session> {
    let steps = sections(document).into_iter().flatten();
    let of_console = steps.filter_map(|step| match step {
        Step::Run(session) => Some(session),
        Step::File(..) => None,
    });
    of_console.collect()
}

/// The steps before the first section, and those of each section.
fn sections(document: &str) -> Vec<Vec<Step>> {
    let mut sections = vec![Vec::new()];
    let mut lines = document.lines().enumerate();
    while let Some((_, line)) = lines.next() {
        if line.starts_with("## ") {
            sections.push(Vec::new());
        }
        let Some(kind) = line.strip_prefix("```") else {
            continue;
        };
        let block: Vec<_> = lines
            .by_ref()
            .take_while(|(_, line)| *line != "```")
            .collect();
        let section = sections.last_mut().expect("there is one");
        match kind.split_once(' ') {
            Some((_, name)) => {
                let text = block.iter().map(|(_, line)| format!("{line}\n"));
                section.push(Step::File(name.to_owned(), text.collect()));
            }
            None if kind == "console" => section.extend(of_console(&block).map(Step::Run)),
            None => {}
        }
    }
    sections
}

fn of_console(block: &[(usize, &str)]) -> impl Iterator<Item = Session> {
    let mut sessions: Vec<Session> = Vec::new();
    let mut goes_on = false;
    for (number, line) in block {
        let command = match line.strip_prefix("$ ") {
            Some(command) => Some(command),
            None => goes_on.then(|| line.trim()),
        };
        let is_new = sessions
            .last()
            .is_none_or(|it| !it.printed.is_empty() || it.commands.iter().any(|it| is_start(it)));
        if command.is_some() && is_new {
            let lines = (*number, *number);
            sessions.push(Session {
                lines,
                ..Session::default()
            });
        }
        let session = sessions.last_mut().expect("a command comes first");
        session.lines.1 = number + 1;
        let Some(command) = command else {
            session.printed += &format!("{line}\n");
            continue;
        };
        let (text, continues) = match command.strip_suffix(" \\") {
            Some(text) => (text, true),
            None => (command, false),
        };
        match session.commands.last_mut() {
            Some(last) if goes_on => {
                *last += &format!(" {text}");
                let shown = session.shown.last_mut().expect("it has begun");
                *shown += &format!("\n{line}");
            }
            _ => {
                session.commands.push(text.to_owned());
                session.shown.push((*line).to_owned());
            }
        }
        goes_on = continues;
    }
    sessions.into_iter()
}

/// Returns whether a command starts a server, and so prints nothing.
fn is_start(command: &str) -> bool {
    command.starts_with("serve") || command.starts_with("cluster ")
}

/// A directory in which commands run, and the servers that they have started.
struct Desk {
    directory: TempDir,
    servers: Vec<Server>,
    clusters: Vec<ApiServer>,
}

impl Desk {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory can be made");
        // Documents show files of the repository, too.
        #[cfg(unix)]
        for shared in ["examples", "docs"] {
            let root = std::env::var("CARGO_MANIFEST_DIR").expect("cargo runs the tests");
            let link = directory.path().join(shared);
            std::os::unix::fs::symlink(Path::new(&root).join(shared), link).expect("a link");
        }
        Self {
            directory,
            servers: Vec::new(),
            clusters: Vec::new(),
        }
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.directory.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("it can be made");
        std::fs::write(path, text).expect("it can be written");
    }

    /// Runs a command. Returns what it prints, in the form of a document.
    fn run(&mut self, command: &str) -> String {
        let words: Vec<&str> = command.split_whitespace().collect();
        match words.as_slice() {
            ["serve", flags @ ..] => {
                let mut serve = process::command(&["serve"]);
                serve.args(flags).current_dir(&self.directory);
                let mut server = Server::spawn(&mut serve);
                if flags.contains(&"--load") {
                    server.logged("ready", "message");
                }
                self.servers.push(server);
                String::new()
            }
            ["cluster", file, namespace] => {
                let path = self.directory.path().join(file);
                let text = std::fs::read_to_string(path).expect("the file is there");
                let list: Value = serde_saphyr::from_str(&text).expect("it is YAML");
                let objects = list["items"].as_array().expect("a list").clone();
                let api = ApiServer::holding(objects);
                self.write("kube.yaml", &api.config(namespace));
                self.clusters.push(api);
                String::new()
            }
            _ => self.written(&self.in_shell(command)),
        }
    }

    fn in_shell(&self, command: &str) -> Outcome {
        let program = process::command(&[]).get_program().to_owned();
        let programs = Path::new(&program).parent().expect("a directory");
        let path = std::env::var("PATH").unwrap_or_default();
        let mut shell: Command = process::command_of("sh".as_ref(), &["-c", command]);
        shell.current_dir(&self.directory).stdin(Stdio::null());
        shell.env("PATH", format!("{}:{path}", programs.display()));
        if let Some(server) = self.servers.last() {
            shell.env("EVENKEEL_SERVER", server.url());
        }
        process::run(shell)
    }

    /// What was printed, in the form of a document.
    fn written(&self, outcome: &Outcome) -> String {
        let text = |text: &str| {
            let mut text = text.to_owned();
            for server in &self.servers {
                text = text.replace(server.address(), "SERVER");
            }
            for cluster in &self.clusters {
                text = text.replace(cluster.url().trim_start_matches("http://"), "API");
            }
            without_ids(&text.replace(&*self.directory.path().to_string_lossy(), "PWD"))
        };
        let mut written = String::new();
        if outcome.code != 0 || outcome.said().is_empty() {
            writeln!(written, "? {}", outcome.code).expect("a text can be written");
        }
        written += &text(&outcome.out);
        if !written.ends_with('\n') {
            written.push('\n');
        }
        for line in text(&outcome.err).lines() {
            written += format!("! {line}").trim_end();
            written.push('\n');
        }
        written
    }
}

/// The text with `UUID` for each identifier, which differs from run to run.
fn without_ids(text: &str) -> String {
    let is_id = |word: &str| {
        let parts = word.split('-').map(str::len);
        parts.eq([8, 4, 4, 4, 12]) && word.chars().all(|c| c == '-' || c.is_ascii_hexdigit())
    };
    let is_of_word = |c: char| c == '-' || c.is_ascii_alphanumeric();
    let words = text.split_inclusive(|c| !is_of_word(c));
    let replaced = words.map(|word| {
        let id = word.trim_end_matches(|c| !is_of_word(c));
        match is_id(id) {
            true => word.replace(id, "UUID"),
            false => word.to_owned(),
        }
    });
    replaced.collect()
}

/// Returns whether a document shows what was printed.
fn shows(shown: &str, printed: &str) -> bool {
    let shown: Vec<&str> = shown.trim_end().lines().collect();
    let printed: Vec<&str> = printed.trim_end().lines().collect();
    is_as_shown(&shown, &printed)
}

fn is_as_shown(shown: &[&str], printed: &[&str]) -> bool {
    match shown.split_first() {
        None => printed.is_empty(),
        Some((&"...", rest)) => (0..=printed.len()).any(|from| is_as_shown(rest, &printed[from..])),
        Some((line, rest)) => printed
            .split_first()
            .is_some_and(|(first, more)| is_line_as_shown(line, first) && is_as_shown(rest, more)),
    }
}

fn is_line_as_shown(shown: &str, line: &str) -> bool {
    let Some((start, rest)) = shown.split_once("[..]") else {
        return shown == line;
    };
    let Some(mut left) = line.strip_prefix(start) else {
        return false;
    };
    let mut parts: Vec<&str> = rest.split("[..]").collect();
    let end = parts.pop().expect("there is one at least");
    for part in parts {
        let Some((_, after)) = left.split_once(part) else {
            return false;
        };
        left = after;
    }
    left.ends_with(end)
}

/// Runs all commands of a document, and compares what they print.
///
/// # Panics
/// When one prints something else than the document shows.
pub fn check(document: &Path) {
    let text = std::fs::read_to_string(document).expect("the document is there");
    let mut sections = sections(&text).into_iter();
    let before = sections.next().expect("there is one at least");
    let mut wrong = Vec::new();
    for section in sections {
        let mut desk = Desk::new();
        for step in before.iter().chain(&section) {
            match step {
                Step::File(name, content) => desk.write(name, content),
                Step::Run(session) => {
                    let printed = session.commands.iter().map(|it| desk.run(it));
                    let printed: Vec<String> = printed.collect();
                    let is_right = printed.iter().all(|it| shows(&session.printed, it));
                    if !is_right {
                        wrong.push((session.lines, written(session, &printed)));
                    }
                }
            }
        }
    }
    if std::env::var("SESSIONS").is_ok_and(|it| it == "write") {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        for ((from, to), right) in wrong.into_iter().rev() {
            lines.splice(from..to, [right]);
        }
        std::fs::write(document, lines.join("\n") + "\n").expect("it can be written");
        return;
    }
    let wrong = wrong.into_iter().map(|((line, _), right)| {
        let line = line + 1;
        format!("{}:{line}: prints\n{right}\n", document.display())
    });
    let wrong: String = wrong.collect();
    assert!(wrong.is_empty(), "{wrong}");
}

/// Commands with what they print. Those that print the same stand together.
fn written(session: &Session, printed: &[String]) -> String {
    let mut text = String::new();
    for (index, (command, now)) in session.shown.iter().zip(printed).enumerate() {
        text += &format!("{command}\n");
        if printed.get(index + 1) != Some(now) {
            text += now;
        }
    }
    text.trim_end().to_owned()
}

//! `evenkeel completions` and `evenkeel man`: scripts by which shells complete commands and flags, and
//! manual pages of all commands. Names are completed while they are typed: contexts of the kubeconfig, and
//! namespaces and objects of the files or the cluster that the earlier words select.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use std::{env, thread};

use anyhow::{Context, Result};
use clap::{ArgMatches, Args, Command, CommandFactory};
use clap_complete::Shell;
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use clap_complete::env::{CompleteEnv, Shells};
use tokio::runtime::Builder;
use tokio::time::timeout;

use super::command_line::is_plugin;
use super::endpoint::Endpoint;
use super::exit::Exit;
use super::{Cli, output};
use crate::kubernetes::{ApiResource, ClusterClient, ObjectSelection, OnRefusal, Target};
use crate::manifest::ObjectName;
use crate::matching::names::DEFAULT_NAMESPACE;
use crate::snapshot::ObjectKind;

/// The variable by which a shell's script asks for completions.
const ASKED: &str = "_EVENKEEL_COMPLETE";

/// Flags of `evenkeel completions`.
#[derive(Debug, Args)]
#[command(after_help = "\
The script asks the program, which offers commands and flags, and with --load, --context,
--kubeconfig or --from-cluster, the namespaces and objects of those files or that cluster.

Examples:
  evenkeel completions bash > ~/.local/share/bash-completion/completions/evenkeel
  evenkeel completions zsh > \"${fpath[1]}/_evenkeel\"
  evenkeel completions fish > ~/.config/fish/completions/evenkeel.fish")]
pub(crate) struct Completions {
    /// Which shell
    #[arg(value_enum)]
    shell: Shell,
}

impl Completions {
    /// Writes the script of a shell.
    pub(crate) fn run(self) -> Result<Exit> {
        let mut script = Vec::new();
        let shells = Shells::builtins();
        let shell = shells.completer(&self.shell.to_string());
        let shell = shell.expect("each shell that can be named is built in");
        shell.write_registration(ASKED, "evenkeel", "evenkeel", "evenkeel", &mut script)?;
        output::print_bytes(&script)?;
        Ok(Exit::Success)
    }
}

/// Completes a command line, if a shell's script asks for it. Returns whether a script asked.
pub(super) fn complete(
    commands: impl Fn() -> Command,
    args: &[OsString],
) -> Result<bool, clap::Error> {
    let current = std::env::current_dir().ok();
    let asked = CompleteEnv::with_factory(commands).var(ASKED);
    asked.try_complete(args.iter().cloned(), current.as_deref())
}

/// Flags of `evenkeel man`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  evenkeel man ~/.local/share/man/man1
  man evenkeel-explain")]
pub(crate) struct Man {
    /// Directory to write to, one page for each command; it is made if it is not there
    directory: PathBuf,
}

impl Man {
    /// Writes the pages of a command line.
    pub(crate) fn run(self, commands: Command) -> Result<Exit> {
        let writing = || format!("writing manual pages to {}", self.directory.display());
        std::fs::create_dir_all(&self.directory).with_context(writing)?;
        let commands = commands.disable_help_subcommand(true);
        clap_mangen::generate_to(commands, &self.directory).with_context(writing)?;
        Ok(Exit::Success)
    }
}

/// The longest time that completion waits for an API server, or for files.
const PATIENCE: Duration = Duration::from_secs(2);

/// The short names of the kinds that are offered.
const KINDS: [&str; 8] = ["cj", "deploy", "ds", "job", "pod", "rc", "rs", "sts"];

/// Completes `KIND/NAME` and `KIND/NAMESPACE/NAME`.
pub(super) fn objects() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| offered(typed, &object_names(typed)))
}

/// Completes the name of a namespace.
pub(super) fn namespaces() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| {
        let source = NameSource::typed();
        if !source.files.is_empty() {
            return offered(typed, &namespaces_in(source.files));
        }
        let namespaces = ApiResource::of(ObjectKind::Namespace);
        offered(typed, &ask(source, namespaces, None))
    })
}

/// Completes the name of a context.
pub(super) fn contexts() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| offered(typed, &NameSource::typed().target.contexts()))
}

/// Returns the names that begin with the typed text. Names with unusual characters are left out,
/// because the shell reads them.
fn offered(typed: &OsStr, names: &[String]) -> Vec<CompletionCandidate> {
    let typed = typed.to_string_lossy();
    let is_plain = |name: &&String| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-._/@:".contains(c);
        name.starts_with(&*typed) && name.chars().all(plain)
    };
    let names = names.iter().filter(is_plain);
    names.map(CompletionCandidate::new).collect()
}

/// Returns kinds or, after `KIND/`, the objects of this kind.
fn object_names(typed: &OsStr) -> Vec<String> {
    let typed = typed.to_string_lossy();
    let Some((kind, rest)) = typed.split_once('/') else {
        return KINDS.iter().map(|kind| format!("{kind}/")).collect();
    };
    let source = NameSource::typed();
    let given = source.namespace.clone();
    if !source.files.is_empty() {
        let own = given.unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned());
        return names_in(source.files, kind, &own);
    }
    let Some(resource) = ApiResource::of_kind(ObjectName::full_kind(kind)) else {
        return Vec::new();
    };
    let namespace = rest.split_once('/').map(|(namespace, _)| namespace);
    let start = match namespace {
        Some(namespace) => format!("{kind}/{namespace}/"),
        None => format!("{kind}/"),
    };
    let namespace = namespace.map_or(given, |it| Some(it.to_owned()));
    let names = ask(source, resource, Some(namespace));
    names.iter().map(|name| format!("{start}{name}")).collect()
}

/// Returns the objects of a kind in files: as `KIND/NAME` in the namespace `own`, else as
/// `KIND/NAMESPACE/NAME`.
fn names_in(files: Vec<PathBuf>, kind: &str, own: &str) -> Vec<String> {
    let full_kind = ObjectName::full_kind(kind);
    let objects = objects_in(files).into_iter();
    let is_of = |it: &ObjectName| {
        let kind = it.kind.as_ref();
        kind.is_some_and(|kind| kind.eq_ignore_ascii_case(full_kind))
    };
    let names = objects.filter(is_of).map(|it| {
        let (namespace, name) = (it.namespace.unwrap_or_default(), it.name);
        match namespace == own {
            true => format!("{kind}/{name}"),
            false => format!("{kind}/{namespace}/{name}"),
        }
    });
    names.collect::<BTreeSet<String>>().into_iter().collect()
}

fn namespaces_in(files: Vec<PathBuf>) -> Vec<String> {
    let objects = objects_in(files).into_iter();
    let namespaces = objects.map(|object| match object.kind.as_deref() {
        Some("Namespace") => object.name,
        _ => object.namespace.unwrap_or_default(),
    });
    namespaces
        .collect::<BTreeSet<String>>()
        .into_iter()
        .collect()
}

/// Returns the objects in files, as far as they can be read in time. The thread that reads ends
/// with the process.
fn objects_in(files: Vec<PathBuf>) -> Vec<ObjectName> {
    let (send, receive) = mpsc::channel();
    thread::spawn(move || {
        for file in files {
            // A file that cannot be read has no names.
            let _ = ObjectName::for_each_in(&file, |object| _ = send.send(object));
        }
    });
    let end = Instant::now() + PATIENCE;
    let next = || {
        let left = end.saturating_duration_since(Instant::now());
        receive.recv_timeout(left).ok()
    };
    std::iter::from_fn(next).collect()
}

/// Returns the names of a resource's objects, in all namespaces or in one, by default the
/// context's. Empty if no cluster is selected, or it does not answer in time.
fn ask(
    source: NameSource,
    resource: &'static ApiResource,
    namespace: Option<Option<String>>,
) -> Vec<String> {
    if !source.is_cluster {
        return Vec::new();
    }
    let Ok(runtime) = Builder::new_current_thread().enable_all().build() else {
        return Vec::new();
    };
    let asked = async {
        let cluster = source.target.connect(OnRefusal::Retry).await.ok()?;
        let namespace = namespace.map(|it| it.unwrap_or_else(|| cluster.namespace.clone()));
        list(&cluster, resource, namespace.as_deref()).await
    };
    let names = runtime.block_on(async { timeout(PATIENCE, asked).await });
    names.ok().flatten().unwrap_or_default()
}

async fn list(
    cluster: &ClusterClient,
    resource: &'static ApiResource,
    namespace: Option<&str>,
) -> Option<Vec<String>> {
    let wanted = ObjectSelection {
        resource,
        namespace,
        labels: "",
        fields: "",
    };
    let objects = cluster.list(wanted, &mut |_| {}).await.ok()?;
    let names = objects.iter().map(|it| it["metadata"]["name"].as_str());
    Some(names.flatten().map(str::to_owned).collect())
}

/// Reads the flags of the typed command line. A shell's script passes its words after `--`. The last word
/// is still being typed.
fn typed_flags() -> Option<(Vec<OsString>, ArgMatches)> {
    let mut words: Vec<OsString> = env::args_os().collect();
    if let Some(place) = words.iter().position(|word| word == "--") {
        words.drain(..=place);
    }
    words.pop();
    let command = Cli::command().ignore_errors(true);
    let mut matches = command.try_get_matches_from(&words).ok()?;
    while let Some((_, inner)) = matches.remove_subcommand() {
        matches = inner;
    }
    Some((words, matches))
}

/// The source of names that the typed words select.
#[derive(Default)]
struct NameSource {
    files: Vec<PathBuf>,
    target: Target,
    /// True if the names are those of a cluster: that of a flag, or the current one of a plugin of kubectl.
    is_cluster: bool,
    namespace: Option<String>,
}

impl NameSource {
    fn typed() -> Self {
        let Some((words, flags)) = typed_flags() else {
            return Self::default();
        };
        let text = |id| flags.try_get_one::<String>(id).ok().flatten().cloned();
        let path = |id| flags.try_get_many::<PathBuf>(id).ok().flatten();
        let kubeconfig = path("kubeconfig").into_iter().flatten().next().cloned();
        let context = text("context");
        let files = path("load").into_iter().flatten();
        let is_flagged = flags.try_get_one::<bool>("from-cluster").ok().flatten() == Some(&true);
        let is_of_plugin = is_plugin(&words) && text(Endpoint::ADDRESS).is_none();
        let is_named = context.is_some() || kubeconfig.is_some();
        Self {
            files: files
                .filter(|file| *file != Path::new("-"))
                .cloned()
                .collect(),
            is_cluster: path("load").is_none() && (is_flagged || is_named || is_of_plugin),
            namespace: text("namespace"),
            target: Target {
                kubeconfig,
                context,
            },
        }
    }
}

//! `evenkeel admin replay`: repeats the decisions of a decision log, and compares the answers.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;

use super::args;
use super::backend::Client;
use super::exit::{Exit, Unreachable};
use super::output;
use super::render::{self, Different, Replayed};
use super::source;
use super::stored;
use crate::decision_log::{Brief, Line, LoggedRequest};
use crate::manifest::{FiniteText, SavedOrigin};
use crate::proto::v1::Pod;

/// Flags of `evenkeel admin replay`.
#[derive(Debug, Args)]
#[command(after_help = "\
A decision depends on the state that it saw. Save that state while it is current, and load it here.
The file contains its revision. Decisions on other revisions are repeated too, and a difference says
so.

Examples:
  evenkeel snapshot save state.json && evenkeel admin replay decisions.jsonl --load state.json
  evenkeel admin replay decisions.jsonl.1 decisions.jsonl --load state.json
  evenkeel admin replay decisions.jsonl -o json             on the server's current state")]
pub(crate) struct ReplayCommand {
    /// Files that `serve --decision-log` wrote, or - for standard input
    #[arg(required = true, value_name = "LOG")]
    logs: Vec<PathBuf>,

    #[command(flatten)]
    state: source::SnapshotSource,

    #[command(flatten)]
    output: args::OutputFlag,
}

/// An answer, and the state that gave it.
struct ReplayedAnswer {
    brief: Brief,
    epoch: String,
    revision: i64,
}

impl ReplayCommand {
    /// Repeats the decisions and prints the result.
    pub(crate) async fn run(self) -> Result<Exit> {
        let readers = self.logs.iter().filter(|log| *log == Path::new("-"));
        let readers = readers.count() + usize::from(self.state.reads_standard_input());
        anyhow::ensure!(readers <= 1, "standard input can be read once only");
        let opened = self.state.open().await?;
        let saved = opened.objects.as_ref();
        let saved = saved.and_then(|objects| objects.saved.as_ref());
        let mut replayed = Replayed {
            snapshot: self.state.snapshot().to_owned(),
            epoch: saved.map(|saved| saved.epoch.clone()),
            revision: saved.map(|saved| saved.revision),
            ..Replayed::default()
        };
        let others = self
            .replay_all(&opened.client, saved, &mut replayed)
            .await?;
        let read = replayed.same + replayed.different.len();
        anyhow::ensure!(
            read > 0,
            "no decision about snapshot {:?} in the log{}",
            replayed.snapshot,
            match others.is_empty() {
                true => String::new(),
                false => format!(
                    "; choose with --snapshot: {}",
                    others.into_iter().collect::<Vec<_>>().join(", ")
                ),
            }
        );
        let names = || {
            let different = replayed.different.iter();
            different.map(|different| different.id.clone()).collect()
        };
        self.output
            .print(&replayed, || render::replayed(&replayed), names)?;
        Ok(Exit::of(replayed.different.is_empty()))
    }

    /// Repeats every decision about the snapshot. Returns the names of other snapshots in the logs.
    async fn replay_all(
        &self,
        client: &Client,
        saved: Option<&SavedOrigin>,
        replayed: &mut Replayed,
    ) -> Result<BTreeSet<String>> {
        let mut others = BTreeSet::new();
        // All logs are opened before the first request, because the server may append to one of
        // them.
        let opened: Result<Vec<_>> = self.logs.iter().map(|log| open(log)).collect();
        for (log, lines) in self.logs.iter().zip(opened?) {
            for (number, text) in (1..).zip(lines) {
                let text = text.with_context(|| format!("reading {}", log.display()))?;
                match Line::parse(&text) {
                    Err(error) => {
                        let place = format!("{}, line {number}", log.display());
                        output::warn(&format!("{place}: not a decision: {error}"));
                        replayed.unreadable += 1;
                    }
                    Ok(line) if line.snapshot != replayed.snapshot => {
                        others.insert(line.snapshot);
                        replayed.of_other_snapshots += 1;
                    }
                    Ok(line) => self.replay(client, line, saved, replayed).await?,
                }
            }
        }
        Ok(others)
    }

    async fn replay(
        &self,
        client: &Client,
        mut line: Line,
        saved: Option<&SavedOrigin>,
        replayed: &mut Replayed,
    ) -> Result<()> {
        line.request.ask_now(self.state.snapshot());
        let is_same = |epoch: &str, revision| epoch == line.epoch && revision == line.revision;
        let mut same_revision = saved.map(|saved| is_same(&saved.epoch, saved.revision));
        let answered = match ask(client, line.request.clone()).await {
            Ok(answered) => Ok(answered),
            Err(error) if error.is::<Unreachable>() => return Err(error),
            Err(error) => Err(format!("{error:#}")),
        };
        if let (false, Ok(answered)) = (self.state.is_local(), &answered) {
            same_revision = Some(is_same(&answered.epoch, answered.revision));
            replayed.epoch = Some(answered.epoch.clone());
            replayed.revision = Some(answered.revision);
        }
        let (differences, refused) = match answered {
            Ok(answered) => (line.answer.differences(&answered.brief), None),
            Err(error) => (Vec::new(), Some(error)),
        };
        if differences.is_empty() && refused.is_none() {
            replayed.same += 1;
            return Ok(());
        }
        replayed.different.push(Different {
            rpc: line.request.rpc().to_owned(),
            pod: pod_name(&line.request),
            id: line.id,
            time: line.time,
            epoch: line.epoch,
            revision: line.revision,
            same_revision,
            differences,
            refused,
        });
        Ok(())
    }
}

/// The lines of a log. Of a file, only the lines that it has now are read.
fn open(log: &Path) -> Result<Box<dyn Iterator<Item = io::Result<String>>>> {
    let lines_of = |input: Box<dyn io::Read>| {
        let lines = BufReader::new(FiniteText::new(input)).lines();
        Ok(Box::new(lines) as Box<dyn Iterator<Item = _>>)
    };
    if log == Path::new("-") {
        return lines_of(Box::new(io::stdin()));
    }
    let opened = File::open(log).and_then(|file| Ok((file.metadata()?, file)));
    let (metadata, file) = opened.with_context(|| format!("reading {}", log.display()))?;
    let most = match metadata.is_file() {
        true => metadata.len(),
        false => u64::MAX,
    };
    lines_of(Box::new(file.take(most)))
}

async fn ask(client: &Client, request: LoggedRequest) -> Result<ReplayedAnswer> {
    macro_rules! asked {
        ($request:ident, $brief:ident) => {{
            let answer = client.call($request).await?;
            ReplayedAnswer {
                brief: Brief::$brief(&answer),
                epoch: answer.epoch,
                revision: answer.revision,
            }
        }};
    }
    Ok(match request {
        LoggedRequest::Filter(request) => asked!(request, of_filter),
        LoggedRequest::Score(request) => asked!(request, of_score),
        LoggedRequest::Explain(request) => asked!(request, of_explain),
        LoggedRequest::Place(mut request) => {
            // The repeated decision must not reserve anything.
            request.reserve = None;
            // Without a reservation, a request id is refused.
            request.request_id.clear();
            asked!(request, of_place)
        }
    })
}

fn pod_name(request: &LoggedRequest) -> String {
    let nameless = Pod::default();
    let pod = request.pod().unwrap_or(&nameless);
    format!("{}/{}", stored::namespace_of(pod), stored::name_of(pod))
}

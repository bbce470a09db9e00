//! Writing answers to standard output, and what is beside them to standard error.

use std::fmt;
use std::io::{self, IsTerminal, Write};

use anstyle::AnsiColor;
use anyhow::Result;
use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::render;
use crate::visible;

/// How an answer is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AnswerFormat {
    /// Aligned columns for a person.
    Table,
    /// The answer as proto-JSON.
    Json,
    /// The answer as proto-JSON, in YAML.
    Yaml,
    /// Names alone, one a line.
    Name,
}

impl AnswerFormat {
    /// Returns whether it is written for a person.
    pub(crate) fn is_table(self) -> bool {
        self == AnswerFormat::Table
    }

    /// The text of `answer`; `table` and `names` write it their way.
    pub(crate) fn render<T: Serialize + DeserializeOwned>(
        self,
        answer: &T,
        table: impl FnOnce(&T) -> String,
        names: impl FnOnce(&T) -> Vec<String>,
    ) -> Result<String> {
        Ok(match self {
            AnswerFormat::Table => render::fit(&shown(answer, table)),
            AnswerFormat::Json => json(answer)?,
            AnswerFormat::Yaml => yaml(answer)?,
            AnswerFormat::Name => {
                let names = shown(answer, names).into_iter();
                names.map(|name| name + "\n").collect()
            }
        })
    }
}

/// Returns what `of` makes of an answer, after control characters in its strings were
/// made visible: the answer holds text from outside.
pub(crate) fn shown<T: Serialize + DeserializeOwned, R>(answer: &T, of: impl FnOnce(&T) -> R) -> R {
    of(visible::message(answer).as_ref().unwrap_or(answer))
}

/// As JSON, indented, that a terminal shows as it is.
pub(crate) fn json(answer: &dyn erased_serde::Serialize) -> Result<String> {
    let text = serde_json::to_string_pretty(answer)? + "\n";
    Ok(visible::json(&text).into_owned())
}

/// As YAML. An answer is asked for its fields through one type, whatever it is
/// written as: compiling what writes every message once for each format takes
/// long.
fn yaml(answer: &dyn erased_serde::Serialize) -> Result<String> {
    Ok(serde_saphyr::to_string(&answer)?)
}

/// Writes to standard output; styles only where they are wanted, and no other
/// escape sequence.
pub(crate) fn print(text: &str) -> Result<()> {
    let text = visible::styled(text);
    finish(anstream::stdout().lock().write_all(text.as_bytes()))
}

/// Writes to standard output what takes the place of what was written before: on a
/// terminal that is emptied first.
///
/// # Errors
/// Also when nobody reads any more.
pub(crate) fn replace(text: &str) -> Result<()> {
    let text = visible::styled(text);
    let mut output = anstream::stdout().lock();
    if io::stdout().is_terminal() {
        output.write_all(b"\x1b[2J\x1b[3J\x1b[H")?;
    }
    output.write_all(text.as_bytes())?;
    Ok(output.flush()?)
}

/// Writes bytes of this program, or those of a page, to standard output as they are.
pub(crate) fn print_bytes(bytes: &[u8]) -> Result<()> {
    let mut output = io::stdout().lock();
    finish(output.write_all(bytes).and_then(|()| output.flush()))
}

/// A reader that has seen enough, such as `head`, is no error.
fn finish(written: io::Result<()>) -> Result<()> {
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(anyhow::Error::new(error).context("writing to standard output"))
        }
        _ => Ok(()),
    }
}

/// A progress bar on standard error that is seen from so much work on.
pub(crate) fn bar(length: u64, seen_from: u64, template: &str) -> ProgressBar {
    let progress = ProgressBar::new(length);
    if length < seen_from {
        progress.set_draw_target(ProgressDrawTarget::hidden());
    }
    let style = ProgressStyle::with_template(template);
    progress.with_style(style.expect("the template is valid"))
}

/// A line for a person beside the answer: on standard error.
pub(crate) fn warn(message: &str) {
    tell(AnsiColor::Yellow, "warning", &visible::text(message));
}

/// Why a command ends: on standard error. It may have several lines, of which only the
/// first begins at the margin, so none of them looks like a message of its own.
pub(crate) fn fail(why: &dyn fmt::Display) {
    let why = why.to_string();
    let mut lines = why.lines();
    let mut text = lines.next().unwrap_or_default().to_owned();
    for line in lines {
        text.push_str(if line.starts_with("  ") { "\n" } else { "\n  " });
        text.push_str(line);
    }
    tell(AnsiColor::Red, "error", &visible::lines(&text));
}

/// Writes to standard error what is visible already.
fn tell(colour: AnsiColor, label: &str, text: &str) {
    let style = colour.on_default().bold();
    // Nothing is left to tell when standard error is closed.
    let _ = writeln!(anstream::stderr(), "{style}{label}:{style:#} {text}");
}

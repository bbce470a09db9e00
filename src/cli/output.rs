//! Writes answers to standard output, and messages about them to standard error.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, IsTerminal, Write};

use anstyle::AnsiColor;
use anyhow::Result;
use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::render;
use crate::visible;

/// The formats of an answer.
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
    /// Returns whether the format is for a person.
    pub(crate) fn is_table(self) -> bool {
        self == AnswerFormat::Table
    }

    /// The text of `answer`. `table` and `names` return it in those formats.
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

/// Returns the result of `of` for an answer whose control characters are made visible, because its
/// strings come from outside.
pub(crate) fn shown<T: Serialize + DeserializeOwned, R>(answer: &T, of: impl FnOnce(&T) -> R) -> R {
    of(made_visible(answer).as_ref().unwrap_or(answer))
}

/// A message with all of its strings made visible on one line, for a person. `None` if no string
/// has to change, or the message cannot be converted to JSON and back.
fn made_visible<T: Serialize + DeserializeOwned>(message: &T) -> Option<T> {
    let written: &dyn erased_serde::Serialize = message;
    let mut value = serde_json::to_value(written).ok()?;
    make_visible(&mut value)
        .then(|| serde_path_to_error::deserialize(value).ok())
        .flatten()
}

/// Makes all strings visible. Returns whether any string was changed.
fn make_visible(value: &mut Value) -> bool {
    match value {
        Value::String(string) => match visible::text(string) {
            Cow::Borrowed(_) => false,
            Cow::Owned(seen) => {
                *string = seen;
                true
            }
        },
        Value::Array(values) => values
            .iter_mut()
            .fold(false, |any, v| make_visible(v) | any),
        Value::Object(fields) => {
            let hides = fields
                .keys()
                .any(|key| matches!(visible::text(key), Cow::Owned(_)));
            if hides {
                let hidden = std::mem::take(fields).into_iter();
                fields.extend(hidden.map(|(key, value)| (visible::text(&key).into_owned(), value)));
            }
            fields
                .values_mut()
                .fold(hides, |any, v| make_visible(v) | any)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Indented JSON without control characters.
pub(crate) fn json(answer: &dyn erased_serde::Serialize) -> Result<String> {
    let text = serde_json::to_string_pretty(answer)? + "\n";
    Ok(visible::json(&text).into_owned())
}

/// The answer as YAML. All answers are written through one type, because compiling a writer for
/// every message takes long.
fn yaml(answer: &dyn erased_serde::Serialize) -> Result<String> {
    Ok(serde_saphyr::to_string(&answer)?)
}

/// Writes to standard output, with styles only if they are wanted, and without other escape
/// sequences.
pub(crate) fn print(text: &str) -> Result<()> {
    let text = visible::styled(text);
    finish(anstream::stdout().lock().write_all(text.as_bytes()))
}

/// Replaces the text on standard output: clears a terminal first, then writes.
///
/// # Errors
/// Errors of writing, also if the reader is gone.
pub(crate) fn replace(text: &str) -> Result<()> {
    let text = visible::styled(text);
    let mut output = anstream::stdout().lock();
    if io::stdout().is_terminal() {
        output.write_all(b"\x1b[2J\x1b[3J\x1b[H")?;
    }
    output.write_all(text.as_bytes())?;
    Ok(output.flush()?)
}

/// Writes bytes to standard output as they are.
pub(crate) fn print_bytes(bytes: &[u8]) -> Result<()> {
    let mut output = io::stdout().lock();
    finish(output.write_all(bytes).and_then(|()| output.flush()))
}

/// Converts the result of writing. If a reader such as `head` has closed the output, this is no
/// error.
fn finish(written: io::Result<()>) -> Result<()> {
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(anyhow::Error::new(error).context("writing to standard output"))
        }
        _ => Ok(()),
    }
}

/// A progress bar on standard error that is shown from this much work on.
pub(crate) fn bar(length: u64, seen_from: u64, template: &str) -> ProgressBar {
    let progress = ProgressBar::new(length);
    if length < seen_from {
        progress.set_draw_target(ProgressDrawTarget::hidden());
    }
    let style = ProgressStyle::with_template(template);
    progress.with_style(style.expect("the template is valid"))
}

/// Writes a warning to standard error.
pub(crate) fn warn(message: &str) {
    tell(AnsiColor::Yellow, "warning", &visible::text(message));
}

/// Writes on standard error why a command ends. Lines after the first are indented, so that they do
/// not look like other messages.
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

/// Writes text that is visible already to standard error.
fn tell(colour: AnsiColor, label: &str, text: &str) {
    let style = colour.on_default().bold();
    let label = format!("{label}:");
    let text = render::fit_message(&format!("{label} {text}"));
    let text = text.strip_prefix(&label).unwrap_or(&text);
    // If standard error is closed, there is no way to tell the user.
    let _ = write!(anstream::stderr(), "{style}{label}{style:#}{text}");
}

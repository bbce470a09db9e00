//! Writes answers to standard output, and messages about them to standard error.

use std::fmt;
use std::io::{self, Write};

use anstyle::AnsiColor;
use anyhow::Result;
use clap::ValueEnum;

use super::render::{self, Page};
use crate::visible;

/// The formats of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Aligned columns, sentences and bars for a person.
    #[value(alias = "text")]
    Table,
    /// The answer as proto-JSON.
    Json,
    /// The answer as proto-JSON, in YAML.
    Yaml,
    /// Names alone, one a line.
    Name,
    /// A self-contained page.
    Html,
}

impl Format {
    /// Returns whether the answer is text for a person.
    pub(crate) fn is_table(self) -> bool {
        self == Self::Table
    }

    /// Returns whether the answer is for a person.
    pub(crate) fn is_for_person(self) -> bool {
        self.is_table() || self == Self::Html
    }

    /// The text of `answer`. `page` and `names` return it in formats for a person, and by name.
    pub(crate) fn text(
        self,
        answer: &dyn erased_serde::Serialize,
        page: impl FnOnce() -> Page,
        names: impl FnOnce() -> Vec<String>,
    ) -> Result<String> {
        Ok(match self {
            Self::Table => render::fit(&page().text()),
            Self::Html => page().html(),
            Self::Json => json(answer)?,
            Self::Yaml => yaml(answer)?,
            Self::Name => {
                let names = names().into_iter();
                names
                    .map(|name| format!("{}\n", visible::text(&name)))
                    .collect()
            }
        })
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

//! The fault of a file that is no valid TOML.

/// A fault of a TOML text, in one line.
#[derive(Debug, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct TomlFault {
    /// The line of the fault; the first is 1.
    pub line: usize,
    /// The fault.
    pub message: String,
}

impl TomlFault {
    /// The fault that `toml` found in a text.
    pub fn new(text: &str, error: &toml::de::Error) -> Self {
        let start = error.span().map_or(0, |span| span.start);
        Self {
            line: text[..start].matches('\n').count() + 1,
            message: error.message().replace('\n', ", "),
        }
    }
}

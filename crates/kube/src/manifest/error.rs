//! The errors of input files, with their places.

use std::io;
use std::path::PathBuf;

use granit_parser::Marker;

/// The reason why files could not be read as Kubernetes objects. Each message names the file, and
/// the object and field if possible.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// The file or directory could not be read.
    #[error("{file}: {error}")]
    Io {
        /// Path, or `standard input`.
        file: String,
        /// The error of the operating system.
        error: io::Error,
    },
    /// A directory has no manifest.
    #[error("{}: no *.json, *.yaml or *.yml file in this directory", .0.display())]
    EmptyDirectory(PathBuf),
    /// Standard input was named more than once.
    #[error("standard input (-) can be read only once")]
    StandardInputTwice,
    /// The text is no JSON, or no YAML.
    #[error("{file}: not valid {format}: {message}")]
    Syntax {
        /// Path, or `standard input`.
        file: String,
        /// `JSON` or `YAML`.
        format: &'static str,
        /// The parser's message, with line and column.
        message: String,
        /// The position where the parser stopped.
        at: Option<Position>,
    },
    /// The text is valid JSON or YAML, but no Kubernetes object.
    #[error("{place}: {message}")]
    NotAnObject {
        /// File, document and item.
        place: String,
        /// A description of the actual value.
        message: String,
    },
    /// An object has a field of the wrong type or value.
    #[error("{place}: {object}: {field}: {message}")]
    Field {
        /// File, document and item.
        place: String,
        /// Kind, namespace and name.
        object: String,
        /// The path of the field as in the file.
        field: String,
        /// The fault.
        message: String,
    },
    /// A Kustomization has patches, which only Kustomize applies.
    #[error(
        "{0}: the patches of a Kustomization are not applied: give what `kustomize build` prints"
    )]
    Patches(String),
    /// The file contains no pod or workload, or more than one, or not the requested one.
    #[error("{0}")]
    Choice(String),
}

/// A place in a text, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The column, in characters.
    pub column: usize,
}

impl Position {
    /// Converts a position; the parser counts columns from 0.
    pub(super) fn of(marker: &Marker) -> Self {
        Self {
            line: marker.line(),
            column: marker.col() + 1,
        }
    }
}

//! The sources of objects that arguments name, their syntax and their encoding, and the errors of reading
//! them with their places.

use std::collections::HashSet;
use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use granit_parser::{Marker, Parser, StrInput};

/// The number of bytes that are read at a time.
const BUFFER_BYTES: usize = 1 << 20;

/// The number of bytes that tell the syntax.
const START_BYTES: usize = 4 << 10;

/// The most bytes of JSON, whose objects are read one by one. A cluster of 3,000,000 pods has a tenth
/// of it.
const MAX_JSON_BYTES: u64 = 16 << 30;

/// The most bytes of YAML, which is in memory as a whole.
const MAX_YAML_BYTES: u64 = 1 << 30;

/// A text that has an end: no endless device, and no pipe that never closes.
pub struct FiniteText<R> {
    input: R,
    /// The most bytes of it.
    most: u64,
    read: u64,
    /// True if it may have zero bytes, as UTF-16 has.
    is_wide: bool,
}

impl<R> FiniteText<R> {
    /// A text of any length.
    pub fn new(input: R) -> Self {
        Self {
            input,
            most: u64::MAX,
            read: 0,
            is_wide: false,
        }
    }
}

impl<R: Read> Read for FiniteText<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.input.read(buffer)?;
        let invalid = |fault: String| io::Error::new(io::ErrorKind::InvalidData, fault);
        if !self.is_wide && buffer[..length].contains(&0) {
            return Err(invalid("it holds a zero byte, so it is no text".into()));
        }
        self.read = self.read.saturating_add(length as u64);
        match self.read > self.most {
            true => Err(invalid(format!(
                "more than {} GiB, which is not read",
                self.most >> 30
            ))),
            false => Ok(length),
        }
    }
}

/// A source of objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InputSource {
    /// A file.
    File(PathBuf),
    /// Standard input.
    StandardInput,
    /// A cluster, by its context. Its objects come from the API server, so it cannot be opened.
    Cluster(String),
}

/// The syntax of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Syntax {
    Json,
    Yaml,
}

/// A source that is open.
pub(super) struct OpenedText {
    pub(super) syntax: Syntax,
    pub(super) input: BufReader<Box<dyn Read>>,
}

impl fmt::Display for InputSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InputSource::File(path) => write!(f, "{}", path.display()),
            InputSource::StandardInput => f.write_str("standard input"),
            InputSource::Cluster(name) => write!(f, "cluster {name}"),
        }
    }
}

impl InputSource {
    /// The source that an argument names: a file, or standard input as `-`.
    pub(super) fn of_argument(path: &Path) -> Self {
        match path == Path::new("-") {
            true => Self::StandardInput,
            false => Self::File(path.to_path_buf()),
        }
    }

    /// Opens the source and detects its syntax.
    pub(super) fn open(&self) -> Result<OpenedText, ManifestError> {
        let mut input: Box<dyn Read> = match self {
            InputSource::File(path) => Box::new(File::open(path).map_err(|error| self.io(error))?),
            InputSource::StandardInput => Box::new(io::stdin()),
            InputSource::Cluster(_) => return Err(self.io(io::ErrorKind::Unsupported.into())),
        };
        let mut start = Vec::new();
        let read = input
            .by_ref()
            .take(START_BYTES as u64)
            .read_to_end(&mut start);
        read.map_err(|error| self.io(error))?;
        let text = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&start);
        let syntax = self.format(text);
        let most = match syntax {
            Syntax::Json => MAX_JSON_BYTES,
            Syntax::Yaml => MAX_YAML_BYTES,
        };
        let is_wide = text.starts_with(b"\xff\xfe") || text.starts_with(b"\xfe\xff");
        let input = io::Cursor::new(text.to_vec()).chain(input);
        let input = FiniteText {
            most,
            is_wide,
            ..FiniteText::new(input)
        };
        let input: Box<dyn Read> = Box::new(input);
        let input = BufReader::with_capacity(BUFFER_BYTES, input);
        Ok(OpenedText { syntax, input })
    }

    /// Returns the syntax of a text of this source: by the name of the file, else JSON if the first
    /// character is `{` or `[`, else YAML.
    pub(super) fn format(&self, text: &[u8]) -> Syntax {
        self.format_by_name().unwrap_or_else(|| {
            match text.iter().find(|b| !b.is_ascii_whitespace()) {
                Some(b'{' | b'[') => Syntax::Json,
                _ => Syntax::Yaml,
            }
        })
    }

    /// The whole text, without a byte order mark.
    pub fn read_to_string(&self) -> Result<String, ManifestError> {
        let mut opened = self.open()?;
        let mut text = String::new();
        let read = opened.input.read_to_string(&mut text);
        read.map_err(|error| self.io(error))?;
        Ok(text)
    }

    /// The error that a text of this source is no JSON.
    pub fn not_json(&self, error: &serde_json::Error) -> ManifestError {
        if error.is_io() {
            return self.io(io::Error::other(error.to_string()));
        }
        ManifestError::Syntax {
            file: self.to_string(),
            format: "JSON",
            message: error.to_string(),
            at: Some(Position {
                line: error.line(),
                column: error.column(),
            }),
        }
    }

    /// The error that a text of this source is no YAML.
    pub(super) fn not_yaml(&self, error: &serde_saphyr::Error) -> ManifestError {
        if let serde_saphyr::Error::IOError { cause } = error.without_snippet() {
            return self.io(io::Error::new(cause.kind(), cause.to_string()));
        }
        ManifestError::Syntax {
            file: self.to_string(),
            format: "YAML",
            // The advice is for who calls the parser.
            message: (error.without_snippet().to_string())
                .replace(", set DuplicateKeyPolicy in Options if acceptable", ""),
            at: error.location().map(|at| Position {
                line: at.line() as usize,
                column: at.column() as usize,
            }),
        }
    }

    /// An I/O error of this source.
    pub(super) fn io(&self, error: io::Error) -> ManifestError {
        ManifestError::Io {
            file: self.to_string(),
            error,
        }
    }

    fn format_by_name(&self) -> Option<Syntax> {
        let InputSource::File(path) = self else {
            return None;
        };
        match path.extension()?.to_str()? {
            "json" => Some(Syntax::Json),
            "yaml" | "yml" => Some(Syntax::Yaml),
            _ => None,
        }
    }
}

/// The sources that `paths` name, in order. A directory means all manifests in it and in its
/// subdirectories, by name. `-` means standard input. A file that occurs twice is read once.
pub fn expand(paths: &[PathBuf]) -> Result<Vec<InputSource>, ManifestError> {
    let mut sources = Vec::new();
    for path in paths {
        match InputSource::of_argument(path) {
            InputSource::StandardInput if sources.contains(&InputSource::StandardInput) => {
                return Err(ManifestError::StandardInputTwice);
            }
            InputSource::File(path) if path.is_dir() => sources.extend(manifests_below(&path)?),
            source => sources.push(source),
        }
    }
    let mut seen = HashSet::new();
    sources.retain(|source| match source {
        InputSource::File(path) => {
            seen.insert(path.canonicalize().unwrap_or_else(|_| path.clone()))
        }
        InputSource::StandardInput | InputSource::Cluster(_) => true,
    });
    Ok(sources)
}

fn manifests_below(directory: &Path) -> Result<Vec<InputSource>, ManifestError> {
    let mut found = Vec::new();
    for entry in walkdir::WalkDir::new(directory)
        .sort_by_file_name()
        .follow_links(true)
    {
        let entry = entry.map_err(|error| ManifestError::Io {
            file: directory.display().to_string(),
            error: error.into(),
        })?;
        let source = InputSource::File(entry.path().to_path_buf());
        if entry.file_type().is_file() && source.format_by_name().is_some() {
            found.push(source);
        }
    }
    if found.is_empty() {
        return Err(ManifestError::EmptyDirectory(directory.to_path_buf()));
    }
    Ok(found)
}

/// The settings for reading values.
///
/// The parser's budget protects servers from hostile input. These are the user's own files, which
/// may be of any size. Comments are skipped, because the parser keeps only a few of them at a time.
/// Repeated keys are an error, as in kubectl.
pub(super) fn options() -> serde_saphyr::Options {
    serde_saphyr::options! { budget: None, emit_comments: false }
}

/// The parser of the events of `text`, without comments.
pub(super) fn events(text: &str) -> Parser<'_, StrInput<'_>> {
    let options = granit_parser::options! { emit_comments: false };
    Parser::new_from_str_with_options(text, options)
}

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

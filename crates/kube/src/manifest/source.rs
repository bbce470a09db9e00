//! The sources of objects that arguments name, their syntax and their encoding.

use std::cell::Cell;
use std::collections::HashSet;
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use indicatif::ProgressBar;

use super::bounded::{
    BUFFER_BYTES, BoundError, BoundedText, MAX_PIECE_BYTES, MAX_STREAM_BYTES, MAX_TEXT_BYTES,
    TextPiece,
};
use super::error::{ManifestError, Position};

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
    pub(super) input: BufReader<BoundedText<BufReader<Box<dyn Read>>>>,
    /// The number of bytes read of the current JSON object.
    pub(super) in_piece: Rc<Cell<u64>>,
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
    /// Opens the source and detects its syntax. `of_json` is the piece of JSON that is in memory at
    /// a time. YAML is in memory as a whole.
    pub(super) fn open(
        &self,
        progress: &ProgressBar,
        of_json: TextPiece,
    ) -> Result<OpenedText, ManifestError> {
        let mut size = 0;
        let input: Box<dyn Read> = match self {
            InputSource::File(path) => {
                let opened = File::open(path).and_then(|file| Ok((file.metadata()?, file)));
                let (metadata, file) = opened.map_err(|error| self.io(error))?;
                size = metadata.len();
                Box::new(file)
            }
            InputSource::StandardInput => Box::new(io::stdin()),
            InputSource::Cluster(_) => return Err(self.io(io::ErrorKind::Unsupported.into())),
        };
        let input: Box<dyn Read> = Box::new(progress.wrap_read(input));
        let input = BufReader::with_capacity(BUFFER_BYTES, input);
        let mut input = to_utf8(input).map_err(|error| self.io(error))?;
        let start = input.fill_buf().map_err(|error| self.io(error))?;
        let text = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(start);
        let mark_bytes = start.len() - text.len();
        let syntax = self.format(text);
        input.consume(mark_bytes);
        let (piece, most) = match (syntax, of_json) {
            (Syntax::Json, TextPiece::Object) => (of_json, MAX_STREAM_BYTES),
            (Syntax::Json, _) => (of_json, MAX_TEXT_BYTES),
            (Syntax::Yaml, _) => (TextPiece::Line(MAX_PIECE_BYTES), MAX_TEXT_BYTES),
        };
        if size > most {
            return Err(self.io(BoundError::Whole(most).into()));
        }
        let text = BoundedText::new(input, piece, most);
        Ok(OpenedText {
            syntax,
            in_piece: Rc::clone(&text.in_piece),
            input: text.buffered(),
        })
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
        let mut opened = self.open(&ProgressBar::hidden(), TextPiece::Whole)?;
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
        if path == Path::new("-") {
            if sources.contains(&InputSource::StandardInput) {
                return Err(ManifestError::StandardInputTwice);
            }
            sources.push(InputSource::StandardInput);
        } else if path.is_dir() {
            sources.extend(manifests_below(path)?);
        } else {
            sources.push(InputSource::File(path.clone()));
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

/// Returns `input` in UTF-8. A text that begins with a byte order mark of UTF-16, which
/// PowerShell's `>` writes, is converted. Other texts stay as they are.
fn to_utf8(mut input: BufReader<Box<dyn Read>>) -> io::Result<BufReader<Box<dyn Read>>> {
    let of_pair = match input.fill_buf()? {
        [0xff, 0xfe, ..] => u16::from_le_bytes,
        [0xfe, 0xff, ..] => u16::from_be_bytes,
        _ => return Ok(input),
    };
    input.consume(2);
    let mut bytes = Vec::new();
    input
        .by_ref()
        .take(MAX_TEXT_BYTES)
        .read_to_end(&mut bytes)?;
    if !input.fill_buf()?.is_empty() {
        return Err(BoundError::Whole(MAX_TEXT_BYTES).into());
    }
    let (pairs, rest) = bytes.as_chunks::<2>();
    let units = pairs.iter().map(|pair| of_pair(*pair));
    let text: Result<String, _> = char::decode_utf16(units).collect();
    match text {
        Ok(text) if rest.is_empty() => Ok(BufReader::new(Box::new(Cursor::new(text)))),
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "not valid UTF-16",
        )),
    }
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

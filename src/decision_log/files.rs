//! The files of the log, rotated by size: `FILE` is being written, `FILE.1` is the previous one,
//! and so on. (Crates that rotate files swallow errors of opening them, or print errors that should
//! be logged and counted.)

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// The path of the log, and its largest size.
#[derive(Debug, Clone)]
pub struct FileSettings {
    /// The file that is written.
    pub path: PathBuf,
    /// A file with at least this many bytes is full.
    pub max_bytes: u64,
    /// The number of files, with the one that is written; at least 1.
    pub max_files: usize,
}

/// The file that is being written.
#[derive(Debug)]
pub(super) struct RotatedFiles {
    settings: FileSettings,
    open: Option<OpenFile>,
}

#[derive(Debug)]
struct OpenFile {
    file: File,
    /// The number of bytes in whole lines, including lines from before the file was opened.
    whole: u64,
    /// True if part of a line follows the whole lines.
    is_torn: bool,
}

impl RotatedFiles {
    pub(super) fn new(settings: FileSettings) -> Self {
        Self {
            settings,
            open: None,
        }
    }

    /// Writes whole lines to one file, and removes written ones from the front of `lines`. A line
    /// that was written in part is removed from the file, so that no reader sees half a line, or
    /// two lines as one.
    pub(super) fn write(&mut self, lines: &mut Vec<u8>) -> io::Result<()> {
        // Mends before rotating, because a full file is not written any more.
        self.open.as_mut().map_or(Ok(()), OpenFile::mend)?;
        if self.is_full() {
            self.rotate()?;
        }
        let open = self.file()?;
        let mut written = 0;
        let result = loop {
            if written == lines.len() {
                break Ok(());
            }
            match open.file.write(&lines[written..]) {
                Ok(0) => break Err(io::ErrorKind::WriteZero.into()),
                Ok(bytes) => written += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break Err(error),
            }
        };
        let end = lines[..written].iter().rposition(|byte| *byte == b'\n');
        let whole = end.map_or(0, |end| end + 1);
        lines.drain(..whole);
        open.whole += whole as u64;
        if whole < written {
            open.is_torn = true;
            // If the file cannot be mended now, the next write tries again.
            let _ = open.mend();
        }
        result
    }

    fn is_full(&self) -> bool {
        let size = self.open.as_ref().map(|open| open.whole);
        size.is_some_and(|size| size >= self.settings.max_bytes)
    }

    fn file(&mut self) -> io::Result<&mut OpenFile> {
        if self.open.is_none() {
            self.open = Some(OpenFile::at(&self.settings.path)?);
            if self.is_full() {
                self.rotate()?;
                return self.file();
            }
        }
        Ok(self.open.as_mut().expect("it was just opened"))
    }

    /// Renames every file to the next number. The last file is overwritten, or deleted when it is
    /// the only one.
    fn rotate(&mut self) -> io::Result<()> {
        let path = &self.settings.path;
        if self.settings.max_files <= 1 {
            fs::remove_file(path)?;
        }
        for number in (1..self.settings.max_files).rev() {
            let from = numbered(path, number - 1);
            match fs::rename(&from, numbered(path, number)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        self.open = None;
        Ok(())
    }
}

impl OpenFile {
    /// Opens a file to add lines to it. If its last line was cut off, for instance because its
    /// writer was killed, that line gets an end first.
    fn at(path: &Path) -> io::Result<Self> {
        let mut file = OpenOptions::new().create(true).append(true).open(path)?;
        if ends_within_a_line(path) {
            file.write_all(b"\n")?;
        }
        let whole = file.metadata()?.len();
        Ok(Self {
            file,
            whole,
            is_torn: false,
        })
    }

    /// Cuts off the part after the last whole line. A file that is not a regular one keeps that
    /// part, as a line that cannot be read.
    fn mend(&mut self) -> io::Result<()> {
        if self.is_torn {
            if self.file.metadata()?.is_file() {
                self.file.set_len(self.whole)?;
            } else {
                self.file.write_all(b"\n")?;
            }
            self.is_torn = false;
        }
        Ok(())
    }
}

/// Returns whether a file ends within a line. A file that cannot be read is taken to end with a
/// whole line.
fn ends_within_a_line(path: &Path) -> bool {
    let last = || {
        let mut file = File::open(path)?;
        if !file.metadata()?.is_file() || file.metadata()?.len() == 0 {
            return Ok(b'\n');
        }
        file.seek(SeekFrom::End(-1))?;
        let mut last = [0];
        file.read_exact(&mut last)?;
        io::Result::Ok(last[0])
    };
    last().is_ok_and(|last| last != b'\n')
}

/// `FILE.2` for 2, and `FILE` itself for 0.
fn numbered(path: &Path, number: usize) -> PathBuf {
    if number == 0 {
        return path.to_owned();
    }
    let mut name = OsString::from(path);
    name.push(format!(".{number}"));
    name.into()
}

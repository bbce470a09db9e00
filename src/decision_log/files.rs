//! The files of the log, rotated by size: `FILE` is being written, `FILE.1` is
//! the one before, and so on. (Crates that rotate files swallow errors of
//! opening them, or print what is to be logged and counted.)

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Where the log is, and how large it may become.
#[derive(Debug, Clone)]
pub struct FileSettings {
    /// The file that is written.
    pub path: PathBuf,
    /// From how many bytes on a file is full.
    pub max_bytes: u64,
    /// How many files there are, the one that is written included; at least 1.
    pub max_files: usize,
}

/// The file that is being written.
#[derive(Debug)]
pub(super) struct Files {
    settings: FileSettings,
    open: Option<(File, u64)>,
}

impl Files {
    pub(super) fn new(settings: FileSettings) -> Self {
        Self {
            settings,
            open: None,
        }
    }

    /// Writes whole lines, and takes what was written from the front of
    /// `lines`. They go to one file. What is left after an error is to be
    /// written before anything else: it may begin within a line.
    pub(super) fn write(&mut self, lines: &mut Vec<u8>, is_line_start: bool) -> io::Result<()> {
        if is_line_start && self.is_full() {
            self.rotate()?;
        }
        let (file, size) = self.file()?;
        let mut written = 0;
        let result = loop {
            match file.write(&lines[written..]) {
                _ if written == lines.len() => break Ok(()),
                Ok(0) => break Err(io::ErrorKind::WriteZero.into()),
                Ok(bytes) => written += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break Err(error),
            }
        };
        *size += written as u64;
        lines.drain(..written);
        result
    }

    fn is_full(&self) -> bool {
        let size = self.open.as_ref().map(|(_, size)| *size);
        size.is_some_and(|size| size >= self.settings.max_bytes)
    }

    fn file(&mut self) -> io::Result<&mut (File, u64)> {
        if self.open.is_none() {
            let mut options = OpenOptions::new();
            let file = options
                .create(true)
                .append(true)
                .open(&self.settings.path)?;
            let size = file.metadata()?.len();
            self.open = Some((file, size));
            if self.is_full() {
                self.rotate()?;
                return self.file();
            }
        }
        Ok(self.open.as_mut().expect("it was just opened"))
    }

    /// Moves every file one on; the last one is overwritten, or deleted when
    /// it is the only one.
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

/// `FILE.2` for 2, and `FILE` itself for 0.
fn numbered(path: &Path, number: usize) -> PathBuf {
    if number == 0 {
        return path.to_owned();
    }
    let mut name = OsString::from(path);
    name.push(format!(".{number}"));
    name.into()
}

//! The files of the log, rotated by size: `FILE` is being written, `FILE.1` is the previous one,
//! and so on. (Crates that rotate files by size swallow errors of opening them, or print errors that
//! should be logged and counted.)

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
    /// The open file, and its size.
    open: Option<(File, u64)>,
}

impl RotatedFiles {
    pub(super) fn new(settings: FileSettings) -> Self {
        Self {
            settings,
            open: None,
        }
    }

    /// Writes whole lines to one file. If that fails, what was written of them is removed, so that no
    /// reader sees half a line, or a line twice when they are written again.
    pub(super) fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        // After an error the file is opened again.
        let (mut file, size) = match self.open.take() {
            Some((file, size)) if size < self.settings.max_bytes => (file, size),
            Some(_) => self.next_file()?,
            None => match open(&self.settings.path)? {
                (_, size) if size >= self.settings.max_bytes => self.next_file()?,
                opened => opened,
            },
        };
        if let Err(error) = file.write_all(lines) {
            // If this fails, a part becomes a line of its own when the file is opened.
            let _ = file.set_len(size);
            return Err(error);
        }
        self.open = Some((file, size + lines.len() as u64));
        Ok(())
    }

    /// Renames every file to the next number, and opens a new one. The last file is overwritten, or
    /// deleted when it is the only one.
    fn next_file(&self) -> io::Result<(File, u64)> {
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
        open(path)
    }
}

/// Opens a file to add lines to it. If its last line was cut off, for instance because its writer was
/// killed, that line gets an end first.
fn open(path: &Path) -> io::Result<(File, u64)> {
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    if ends_within_a_line(path) {
        file.write_all(b"\n")?;
    }
    let size = file.metadata()?.len();
    Ok((file, size))
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

//! The recorded answers of Kubernetes in `tests/vectors/`.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;

/// The path of a compressed file of vectors.
pub fn path(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/vectors")
        .join(file)
}

/// The lines of a compressed file of vectors.
pub fn lines(file: &str) -> impl Iterator<Item = String> {
    lines_of(&path(file))
}

/// The lines of a compressed file anywhere.
pub fn lines_of(file: &Path) -> impl Iterator<Item = String> + use<> {
    let file = File::open(file).expect("the vectors are part of the project");
    let lines = BufReader::new(GzDecoder::new(file)).lines();
    lines.map(|line| line.expect("a line of text"))
}

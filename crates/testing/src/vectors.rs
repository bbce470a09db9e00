//! The recorded answers of Kubernetes in `tests/vectors/`.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use flate2::read::GzDecoder;

/// The lines of a compressed file of vectors.
pub fn lines(file: &str) -> impl Iterator<Item = String> + use<> {
    let vectors = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/vectors");
    let file = File::open(vectors.join(file)).expect("the vectors are part of the project");
    let lines = BufReader::new(GzDecoder::new(file)).lines();
    lines.map(|line| line.expect("a line of text"))
}

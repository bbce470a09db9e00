//! Tests of input files by tables: the content of files and the objects in them.

mod defaults;
mod objects;

use tempfile::TempDir;

use super::ManifestError;

fn directory_with(files: &[(&str, &str)]) -> TempDir {
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    for (name, content) in files {
        let path = directory.path().join(name);
        std::fs::create_dir_all(path.parent().expect("it is inside")).expect("it can be made");
        std::fs::write(path, content).expect("it can be written");
    }
    directory
}

/// The message without the path of the directory.
fn message(error: &ManifestError, directory: &TempDir) -> String {
    let prefix = format!("{}/", directory.path().display());
    error.to_string().replace(&prefix, "")
}

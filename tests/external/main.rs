//! Real engines, control planes, load balancers and probes. A test that needs one is ignored, and says which and how to
//! install it. `cargo test --test external replicas:: -- --include-ignored` runs it. `.ci/run` runs those that take
//! seconds, and `.ci/nightly` all of them.

mod health_probe;
mod kubernetes;
mod load_balancers;
mod replicas;

use std::path::PathBuf;
use std::process::Command;

/// Returns the program that a function of `deploy/tools.sh` finds.
///
/// # Panics
/// If there is none. The message says how to install it.
fn tool(finder: &str) -> PathBuf {
    let found = Command::new("deploy/tools.sh")
        .arg(finder)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("there is bash");
    let why = String::from_utf8_lossy(&found.stderr);
    assert!(found.status.success(), "{why}");
    let path = String::from_utf8(found.stdout).expect("a path is text");
    path.trim().into()
}

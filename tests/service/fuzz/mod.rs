//! The checks of the fuzz targets, on their seeds and on all inputs that fuzzing has found.
//! `fuzz/run` goes on from these inputs, guided by coverage.

mod histories;
mod manifests;
mod requests;
mod selectors;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use evenkeel::proto::v1::FILE_DESCRIPTOR_SET;
use prost::Message;

/// A fuzz target: its name, and its check of an input.
type Target = (&'static str, fn(&[u8]));

const TARGETS: [Target; 4] = [
    ("histories", histories::check),
    ("manifests", manifests::check),
    ("requests", requests::check),
    ("selectors", selectors::check),
];

#[test]
fn seeds_and_regressions_hold() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz");
    for (target, check) in TARGETS {
        for kind in ["seeds", "regressions"] {
            let Ok(inputs) = fs::read_dir(root.join(kind).join(target)) else {
                assert_eq!(kind, "regressions", "{target} has seeds");
                continue;
            };
            for input in inputs {
                let path = input.expect("a directory can be read").path();
                println!("{}", path.display());
                check(&fs::read(path).expect("a file can be read"));
            }
        }
    }
}

/// Every method of the service is fuzzed.
#[test]
fn every_method_is_fuzzed() {
    let files = prost_types::FileDescriptorSet::decode(FILE_DESCRIPTOR_SET).expect("it is ours");
    let services = files.file.iter().flat_map(|file| &file.service);
    let methods = services.flat_map(|service| &service.method);
    let offered: BTreeSet<&str> = methods.map(|method| method.name()).collect();
    let fuzzed = BTreeSet::from(requests::METHODS);
    assert_eq!(fuzzed, offered, "append new ones to `requests::METHODS`");
}

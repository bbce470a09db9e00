//! `tests/service/fuzz/manifests.rs`, guided by coverage.
#![no_main]

#[path = "../../tests/service/fuzz/manifests.rs"]
mod manifests;

libfuzzer_sys::fuzz_target!(|input: &[u8]| manifests::check(input));

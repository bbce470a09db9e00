//! `tests/service/fuzz/histories.rs`, guided by coverage.
#![no_main]

#[path = "../../tests/service/fuzz/histories.rs"]
mod histories;

libfuzzer_sys::fuzz_target!(|input: &[u8]| histories::check(input));

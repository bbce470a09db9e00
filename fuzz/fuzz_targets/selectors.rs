//! `tests/service/fuzz/selectors.rs`, guided by coverage.
#![no_main]

#[path = "../../tests/service/fuzz/selectors.rs"]
mod selectors;

libfuzzer_sys::fuzz_target!(|input: &[u8]| selectors::check(input));

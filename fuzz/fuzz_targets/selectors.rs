//! `tests/fuzz/selectors.rs`, guided by coverage.
#![no_main]

#[path = "../../tests/fuzz/selectors.rs"]
mod selectors;
#[path = "../../tests/support/mod.rs"]
mod support;

libfuzzer_sys::fuzz_target!(|input: &[u8]| selectors::check(input));

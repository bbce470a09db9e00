//! `tests/service/fuzz/questions.rs`, guided by coverage.
#![no_main]

#[path = "../../tests/service/fuzz/questions.rs"]
mod questions;

libfuzzer_sys::fuzz_target!(|input: &[u8]| questions::check(input));

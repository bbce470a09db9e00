//! `tests/service/fuzz/requests.rs`, guided by coverage.
#![no_main]

#[path = "../../tests/service/fuzz/requests.rs"]
mod requests;

libfuzzer_sys::fuzz_target!(|input: &[u8]| requests::check(input));

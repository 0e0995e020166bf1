#![no_main]
#![allow(dead_code, reason = "one target of many")]

#[path = "../check/mod.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| check::plugin::framework(bytes));

//! The exports of the playground's WebAssembly module.
//!
//! The page writes a request of [`modgate_playground::answer`] into the memory that [`input`] names, calls
//! [`run`], and reads the answer where [`output`] says it is. The module imports nothing: it has no clock, no
//! randomness and no network.

use std::sync::{Mutex, PoisonError};

static INPUT: Mutex<Vec<u8>> = Mutex::new(Vec::new());
static OUTPUT: Mutex<String> = Mutex::new(String::new());

/// The place for a request of so many bytes.
#[expect(unsafe_code, reason = "a name is exported; no other function of the module has it")]
#[unsafe(no_mangle)]
pub extern "C" fn input(length: usize) -> *mut u8 {
    let mut input = INPUT.lock().unwrap_or_else(PoisonError::into_inner);
    input.clear();
    input.resize(length, 0);
    input.as_mut_ptr()
}

/// Answers the request; returns the length of the answer in bytes.
#[expect(unsafe_code, reason = "a name is exported; no other function of the module has it")]
#[unsafe(no_mangle)]
pub extern "C" fn run() -> usize {
    let request = std::mem::take(&mut *INPUT.lock().unwrap_or_else(PoisonError::into_inner));
    let answer = modgate_playground::answer(&String::from_utf8_lossy(&request));
    let length = answer.len();
    *OUTPUT.lock().unwrap_or_else(PoisonError::into_inner) = answer;
    length
}

/// The place of the last answer.
#[expect(unsafe_code, reason = "a name is exported; no other function of the module has it")]
#[unsafe(no_mangle)]
pub extern "C" fn output() -> *const u8 {
    OUTPUT.lock().unwrap_or_else(PoisonError::into_inner).as_ptr()
}

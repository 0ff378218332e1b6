//! The exports of the playground's WebAssembly module.
//!
//! The page writes a request of [`Playground::answer`] into the memory that [`input`] names, calls
//! [`run`], and reads the answer where [`output`] says it is. The module imports nothing: it has no clock, no
//! randomness and no network.

use std::sync::{Mutex, PoisonError};

use modgate_playground::Playground;

/// The pieces of memory that [`tidy`] fills: the sizes of the first and of the last ones in bytes, and how many at most.
const LARGEST_PIECE: usize = 1 << 20;
const SMALLEST_PIECE: usize = 16;
const MAX_PIECES: usize = 20_000;

static INPUT: Mutex<Vec<u8>> = Mutex::new(Vec::new());
static OUTPUT: Mutex<String> = Mutex::new(String::new());
static PLAYGROUND: Mutex<Playground> = Mutex::new(Playground::new());

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
    let mut playground = PLAYGROUND.lock().unwrap_or_else(PoisonError::into_inner);
    let answer = playground.answer(&String::from_utf8_lossy(&request));
    let length = answer.len();
    *OUTPUT.lock().unwrap_or_else(PoisonError::into_inner) = answer;
    length
}

/// Fills memory that is free with zeros, so that a copy of the memory is small: the module that browsers load has one, of
/// a module that has answered.
#[expect(unsafe_code, reason = "a name is exported; no other function of the module has it")]
#[unsafe(no_mangle)]
pub extern "C" fn tidy() {
    *OUTPUT.lock().unwrap_or_else(PoisonError::into_inner) = String::new();
    let mut zeros = Vec::with_capacity(MAX_PIECES);
    let mut size = LARGEST_PIECE;
    while size >= SMALLEST_PIECE && zeros.len() < MAX_PIECES {
        let pages = pages();
        let piece = std::hint::black_box(vec![0_u8; size]);
        if pages == self::pages() {
            zeros.push(piece);
        } else {
            // None of this size was free.
            size /= 2;
        }
    }
}

/// The size of the memory.
fn pages() -> usize {
    #[cfg(target_arch = "wasm32")]
    return core::arch::wasm32::memory_size(0);
    #[cfg(not(target_arch = "wasm32"))]
    return 0;
}

/// The place of the last answer.
#[expect(unsafe_code, reason = "a name is exported; no other function of the module has it")]
#[unsafe(no_mangle)]
pub extern "C" fn output() -> *const u8 {
    OUTPUT.lock().unwrap_or_else(PoisonError::into_inner).as_ptr()
}

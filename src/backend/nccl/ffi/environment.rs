//! Environment variables for libraries that are not loaded yet.

#![expect(unsafe_code, reason = "another thread could read the environment meanwhile")]

use std::ffi::OsStr;

/// Sets a variable for the libraries of this backend. To be called from `main`'s thread before the first library
/// is loaded and before any thread is started.
pub(in super::super) fn set(name: &str, value: &OsStr) {
    // SAFETY: at that time no other thread exists; and Rust's own readers are locked out meanwhile, so only C code
    // that runs in another thread could see a half-made environment.
    unsafe { std::env::set_var(name, value) };
}

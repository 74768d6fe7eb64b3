//! critrank measures collective communication over a GPU fabric and names the rank that holds it back.
//!
//! Modules in reading order; each imports only from those above it (docs/ARCHITECTURE.md).

pub mod verify;
pub mod vocab;

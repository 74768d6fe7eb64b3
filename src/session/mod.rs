//! What connects the processes of a job: control messages, launcher, watchdog.

mod control;
pub mod launcher;
#[cfg(feature = "mpi")]
pub mod mpi;
pub mod solo;
pub mod stall;
pub mod sync;
pub mod team;
pub mod traffic;
pub mod watch;

pub use control::{Abort, Control};

//! Words that every layer shares: plain data, with no behaviour beyond arithmetic.

mod cadence;
mod content;
mod dtype;
mod inject;
mod kind;
mod member;
mod redop;
mod slot;
mod units;

pub use cadence::Cadence;
pub use content::{Content, Run, What};
pub use dtype::Dtype;
pub use inject::{Corruption, Inject, Node, Point};
pub use kind::Kind;
pub use member::Member;
pub use redop::RedOp;
pub use slot::{Placement, Side, Slot};
pub use units::{ParseSizeError, parse_size};

/// `-z G` as a number, behind those of nccl-tests.
pub const GATE: u8 = 4;

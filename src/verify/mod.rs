//! Placeholder; the real module replaces it.
#![allow(missing_docs)]
use crate::vocab::{Dtype, RedOp};
use serde::{Deserialize, Serialize};
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arithmetic {
    Wrapping,
    Narrow,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern {
    pub dtype: Dtype,
    pub op: Option<RedOp>,
    pub ranks: u32,
    pub repetition: u64,
    pub arithmetic: Arithmetic,
}
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    pub wrong_a: u64,
    pub wrong_b: u64,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bad {
    pub index: u64,
    pub got: u64,
}

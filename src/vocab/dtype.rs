//! The element types of NCCL, in the order in which nccl-tests lists them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// An element type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dtype {
    /// Signed 8-bit integer.
    Int8,
    /// Unsigned 8-bit integer.
    Uint8,
    /// Signed 32-bit integer.
    Int32,
    /// Unsigned 32-bit integer.
    Uint32,
    /// Signed 64-bit integer.
    Int64,
    /// Unsigned 64-bit integer.
    Uint64,
    /// IEEE binary16.
    Half,
    /// IEEE binary32.
    Float,
    /// IEEE binary64.
    Double,
    /// bfloat16: 8 exponent bits, 7 fraction bits.
    Bfloat16,
    /// FP8 with 4 exponent and 3 fraction bits.
    F8e4m3,
    /// FP8 with 5 exponent and 2 fraction bits.
    F8e5m2,
}

impl Dtype {
    /// Every type, in the order of nccl-tests' `-d all`.
    pub const ALL: [Self; 12] = [
        Self::Int8,
        Self::Uint8,
        Self::Int32,
        Self::Uint32,
        Self::Int64,
        Self::Uint64,
        Self::Half,
        Self::Float,
        Self::Double,
        Self::Bfloat16,
        Self::F8e4m3,
        Self::F8e5m2,
    ];

    /// The name in the table, as nccl-tests spells it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Int8 => "int8",
            Self::Uint8 => "uint8",
            Self::Int32 => "int32",
            Self::Uint32 => "uint32",
            Self::Int64 => "int64",
            Self::Uint64 => "uint64",
            Self::Half => "half",
            Self::Float => "float",
            Self::Double => "double",
            Self::Bfloat16 => "bfloat16",
            Self::F8e4m3 => "f8e4m3",
            Self::F8e5m2 => "f8e5m2",
        }
    }

    /// Bytes of one element.
    pub const fn bytes(self) -> u64 {
        match self {
            Self::Int8 | Self::Uint8 | Self::F8e4m3 | Self::F8e5m2 => 1,
            Self::Half | Self::Bfloat16 => 2,
            Self::Int32 | Self::Uint32 | Self::Float => 4,
            Self::Int64 | Self::Uint64 | Self::Double => 8,
        }
    }

    /// Whether arithmetic on it rounds.
    pub const fn is_float(self) -> bool {
        matches!(self, Self::Half | Self::Float | Self::Double | Self::Bfloat16 | Self::F8e4m3 | Self::F8e5m2)
    }

    /// Whether it is one of the 8-bit floats, which need compute capability 9.0 and NCCL 2.24.
    pub const fn is_fp8(self) -> bool {
        matches!(self, Self::F8e4m3 | Self::F8e5m2)
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Dtype {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|dtype| dtype.name() == text).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|dtype| dtype.name()).collect();
            format!("unknown type '{text}'; known are {} and all", names.join(", "))
        })
    }
}

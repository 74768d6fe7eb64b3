//! What the buffers of a checked call must hold, element by element, at a cost that does not grow with the ranks.
//!
//! Every value follows from the element type, the reduction, the number of ranks, the repetition and the index of
//! the element, through integer arithmetic whose result in every order of summation is the same bit pattern. So a
//! check compares bits; it has no tolerance, sends nothing, and keeps no reference copy. The loops here and the
//! kernels in `kernels/verify.cu` compute the same bits, from the same two structs [`Spec`] and [`RunSpec`].
//!
//! Reading order: [`Pattern`] (what a call's data depends on), [`Sight`] (what can be seen in it), `spec` and `forms`
//! (launch constants), `scheme` (closed forms), `host` (fill and check), `diagnose` (naming a fault).

mod diagnose;
mod forms;
mod host;
mod number;
mod scheme;
mod sight;
mod spec;
#[cfg(test)]
mod tests;

pub use diagnose::{Cause, Diagnosis, diagnose};
pub use host::{Bad, Tally, check, collect_bad, fill};
pub(crate) use number::{decode, encode, round};
pub use scheme::{expected_bits, input_bits};
pub use sight::Sight;
pub use spec::{Kind, RunSpec, Spec};

use crate::vocab::{Dtype, RedOp};

/// The kernels of `kernels/verify.cu` as PTX for compute capability 6.0 and later.
pub const PTX: &str = include_str!("kernels/verify.ptx");

/// The same, compiled for a compute capability (× 10); it also runs where only the minor number is larger. A driver
/// compiles PTX at the first start for seconds, which a thousand ranks would all do.
const CUBINS: [(u32, &[u8]); 4] = [
    (80, include_bytes!("kernels/verify_sm80.cubin")),
    (90, include_bytes!("kernels/verify_sm90.cubin")),
    (100, include_bytes!("kernels/verify_sm100.cubin")),
    (120, include_bytes!("kernels/verify_sm120.cubin")),
];

/// The compiled kernels for a device of this compute capability (× 10); none where only PTX serves it.
pub fn cubin(capability: u32) -> Option<&'static [u8]> {
    let fits = |(of, _): &&(u32, &[u8])| *of / 10 == capability / 10;
    CUBINS.iter().find(fits).map(|(_, code)| *code)
}

#[cfg(test)]
mod cubin_tests {
    use super::*;

    /// Machine and architecture in the ELF header: the second is in the flags, one byte further from ABI 8 on.
    fn architecture(code: &[u8]) -> (u16, u8) {
        (u16::from_le_bytes([code[18], code[19]]), code[if code[8] < 8 { 48 } else { 49 }])
    }

    #[test]
    fn every_cubin_is_of_its_architecture_and_chosen_for_it() {
        const CUDA: u16 = 190;
        for (capability, code) in CUBINS {
            assert_eq!(&code[..4], b"\x7fELF");
            assert_eq!(architecture(code), (CUDA, capability as u8));
            for minor in 0..10 {
                assert_eq!(cubin(capability + minor), Some(code), "{capability} + {minor}");
            }
        }
        for other in [0, 60, 75, 79, 110, 130] {
            assert_eq!(cubin(other), None, "{other}");
        }
    }
}

/// How a library adds 8-bit integers whose sum leaves the type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arithmetic {
    /// Modulo 2^8, as NCCL does.
    Wrapping,
    /// Perhaps with saturation, as vector code of an MPI library may: sums stay inside the type, and losing a rank
    /// is then certain to show from more elements on.
    Narrow,
}

/// Everything that the data of a checked call depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// Element type.
    pub dtype: Dtype,
    /// Reduction, or none for an operation that copies.
    pub op: Option<RedOp>,
    /// Ranks in the communicator, 1 to 65536.
    pub ranks: u32,
    /// Which checked call this is, below 2^32. Consecutive calls differ in every element, so an old buffer cannot pass.
    pub repetition: u64,
    /// How the library adds.
    pub arithmetic: Arithmetic,
}

impl Pattern {
    /// Most ranks that the closed forms cover.
    pub const MAX_RANKS: u32 = 65_536;

    /// What a check of this pattern can see.
    pub fn sight(&self) -> Sight {
        sight::sight(self)
    }

    /// The launch constants.
    pub fn spec(&self) -> Spec {
        forms::spec(self)
    }

    /// Bits of the scalar with which `rank` multiplies in [`RedOp::MulSum`]: little endian, `dtype.bytes()` used.
    /// Every other rank has 1, and the ranks change places from call to call. The other scalar of floats is beyond
    /// a significand, so that a factor left out shows in any sum.
    pub fn scalar(&self, rank: u32) -> [u8; 8] {
        let scaled = spec::is_scaled(rank, self.repetition);
        let bits = if self.dtype.is_float() {
            let format = number::Format::of(self.dtype);
            let exponent = if scaled { spec::scale_shift(self.dtype) } else { 0 };
            format.one() + (u64::from(exponent) << format.mantissa)
        } else {
            1 << u32::from(scaled)
        };
        bits.to_le_bytes()
    }
}

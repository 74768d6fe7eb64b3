//! Types and reductions that NCCL would refuse.

use super::config::version_text;
use crate::vocab::{Dtype, RedOp};

/// Why NCCL `version` would not run a type and reduction with these GPUs. Said here, since its own refusal ends the
/// communicator.
pub(super) fn refusal(
    dtype: Dtype,
    op: Option<RedOp>,
    capability: u32,
    version: u32,
    ranks: u32,
) -> Option<String> {
    if !dtype.is_fp8() {
        return None;
    }
    if version < 22_400 {
        return Some(format!("{dtype} needs NCCL 2.24 or later, this is {}", version_text(version)));
    }
    if capability < 90 {
        let (major, minor) = (capability / 10, capability % 10);
        return Some(format!("{dtype} needs compute capability 9.0, this GPU has {major}.{minor}"));
    }
    let scales = matches!(op, Some(RedOp::Avg | RedOp::MulSum));
    (ranks == 1 && scales).then(|| format!("NCCL refuses avg and mulsum of {dtype} with one rank"))
}

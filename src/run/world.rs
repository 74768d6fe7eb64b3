//! The processes of this run: MPI's, or this one alone.

use crate::error::Result;
use crate::session::Control;
#[cfg(feature = "mpi")]
use crate::session::mpi::MpiWorld;
use crate::session::solo::Solo;

/// All processes.
pub(super) enum World {
    /// Over MPI.
    #[cfg(feature = "mpi")]
    Mpi(MpiWorld),
    /// One.
    Solo(Solo),
}

impl World {
    /// Starts MPI where this build has it and `alone` does not forbid it.
    #[cfg_attr(not(feature = "mpi"), expect(clippy::unnecessary_wraps, reason = "with MPI it fails"))]
    pub(super) fn init(alone: bool) -> Result<Self> {
        #[cfg(feature = "mpi")]
        if !alone {
            return MpiWorld::init().map(Self::Mpi);
        }
        let _ = alone;
        Ok(Self::Solo(Solo))
    }

    pub(super) fn control(&self) -> &dyn Control {
        match self {
            #[cfg(feature = "mpi")]
            Self::Mpi(world) => world,
            Self::Solo(solo) => solo,
        }
    }

    /// Number among the processes that share this one's memory, and how many they are.
    pub(super) fn local(&self) -> (u32, u32) {
        match self {
            #[cfg(feature = "mpi")]
            Self::Mpi(world) => (world.local_rank(), world.local_size()),
            Self::Solo(_) => (0, 1),
        }
    }

    /// Orderly end; after it nothing of MPI may be called.
    #[cfg_attr(not(feature = "mpi"), expect(clippy::unnecessary_wraps, reason = "with MPI it fails"))]
    pub(super) fn finalize(self) -> Result<()> {
        match self {
            #[cfg(feature = "mpi")]
            Self::Mpi(world) => world.finalize(),
            Self::Solo(_) => Ok(()),
        }
    }
}

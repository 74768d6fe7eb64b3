//! What a collective *is*: its buffers for a size, what its size means, its data before and after, and the calls
//! that it makes. No pointer, no backend, no clock.

mod all_gather;
mod all_reduce;
mod alltoall;
mod alltoallv;
mod broadcast;
mod gather;
mod hypercube;
mod ops;
mod reduce;
mod reduce_scatter;
mod scatter;
mod sendrecv;
mod shares;

pub use ops::{Exchange, Ops, composed_alltoall, composed_gather, composed_scatter};
pub use shares::{Shares, SharesError};

use crate::error::Result;
use crate::vocab::{Content, Dtype, Member, Placement, Side, Slot};

/// A collective's name and how to make it.
#[derive(Debug)]
pub struct Entry {
    /// Name without `_perf`.
    pub name: &'static str,
    /// Makes it; only alltoallv looks at its shares.
    pub build: fn(Shares) -> Box<dyn Collective>,
}

/// Every collective; a test walks the table and the binaries.
pub const ALL: [Entry; 11] = [
    Entry { name: "all_gather", build: |_| Box::new(all_gather::AllGather) },
    Entry { name: "all_reduce", build: |_| Box::new(all_reduce::AllReduce) },
    Entry { name: "alltoall", build: |_| Box::new(alltoall::Alltoall) },
    Entry { name: "alltoallv", build: |shares| Box::new(alltoallv::Alltoallv { shares }) },
    Entry { name: "broadcast", build: |_| Box::new(broadcast::Broadcast) },
    Entry { name: "gather", build: |_| Box::new(gather::Gather) },
    Entry { name: "hypercube", build: |_| Box::new(hypercube::Hypercube) },
    Entry { name: "reduce", build: |_| Box::new(reduce::Reduce) },
    Entry { name: "reduce_scatter", build: |_| Box::new(reduce_scatter::ReduceScatter) },
    Entry { name: "scatter", build: |_| Box::new(scatter::Scatter) },
    Entry { name: "sendrecv", build: |_| Box::new(sendrecv::Sendrecv) },
];

/// What the table and the sweep must know of a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent properties, each asked for by its name")]
pub struct Traits {
    /// It reduces: `-o` is swept and data is arithmetic.
    pub reduces: bool,
    /// It is listed and swept under `-o` although it moves bytes only (sendrecv, as in nccl-tests).
    pub lists_redop: bool,
    /// It has a root: `-r` is swept.
    pub rooted: bool,
    /// Its in-place form has a defined result that can be checked.
    pub checks_in_place: bool,
    /// No rank can finish before every rank has started, so the last to arrive has the shortest time.
    pub synchronising: bool,
    /// It is one of a library's own collectives; else it is made of sends and receives, or may be.
    pub one_call: bool,
    /// The one call by which a library may do it, instead of sends and receives.
    pub native: Option<Native>,
    /// Peers that each rank exchanges with, where they are few: NCCL then connects no others.
    pub peers: Option<i32>,
}

/// A call that newer libraries have for what else is sends and receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Native {
    /// Block p of every rank to rank p.
    Alltoall,
    /// All ranks' blocks to the root.
    Gather,
    /// The root's blocks to all ranks.
    Scatter,
}

impl Traits {
    /// A collective that moves blocks between all ranks.
    const MOVES: Self = Self {
        reduces: false,
        lists_redop: false,
        rooted: false,
        checks_in_place: true,
        synchronising: true,
        one_call: true,
        native: None,
        peers: None,
    };
}

/// Buffers of one rank for one size, in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The count argument of the call, and of the table.
    pub count: u64,
    /// Elements of the send buffer; the largest of all ranks.
    pub send: u64,
    /// Elements of the receive buffer; the largest of all ranks.
    pub recv: u64,
    /// In place, where this rank's input starts in the receive buffer.
    pub send_in_place: u64,
    /// In place, where this rank's result starts in the receive buffer.
    pub recv_in_place: u64,
}

impl Layout {
    /// Elements that either buffer must hold.
    pub fn span(&self) -> u64 {
        self.send.max(self.recv)
    }
}

/// One size of one collective, seen from one rank.
#[derive(Clone, Debug)]
pub struct Case {
    /// This rank.
    pub me: Member,
    /// Element type.
    pub dtype: Dtype,
    /// Root of a rooted collective.
    pub root: u32,
    /// Whether one buffer or two.
    pub placement: Placement,
    /// In place, whether the backend leaves a shrunk result at the start of the input (MPI) or in the rank's own
    /// block (NCCL).
    pub shrinks_to_start: bool,
    /// The buffers, from [`Collective::layout`].
    pub layout: Layout,
    /// The blocks of an uneven exchange, from [`Collective::exchange`]; empty elsewhere.
    pub exchange: Exchange,
}

impl Case {
    /// Where this rank's input starts.
    pub fn input(&self) -> Slot {
        match self.placement {
            Placement::OutOfPlace => Slot { side: Side::Send, offset: 0 },
            Placement::InPlace => Slot { side: Side::Recv, offset: self.layout.send_in_place },
        }
    }

    /// Where this rank's result starts.
    pub fn output(&self) -> Slot {
        match self.placement {
            Placement::OutOfPlace => Slot { side: Side::Recv, offset: 0 },
            Placement::InPlace => Slot { side: Side::Recv, offset: self.layout.recv_in_place },
        }
    }

    /// Whether this rank is the root.
    pub fn is_root(&self) -> bool {
        self.me.rank == self.root
    }
}

/// What "the size" of a case means for its bandwidths.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Traffic {
    /// Bytes that algbw divides by the time.
    pub bytes: u64,
    /// busbw = algbw × this.
    pub bus_factor: f64,
}

/// A collective operation.
pub trait Collective: Send + Sync {
    /// Name without `_perf`.
    fn name(&self) -> &'static str;

    /// How the sweep and the table treat it.
    fn traits(&self) -> Traits;

    /// Buffers for a size of `bytes`, rounded as nccl-tests rounds.
    fn layout(&self, bytes: u64, dtype: Dtype, me: Member) -> Layout;

    /// What algbw and busbw count. Source: nccl-tests, `*GetBw` and doc/PERFORMANCE.md.
    fn traffic(&self, case: &Case) -> Traffic;

    /// What this rank's input holds before the call.
    fn before(&self, case: &Case) -> Content;

    /// What this rank's result must hold after it.
    fn after(&self, case: &Case) -> Content;

    /// The blocks of an uneven exchange, laid out once so that the timed loop need not.
    fn exchange(&self, _layout: &Layout, _dtype: Dtype, _me: Member) -> Exchange {
        Exchange::default()
    }

    /// Rounds that must follow each other; a round's operations may be grouped with other ranks'.
    fn rounds(&self, _ranks: u32) -> u32 {
        1
    }

    /// Why it cannot run with so many ranks, if it cannot.
    fn refuses(&self, _ranks: u32) -> Option<String> {
        None
    }

    /// Why the sweep `min..=max` bytes cannot be measured with so many ranks, if it cannot.
    fn refuses_sizes(&self, _min_bytes: u64, _max_bytes: u64, _ranks: u32) -> Option<String> {
        None
    }

    /// Each rank's share of the traffic: bytes sent and received, where ranks differ.
    fn shares(&self, _case: &Case) -> Vec<(u64, u64)> {
        Vec::new()
    }

    /// Makes the calls of one round.
    fn launch(&self, case: &Case, round: u32, ops: &mut dyn Ops) -> Result<()>;
}

/// What a size of `bytes` means among so many ranks: the same for every one of them.
pub fn traffic(collective: &dyn Collective, bytes: u64, dtype: Dtype, root: u32, ranks: u32) -> Traffic {
    let me = Member { rank: 0, ranks };
    let layout = collective.layout(bytes, dtype, me);
    collective.traffic(&Case {
        me,
        dtype,
        root,
        placement: Placement::OutOfPlace,
        shrinks_to_start: false,
        layout,
        exchange: Exchange::default(),
    })
}

/// Elements of one rank's share when `bytes` are split over `ranks`: rounded down to 16 bytes, as nccl-tests does.
fn share(bytes: u64, dtype: Dtype, ranks: u32) -> u64 {
    (bytes / dtype.bytes() / u64::from(ranks)) & !(16 / dtype.bytes() - 1)
}

/// `(n - 1) / n`: the part of all blocks that leaves its rank. Source: nccl-tests doc/PERFORMANCE.md.
fn all_but_own(ranks: u32) -> f64 {
    f64::from(ranks - 1) / f64::from(ranks)
}

#[cfg(test)]
mod tests;

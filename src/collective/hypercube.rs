//! An all-gather in log2(n) rounds: in round k each rank swaps all that it has with the rank across bit k.

use super::{Case, Collective, Layout, Ops, Traffic, Traits, share};
use crate::error::Result;
use crate::vocab::{Content, Dtype, Member, Placement, Run, Side, Slot, What};

pub(super) struct Hypercube;

impl Collective for Hypercube {
    fn name(&self) -> &'static str {
        "hypercube"
    }

    fn traits(&self) -> Traits {
        Traits { one_call: false, ..Traits::MOVES }
    }

    fn layout(&self, bytes: u64, dtype: Dtype, me: Member) -> Layout {
        let count = share(bytes, dtype, me.ranks);
        Layout {
            count,
            send: count,
            recv: count * u64::from(me.ranks),
            send_in_place: count * u64::from(me.rank),
            recv_in_place: 0,
        }
    }

    fn traffic(&self, case: &Case) -> Traffic {
        let moved = case.layout.count * u64::from(case.me.ranks - 1);
        Traffic { bytes: moved * case.dtype.bytes(), bus_factor: 1.0 }
    }

    fn before(&self, case: &Case) -> Content {
        vec![Run { at: case.input(), count: case.layout.count, what: What::stream(case.me.rank, 0) }]
    }

    fn after(&self, case: &Case) -> Content {
        let block = case.layout.count.max(1);
        let what = What::Copied { block, source: 0, source_step: 1, first: 0, first_step: 0 };
        vec![Run { at: case.output(), count: case.layout.recv, what }]
    }

    fn rounds(&self, ranks: u32) -> u32 {
        ranks.max(2).ilog2()
    }

    fn refuses(&self, ranks: u32) -> Option<String> {
        (!ranks.is_power_of_two()).then(|| {
            format!(
                "hypercube needs a power of two of ranks and got {ranks}; start {} or {}",
                ranks.next_power_of_two() / 2,
                ranks.next_power_of_two()
            )
        })
    }

    fn launch(&self, case: &Case, round: u32, ops: &mut dyn Ops) -> Result<()> {
        let count = case.layout.count;
        let block = |rank: u32| Slot { side: Side::Recv, offset: u64::from(rank) * count };
        if round == 0 && case.placement == Placement::OutOfPlace {
            ops.copy(case.input(), block(case.me.rank), count)?;
        }
        if case.me.ranks == 1 {
            return Ok(());
        }
        let bit = 1 << round;
        let mine = case.me.rank & !(bit - 1);
        ops.group_start()?;
        ops.send(block(mine), count * u64::from(bit), case.me.rank ^ bit)?;
        ops.recv(block(mine ^ bit), count * u64::from(bit), case.me.rank ^ bit)?;
        ops.group_end()
    }
}

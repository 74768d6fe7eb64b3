//! Rank r ends with block r of the reduction of all ranks' buffers.

use super::{Case, Collective, Layout, Ops, Traffic, Traits, all_but_own, share};
use crate::error::Result;
use crate::vocab::{Content, Dtype, Member, Placement, Run, Slot, What};

pub(super) struct ReduceScatter;

impl Collective for ReduceScatter {
    fn name(&self) -> &'static str {
        "reduce_scatter"
    }

    fn traits(&self) -> Traits {
        Traits { reduces: true, lists_redop: true, ..Traits::MOVES }
    }

    fn layout(&self, bytes: u64, dtype: Dtype, me: Member) -> Layout {
        let count = share(bytes, dtype, me.ranks);
        Layout {
            count,
            send: count * u64::from(me.ranks),
            recv: count,
            send_in_place: 0,
            recv_in_place: count * u64::from(me.rank),
        }
    }

    fn traffic(&self, case: &Case) -> Traffic {
        Traffic { bytes: case.layout.send * case.dtype.bytes(), bus_factor: all_but_own(case.me.ranks) }
    }

    fn before(&self, case: &Case) -> Content {
        vec![Run {
            at: case.input(),
            count: case.layout.send,
            what: What::Input { rank: case.me.rank, first: 0 },
        }]
    }

    fn after(&self, case: &Case) -> Content {
        let shrunk = case.shrinks_to_start && case.placement == Placement::InPlace;
        let at = if shrunk { Slot { offset: 0, ..case.output() } } else { case.output() };
        let first = u64::from(case.me.rank) * case.layout.count;
        vec![Run { at, count: case.layout.count, what: What::Reduced { first } }]
    }

    fn launch(&self, case: &Case, _round: u32, ops: &mut dyn Ops) -> Result<()> {
        ops.reduce_scatter(case.input(), case.output(), case.layout.count)
    }
}

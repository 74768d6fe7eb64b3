//! Every rank ends with the reduction of all ranks' buffers.

use super::{Case, Collective, Layout, Ops, Traffic, Traits, all_but_own};
use crate::error::Result;
use crate::vocab::{Content, Dtype, Member, Run, What};

pub(super) struct AllReduce;

impl Collective for AllReduce {
    fn name(&self) -> &'static str {
        "all_reduce"
    }

    fn traits(&self) -> Traits {
        Traits { reduces: true, lists_redop: true, ..Traits::MOVES }
    }

    fn layout(&self, bytes: u64, dtype: Dtype, _me: Member) -> Layout {
        let count = bytes / dtype.bytes();
        Layout { count, send: count, recv: count, send_in_place: 0, recv_in_place: 0 }
    }

    fn traffic(&self, case: &Case) -> Traffic {
        Traffic {
            bytes: case.layout.count * case.dtype.bytes(),
            bus_factor: 2.0 * all_but_own(case.me.ranks),
        }
    }

    fn before(&self, case: &Case) -> Content {
        vec![Run {
            at: case.input(),
            count: case.layout.count,
            what: What::Input { rank: case.me.rank, first: 0 },
        }]
    }

    fn after(&self, case: &Case) -> Content {
        vec![Run { at: case.output(), count: case.layout.count, what: What::Reduced { first: 0 } }]
    }

    fn launch(&self, case: &Case, _round: u32, ops: &mut dyn Ops) -> Result<()> {
        ops.all_reduce(case.input(), case.output(), case.layout.count)
    }
}

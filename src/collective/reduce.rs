//! The root ends with the reduction of all ranks' buffers.

use super::{Case, Collective, Layout, Ops, Traffic, Traits};
use crate::error::Result;
use crate::vocab::{Content, Dtype, Member, Run, What};

pub(super) struct Reduce;

impl Collective for Reduce {
    fn name(&self) -> &'static str {
        "reduce"
    }

    fn traits(&self) -> Traits {
        Traits { reduces: true, lists_redop: true, rooted: true, synchronising: false, ..Traits::MOVES }
    }

    fn layout(&self, bytes: u64, dtype: Dtype, _me: Member) -> Layout {
        let count = bytes / dtype.bytes();
        Layout { count, send: count, recv: count, send_in_place: 0, recv_in_place: 0 }
    }

    fn traffic(&self, case: &Case) -> Traffic {
        Traffic { bytes: case.layout.count * case.dtype.bytes(), bus_factor: 1.0 }
    }

    fn before(&self, case: &Case) -> Content {
        vec![Run {
            at: case.input(),
            count: case.layout.count,
            what: What::Input { rank: case.me.rank, first: 0 },
        }]
    }

    fn after(&self, case: &Case) -> Content {
        if !case.is_root() {
            return Content::new();
        }
        vec![Run { at: case.output(), count: case.layout.count, what: What::Reduced { first: 0 } }]
    }

    fn launch(&self, case: &Case, _round: u32, ops: &mut dyn Ops) -> Result<()> {
        ops.reduce(case.input(), case.output(), case.layout.count, case.root)
    }
}

//! Every rank ends with the root's buffer.

use super::{Case, Collective, Layout, Ops, Traffic, Traits};
use crate::error::Result;
use crate::vocab::{Content, Dtype, Member, Placement, Run, What};

pub(super) struct Broadcast;

impl Collective for Broadcast {
    fn name(&self) -> &'static str {
        "broadcast"
    }

    fn traits(&self) -> Traits {
        Traits { rooted: true, synchronising: false, ..Traits::MOVES }
    }

    fn layout(&self, bytes: u64, dtype: Dtype, _me: Member) -> Layout {
        let count = bytes / dtype.bytes();
        Layout { count, send: count, recv: count, send_in_place: 0, recv_in_place: 0 }
    }

    fn traffic(&self, case: &Case) -> Traffic {
        Traffic { bytes: case.layout.count * case.dtype.bytes(), bus_factor: 1.0 }
    }

    fn before(&self, case: &Case) -> Content {
        // Other ranks' inputs are not to be read; they hold their own stream, so that a wrong root is recognised.
        if !case.is_root() && case.placement == Placement::InPlace {
            return Content::new();
        }
        vec![Run { at: case.input(), count: case.layout.count, what: What::stream(case.me.rank, 0) }]
    }

    fn after(&self, case: &Case) -> Content {
        vec![Run { at: case.output(), count: case.layout.count, what: What::stream(case.root, 0) }]
    }

    fn launch(&self, case: &Case, _round: u32, ops: &mut dyn Ops) -> Result<()> {
        ops.broadcast(case.input(), case.output(), case.layout.count, case.root)
    }
}

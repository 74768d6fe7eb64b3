//! The root ends with all ranks' buffers, laid end to end in rank order.

use super::{Case, Collective, Layout, Native, Ops, Traffic, Traits, all_but_own, share};
use crate::error::Result;
use crate::vocab::{Content, Dtype, Member, Run, What};

pub(super) struct Gather;

impl Collective for Gather {
    fn name(&self) -> &'static str {
        "gather"
    }

    fn traits(&self) -> Traits {
        Traits {
            rooted: true,
            synchronising: false,
            one_call: false,
            native: Some(Native::Gather),
            ..Traits::MOVES
        }
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
        Traffic { bytes: case.layout.recv * case.dtype.bytes(), bus_factor: all_but_own(case.me.ranks) }
    }

    fn before(&self, case: &Case) -> Content {
        vec![Run { at: case.input(), count: case.layout.count, what: What::stream(case.me.rank, 0) }]
    }

    fn after(&self, case: &Case) -> Content {
        if !case.is_root() {
            return Content::new();
        }
        let block = case.layout.count.max(1);
        let what = What::Copied { block, source: 0, source_step: 1, first: 0, first_step: 0 };
        vec![Run { at: case.output(), count: case.layout.recv, what }]
    }

    fn launch(&self, case: &Case, _round: u32, ops: &mut dyn Ops) -> Result<()> {
        ops.gather(case.input(), case.output(), case.layout.count, case.root)
    }
}

//! Block p of every rank's buffer goes to rank p.

use super::{Case, Collective, Layout, Native, Ops, Traffic, Traits, all_but_own, share};
use crate::error::Result;
use crate::vocab::{Content, Dtype, Member, Run, What};

pub(super) struct Alltoall;

impl Collective for Alltoall {
    fn name(&self) -> &'static str {
        "alltoall"
    }

    fn traits(&self) -> Traits {
        Traits { checks_in_place: false, one_call: false, native: Some(Native::Alltoall), ..Traits::MOVES }
    }

    fn layout(&self, bytes: u64, dtype: Dtype, me: Member) -> Layout {
        let count = share(bytes, dtype, me.ranks);
        let all = count * u64::from(me.ranks);
        Layout { count, send: all, recv: all, send_in_place: 0, recv_in_place: 0 }
    }

    fn traffic(&self, case: &Case) -> Traffic {
        Traffic { bytes: case.layout.send * case.dtype.bytes(), bus_factor: all_but_own(case.me.ranks) }
    }

    fn before(&self, case: &Case) -> Content {
        vec![Run { at: case.input(), count: case.layout.send, what: What::stream(case.me.rank, 0) }]
    }

    fn after(&self, case: &Case) -> Content {
        let block = case.layout.count.max(1);
        let first = u64::from(case.me.rank) * case.layout.count;
        let what = What::Copied { block, source: 0, source_step: 1, first, first_step: 0 };
        vec![Run { at: case.output(), count: case.layout.recv, what }]
    }

    fn launch(&self, case: &Case, _round: u32, ops: &mut dyn Ops) -> Result<()> {
        ops.alltoall(case.input(), case.output(), case.layout.count)
    }
}

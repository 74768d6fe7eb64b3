//! Rank r ends with block r of the root's buffer.

use super::{Case, Collective, Layout, Native, Ops, Traffic, Traits, all_but_own, share};
use crate::error::Result;
use crate::vocab::{Content, Dtype, Member, Placement, Run, What};

pub(super) struct Scatter;

impl Collective for Scatter {
    fn name(&self) -> &'static str {
        "scatter"
    }

    fn traits(&self) -> Traits {
        Traits {
            rooted: true,
            synchronising: false,
            one_call: false,
            native: Some(Native::Scatter),
            ..Traits::MOVES
        }
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
        // Other ranks' inputs are not to be read; they hold their own stream, so that a wrong root is recognised.
        if !case.is_root() && case.placement == Placement::InPlace {
            return Content::new();
        }
        vec![Run { at: case.input(), count: case.layout.send, what: What::stream(case.me.rank, 0) }]
    }

    fn after(&self, case: &Case) -> Content {
        let first = u64::from(case.me.rank) * case.layout.count;
        vec![Run { at: case.output(), count: case.layout.count, what: What::stream(case.root, first) }]
    }

    fn launch(&self, case: &Case, _round: u32, ops: &mut dyn Ops) -> Result<()> {
        ops.scatter(case.input(), case.output(), case.layout.count, case.root)
    }
}

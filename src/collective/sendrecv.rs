//! Every rank sends to the next and receives from the one before, round the ring.

use super::{Case, Collective, Layout, Ops, Traffic, Traits};
use crate::error::Result;
use crate::vocab::{Content, Dtype, Member, Run, What};

pub(super) struct Sendrecv;

impl Collective for Sendrecv {
    fn name(&self) -> &'static str {
        "sendrecv"
    }

    fn traits(&self) -> Traits {
        Traits {
            lists_redop: true,
            checks_in_place: false,
            synchronising: false,
            one_call: false,
            peers: Some(2),
            ..Traits::MOVES
        }
    }

    fn layout(&self, bytes: u64, dtype: Dtype, _me: Member) -> Layout {
        let count = bytes / dtype.bytes();
        Layout { count, send: count, recv: count, send_in_place: 0, recv_in_place: 0 }
    }

    fn traffic(&self, case: &Case) -> Traffic {
        Traffic { bytes: case.layout.count * case.dtype.bytes(), bus_factor: 1.0 }
    }

    fn before(&self, case: &Case) -> Content {
        vec![Run { at: case.input(), count: case.layout.count, what: What::stream(case.me.rank, 0) }]
    }

    fn after(&self, case: &Case) -> Content {
        vec![Run { at: case.output(), count: case.layout.count, what: What::stream(case.me.ring(-1), 0) }]
    }

    fn launch(&self, case: &Case, _round: u32, ops: &mut dyn Ops) -> Result<()> {
        ops.group_start()?;
        ops.send(case.input(), case.layout.count, case.me.ring(1))?;
        ops.recv(case.output(), case.layout.count, case.me.ring(-1))?;
        ops.group_end()
    }
}

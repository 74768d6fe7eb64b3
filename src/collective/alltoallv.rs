//! Every rank sends every other a block of its own length.

use super::{Case, Collective, Exchange, Layout, Ops, Shares, Traffic, Traits, all_but_own, share};
use crate::error::Result;
use crate::vocab::{Content, Dtype, Member, Run, Slot, What};

pub(super) struct Alltoallv {
    pub(super) shares: Shares,
}

impl Collective for Alltoallv {
    fn name(&self) -> &'static str {
        "alltoallv"
    }

    fn traits(&self) -> Traits {
        Traits { checks_in_place: false, one_call: false, ..Traits::MOVES }
    }

    fn layout(&self, bytes: u64, dtype: Dtype, me: Member) -> Layout {
        let count = if self.shares.is_generated() { share(bytes, dtype, me.ranks) } else { 0 };
        let (send, recv) = self.shares.largest(count, dtype, me.ranks);
        Layout { count, send, recv, send_in_place: 0, recv_in_place: 0 }
    }

    fn traffic(&self, case: &Case) -> Traffic {
        Traffic { bytes: case.layout.span() * case.dtype.bytes(), bus_factor: all_but_own(case.me.ranks) }
    }

    fn before(&self, case: &Case) -> Content {
        let count = case.exchange.send.iter().sum();
        vec![Run { at: case.input(), count, what: What::stream(case.me.rank, 0) }]
    }

    fn after(&self, case: &Case) -> Content {
        let firsts = self.shares.starts_towards(case.layout.count, case.dtype, case.me);
        let block = |source: u32| {
            let (at, start) = (source as usize, case.output());
            Run {
                at: Slot { offset: start.offset + case.exchange.recv_at[at], ..start },
                count: case.exchange.recv[at],
                what: What::stream(source, firsts[at]),
            }
        };
        (0..case.me.ranks).map(block).filter(|run| run.count > 0).collect()
    }

    fn exchange(&self, layout: &Layout, dtype: Dtype, me: Member) -> Exchange {
        self.shares.exchange(layout.count, dtype, me)
    }

    fn refuses(&self, ranks: u32) -> Option<String> {
        self.shares.refuses(ranks)
    }

    fn refuses_sizes(&self, min_bytes: u64, max_bytes: u64, ranks: u32) -> Option<String> {
        let needed = self.shares.matrix_bytes(ranks);
        if self.shares.is_generated() {
            None
        } else if min_bytes != max_bytes {
            Some(format!(
                "a traffic matrix fixes the sizes: give -b and -e the same value, {} or more",
                needed.max(1)
            ))
        } else {
            (max_bytes < needed).then(|| format!("the traffic matrix needs -b {needed} -e {needed} or more"))
        }
    }

    fn shares(&self, case: &Case) -> Vec<(u64, u64)> {
        let total = |rank| {
            let exchange = self.shares.exchange(case.layout.count, case.dtype, Member { rank, ..case.me });
            let bytes = |elements: &[u64]| elements.iter().sum::<u64>() * case.dtype.bytes();
            (bytes(&exchange.send), bytes(&exchange.recv))
        };
        (0..case.me.ranks).map(total).collect()
    }

    fn launch(&self, case: &Case, _round: u32, ops: &mut dyn Ops) -> Result<()> {
        ops.alltoallv(case.input(), case.output(), &case.exchange)
    }
}

//! The order of the sizes within a cycle, so that size need not go with time and temperature.

use crate::cli::{Extent, Order};

/// `sizes`, which grow, in the order of cycle number `cycle`. Equal on every rank and every machine.
pub fn in_order(mut sizes: Vec<u64>, extent: &Extent, cycle: u64) -> Vec<u64> {
    match extent.order {
        Order::Natural => {}
        Order::Mirrored if cycle.is_multiple_of(2) => {}
        Order::Mirrored => sizes.reverse(),
        Order::Permuted => {
            let mut state = mixed(extent.seed).wrapping_add(mixed(!cycle));
            // Fisher and Yates; the modulus favours low places by less than 2^-50.
            for last in (1..sizes.len()).rev() {
                state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
                sizes.swap(last, (mixed(state) % (last as u64 + 1)) as usize);
            }
        }
    }
    sizes
}

/// The output function of `SplitMix64`: own code, so that a seed means the same in every version.
fn mixed(state: u64) -> u64 {
    let once = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let twice = (once ^ (once >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    twice ^ (twice >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn order(order: Order, seed: u64, cycle: u64) -> Vec<u64> {
        in_order(vec![8, 16, 32, 64], &Extent { order, seed, ..Extent::default() }, cycle)
    }

    #[test]
    fn natural_and_mirrored() {
        for cycle in 0..4 {
            assert_eq!(order(Order::Natural, 1, cycle), [8, 16, 32, 64]);
        }
        assert_eq!(order(Order::Mirrored, 1, 0), [8, 16, 32, 64]);
        assert_eq!(order(Order::Mirrored, 1, 1), [64, 32, 16, 8]);
        assert_eq!(order(Order::Mirrored, 1, 2), [8, 16, 32, 64]);
    }

    #[test]
    fn every_permutation_comes_alike_often() {
        let mut seen = HashMap::<Vec<u64>, u32>::new();
        for cycle in 0..24_000 {
            *seen.entry(order(Order::Permuted, 5, cycle)).or_default() += 1;
        }
        assert_eq!(seen.len(), 24);
        assert!(seen.values().all(|times| (850..1150).contains(times)), "{seen:?}");
    }

    #[test]
    fn a_seed_keeps_its_meaning() {
        let all: Vec<_> = (0..3).map(|cycle| order(Order::Permuted, 1, cycle)).collect();
        assert_eq!(all, WANTED);
        assert_ne!(order(Order::Permuted, 2, 0), WANTED[0]);
        assert!(in_order(vec![], &Extent { order: Order::Permuted, ..Extent::default() }, 0).is_empty());
    }

    const WANTED: [[u64; 4]; 3] = [[16, 64, 8, 32], [64, 8, 32, 16], [8, 32, 16, 64]];
}

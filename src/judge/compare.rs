//! Confirmation: two tests that differ in the accused alone, in turn, paired.

use super::suspects::Limits;
use super::verdict::{Blame, Finding};
use super::{Places, Shape, Size, Test};
use crate::stats::{abba, median, median_bounds};

/// Pairs of repeats.
pub const REPEATS: usize = 9;
/// Ranks of a ring at most: more would only add noise.
const RING: usize = 64;

/// What a confirmation's interval must exceed: logarithms of ratios, at large and small sizes.
const CONFIRMED: f64 = 0.049;
const CONFIRMED_LATE: f64 = 0.223;

/// A test with the accused, and one without that should take as long.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Comparison {
    accused: Test,
    fair: Test,
}

impl Comparison {
    /// Its tests in order.
    pub(super) fn tests(&self) -> Vec<Test> {
        let both = [&self.accused, &self.fair];
        (0..REPEATS).flat_map(abba).map(|which| both[which].clone()).collect()
    }

    /// Pairs of times, with and without the accused, from the times of [`Comparison::tests`].
    fn pairs(times_us: &[f64]) -> Vec<(f64, f64)> {
        let pair = |(repeat, pair): (usize, &[f64])| {
            let [accused, fair] = abba(repeat).map(|which| pair[which]);
            (accused, fair)
        };
        times_us.chunks_exact(2).enumerate().map(pair).collect()
    }

    /// The pairs of several comparisons, of which all tests were heard, one comparison after the other.
    pub(super) fn heard(heard: &[(Test, Vec<f64>)]) -> Vec<Vec<(f64, f64)>> {
        // What counts of a test is its slowest group.
        let longest = |(_, times_us): &(Test, Vec<f64>)| times_us.iter().copied().fold(0.0, f64::max);
        let times: Vec<f64> = heard.iter().map(longest).collect();
        times.chunks_exact(2 * REPEATS).map(Self::pairs).collect()
    }
}

/// The accused among few: their traffic alone, against the same traffic of others. `good` are the ranks that nobody
/// accuses; `turn` chooses among them.
pub(super) fn alone(places: &Places, blame: &Blame, good: &[u32], turn: usize) -> Option<Comparison> {
    let good = turned(good, turn);
    match blame {
        Blame::LateRank { rank } => members(places, &[*rank], &good, (Shape::Ring, Size::Small), false),
        Blame::SlowSender { rank } => members(places, &[*rank], &good, (Shape::OneWay, Size::Large), false),
        Blame::SlowReceiver { rank } => members(places, &[*rank], &good, (Shape::OneWay, Size::Large), true),
        Blame::SlowLink { from, to } => Some(link(places, *from, *to, &good)),
        Blame::SlowGpu { rank } => good.first().map(|other| own(*rank, *other)),
        Blame::SlowBothWays { .. }
        | Blame::SlowNode { .. }
        | Blame::SlowRail { .. }
        | Blame::SlowBlock { .. } => {
            members(places, &blame.ranks(), &good, (Shape::Ring, Size::Large), false)
        }
    }
}

/// The accused by itself, against another rank by itself.
fn own(rank: u32, other: u32) -> Comparison {
    let alone = |rank| Test { shape: Shape::Own, size: Size::Large, groups: vec![vec![rank]] };
    Comparison { accused: alone(rank), fair: alone(other) }
}

fn turned(good: &[u32], turn: usize) -> Vec<u32> {
    let mut good = good.to_vec();
    if !good.is_empty() {
        let by = turn % good.len();
        good.rotate_left(by);
    }
    good
}

/// Each of the accused with a partner, against a stand-in with the same partner.
fn members(
    places: &Places,
    accused: &[u32],
    good: &[u32],
    (shape, size): (Shape, Size),
    receives: bool,
) -> Option<Comparison> {
    let mut free = good.to_vec();
    let (mut theirs, mut fair) = (Vec::new(), Vec::new());
    for rank in accused {
        let found = partner_and_stand_in(places, *rank, &free);
        let Some((partner, stand_in)) = found else { continue };
        free.retain(|other| *other != partner && *other != stand_in);
        let pair = |a: u32, b: u32| if receives { vec![b, a] } else { vec![a, b] };
        theirs.push(pair(*rank, partner));
        fair.push(pair(stand_in, partner));
    }
    let enough = 2 * theirs.len() >= accused.len() && !theirs.is_empty();
    enough.then_some(Comparison {
        accused: Test { shape, size, groups: theirs },
        fair: Test { shape, size, groups: fair },
    })
}

/// Two of `free`, of which both `rank` and the second are as far from the first; in another host, where there is one.
fn partner_and_stand_in(places: &Places, rank: u32, free: &[u32]) -> Option<(u32, u32)> {
    let (far, near): (Vec<u32>, Vec<u32>) = free.iter().partition(|other| !places.together(rank, **other));
    far.iter().chain(&near).find_map(|partner| {
        let alike = |other: &&u32| {
            *other != partner && places.together(**other, *partner) == places.together(rank, *partner)
        };
        // Last first: the first ones are the next partners.
        free.iter().rev().find(alike).map(|stand_in| (*partner, *stand_in))
    })
}

/// One message over the link, against one from its sender and one to its receiver at the same time; of two ranks,
/// against the way back.
fn link(places: &Places, from: u32, to: u32, good: &[u32]) -> Comparison {
    let near = places.together(from, to);
    // In a third host, where the link is between two: these may have more than one bad link.
    let apart = |other: u32| places.together(from, other) == near && places.together(to, other) == near;
    let mut apart = good.iter().filter(|other| apart(**other));
    let (target, source) = (apart.next(), apart.next());
    let mut fair: Vec<Vec<u32>> = target.map(|target| vec![from, *target]).into_iter().collect();
    fair.extend(source.map(|source| vec![*source, to]));
    if fair.is_empty() {
        fair.push(vec![to, from]);
    }
    let one_way = |groups| Test { shape: Shape::OneWay, size: Size::Large, groups };
    Comparison { accused: one_way(vec![vec![from, to]]), fair: one_way(fair) }
}

/// The accused in a ring, against a ring of as many ranks without: leave one out. `None` where too few ranks are good, or
/// where the accused's traffic says nothing about it.
pub(super) fn in_a_ring(places: &Places, blame: &Blame, good: &[u32]) -> Option<Comparison> {
    if matches!(blame, Blame::SlowGpu { .. }) {
        return None;
    }
    let size = if matches!(blame, Blame::LateRank { .. }) { Size::Small } else { Size::Large };
    let ring = |ranks: Vec<u32>| Test { shape: Shape::Ring, size, groups: vec![ranks] };
    if let Blame::SlowLink { from, to } = blame {
        let near = places.together(*from, *to);
        let mut rest: Vec<u32> =
            good.iter().copied().filter(|rank| !near || places.together(*from, *rank)).take(RING).collect();
        let first = (!rest.is_empty()).then(|| rest.remove(0))?;
        let with = [&[*from, *to, first], rest.as_slice()].concat();
        let without = [&[*from, first, *to], rest.as_slice()].concat();
        return Some(Comparison { accused: ring(with), fair: ring(without) });
    }
    let accused = blame.ranks();
    // Its messages must go to another host, where there is one: within its own they might not be the slowest.
    let away: Vec<u32> = good
        .iter()
        .copied()
        .filter(|rank| accused.iter().all(|other| !places.together(*rank, *other)))
        .collect();
    let from = if away.len() > accused.len() { &away } else { good };
    let fair: Vec<u32> = from.iter().copied().take(RING.max(2 * accused.len())).collect();
    if fair.len() <= accused.len() {
        return None;
    }
    // The last ones leave, so that both rings are as long and reach over as many hosts.
    let mut with = fair[..fair.len() - accused.len()].to_vec();
    with.extend(accused);
    with.sort_unstable();
    Some(Comparison { accused: ring(with), fair: ring(fair) })
}

/// Logarithms of paired ratios.
fn ratios(pairs: &[(f64, f64)]) -> Vec<f64> {
    pairs.iter().map(|(with, without)| (with.max(1e-3) / without.max(1e-3)).ln()).collect()
}

/// Whether the interval of the ratio lies above what counts.
pub(super) fn confirmed(blame: &Blame, pairs: &[(f64, f64)]) -> bool {
    let least = if matches!(blame, Blame::LateRank { .. }) { CONFIRMED_LATE } else { CONFIRMED };
    median_bounds(&ratios(pairs)).is_some_and(|(low, _)| low > least)
}

/// Whether pairs of times at the large size, with and without the accused, would make the localiser accuse it and be one of
/// its confirmations.
pub fn is_slow(pairs: &[(f64, f64)]) -> bool {
    let ratios = ratios(pairs);
    let stands_out = median(&ratios).is_some_and(|ratio| ratio > Limits::default().slow);
    stands_out && median_bounds(&ratios).is_some_and(|(low, _)| low > CONFIRMED)
}

/// A name with the evidence of its first confirmation, after the second.
pub(super) fn finding(blame: Blame, alone: &[(f64, f64)]) -> Option<Finding> {
    let ratios = ratios(alone);
    let (low, high) = median_bounds(&ratios)?;
    let excess: Vec<f64> = alone.iter().map(|(with, without)| with - without).collect();
    Some(Finding {
        blame,
        ratio: median(&ratios)?.exp(),
        ratio_low: low.exp(),
        ratio_high: high.exp(),
        excess_us: median(&excess)?,
        repeats: excess.len(),
        confirmations: 2,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_is_what_stands_out_in_all_but_one_pair() {
        let pairs = |ratios: [f64; 9]| ratios.map(|ratio| (100.0 * ratio, 100.0));
        assert!(is_slow(&pairs([1.12; 9])));
        assert!(!is_slow(&pairs([1.08; 9])), "it does not stand out");
        let mut noisy = [1.2; 9];
        noisy[0] = 0.5;
        assert!(is_slow(&pairs(noisy)));
        noisy[1] = 1.0;
        assert!(!is_slow(&pairs(noisy)), "it is not confirmed");
        assert!(!is_slow(&[]));
    }

    #[test]
    fn the_two_tests_of_a_comparison_differ_in_the_accused_alone() {
        let places = Places::of(&(0..24).map(|rank| rank / 8).collect::<Vec<u32>>());
        let all: Vec<Blame> = vec![
            Blame::LateRank { rank: 9 },
            Blame::SlowSender { rank: 9 },
            Blame::SlowReceiver { rank: 9 },
            Blame::SlowBothWays { rank: 9 },
            Blame::SlowNode { ranks: (8..16).collect() },
        ];
        for blame in all {
            let accused = blame.ranks();
            let good: Vec<u32> = (0..24).filter(|rank| !accused.contains(rank)).collect();
            for comparison in [alone(&places, &blame, &good, 0), in_a_ring(&places, &blame, &good)] {
                let Comparison { accused: with, fair } = comparison.unwrap();
                let has = |test: &Test, rank: &u32| test.groups.iter().flatten().any(|other| other == rank);
                assert!(accused.iter().any(|rank| has(&with, rank)), "{blame:?} {with:?}");
                assert!(!accused.iter().any(|rank| has(&fair, rank)), "{blame:?} {fair:?}");
                let lengths = |test: &Test| test.groups.iter().map(Vec::len).collect::<Vec<_>>();
                assert_eq!(lengths(&with), lengths(&fair), "{blame:?}");
                if with.groups.len() == 1 && with.groups[0].len() == 2 {
                    let far = |test: &Test| !places.together(test.groups[0][0], test.groups[0][1]);
                    assert_eq!(far(&with), far(&fair), "{blame:?}");
                }
            }
        }
    }

    #[test]
    fn in_a_ring_the_accused_sends_to_another_host() {
        let places = Places::of(&(0..24).map(|rank| rank / 8).collect::<Vec<u32>>());
        let good: Vec<u32> = (0..24).filter(|rank| *rank != 12).collect();
        let ring =
            in_a_ring(&places, &Blame::SlowSender { rank: 12 }, &good).unwrap().accused.groups.remove(0);
        let at = ring.iter().position(|rank| *rank == 12).unwrap();
        assert!(!places.together(12, ring[(at + 1) % ring.len()]), "{ring:?}");
        // With nobody elsewhere its own host must do.
        let near: Vec<u32> = (8..12).collect();
        assert!(in_a_ring(&places, &Blame::SlowSender { rank: 12 }, &near).is_some());
    }

    #[test]
    fn a_link_is_in_one_of_two_rings() {
        let places = Places::of(&[0, 1, 2, 3]);
        let blame = Blame::SlowLink { from: 3, to: 1 };
        let edges = |test: &Test| {
            let ring = &test.groups[0];
            (0..ring.len()).map(|at| (ring[at], ring[(at + 1) % ring.len()])).collect::<Vec<_>>()
        };
        let rings = in_a_ring(&places, &blame, &[0, 2]).unwrap();
        assert!(edges(&rings.accused).contains(&(3, 1)));
        assert!(!edges(&rings.fair).contains(&(3, 1)) && !edges(&rings.fair).contains(&(1, 3)));
        assert_eq!(in_a_ring(&places, &blame, &[]), None);
        assert_eq!(alone(&places, &blame, &[], 0).unwrap().fair.groups, [[1, 3]]);
        let alone = alone(&places, &blame, &[0, 2], 0).unwrap();
        assert_eq!(alone.fair.groups, [[3, 0], [2, 1]]);
    }
}

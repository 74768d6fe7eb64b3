//! Who meets whom: halves by the bits of a rank's place, and rounds of disjoint pairs.

use super::{Shape, Size, Test};

/// Two halves of `ranks` for each bit of a rank's place, and two by the parity of all bits; only halves in which
/// somebody has a peer.
pub(super) fn splits(ranks: &[u32]) -> Vec<[Vec<u32>; 2]> {
    let bits = usize::BITS - ranks.len().saturating_sub(1).leading_zeros();
    let masks = (0..bits).map(|bit| 1_usize << bit).chain([usize::MAX]);
    let halves = |mask: usize| {
        let mut halves = [Vec::new(), Vec::new()];
        for (place, rank) in ranks.iter().enumerate() {
            halves[(place & mask).count_ones() as usize % 2].push(*rank);
        }
        halves
    };
    masks.map(halves).filter(|[zero, one]| zero.len() > 1 && one.len() > 1).collect()
}

/// All pairs of `ranks` in as few rounds of disjoint pairs as there can be: n - 1 of an even number, n of an odd one,
/// in which one rests. The circle method: the first stays, the others move on by one place a round.
pub fn tournament(ranks: &[u32]) -> Vec<Vec<(u32, u32)>> {
    let mut circle: Vec<Option<u32>> = ranks.iter().copied().map(Some).collect();
    if circle.len() % 2 == 1 {
        circle.push(None);
    }
    let mut rounds = Vec::new();
    for _ in 1..circle.len() {
        let half = circle.len() / 2;
        let (left, right) = circle.split_at(half);
        let pairs = left.iter().zip(right.iter().rev());
        rounds.push(pairs.filter_map(|(a, b)| Some(((*a)?, (*b)?))).collect());
        circle[1..].rotate_right(1);
    }
    rounds
}

/// `count` rounds that lie far apart in the tournament of `ranks`, so that peers differ in host.
pub(super) fn sample(ranks: &[u32], count: usize) -> Vec<Vec<(u32, u32)>> {
    let rounds = tournament(ranks);
    let stride = (rounds.len() / count.max(1)).max(1);
    rounds.into_iter().step_by(stride).take(count).collect()
}

/// Rounds in which every suspect meets one of the `others`, and as many others (four at least) meet each other, so
/// that there is something to compare with.
pub(super) fn against(suspects: &[u32], others: &[u32], count: usize) -> Vec<Vec<(u32, u32)>> {
    let mut others = others.to_vec();
    let stride = (others.len() / count.max(1)).max(1);
    let mut rounds = Vec::new();
    for _ in 0..count.min(others.len()) {
        let mut round: Vec<(u32, u32)> = suspects.iter().copied().zip(others.iter().copied()).collect();
        let rest = &others[round.len()..];
        let spare = rest.len() / 2;
        let (left, right) = (&rest[..spare], &rest[spare..]);
        round.extend(left.iter().copied().zip(right.iter().copied()).take(suspects.len().max(4)));
        rounds.push(round);
        others.rotate_left(stride);
    }
    rounds
}

/// A round of pairs as tests: each way in turn at the large size, and with `small` both ways at the small one.
pub(super) fn pairs(round: &[(u32, u32)], small: bool) -> Vec<Test> {
    let groups =
        |back: bool| round.iter().map(|(a, b)| if back { vec![*b, *a] } else { vec![*a, *b] }).collect();
    let test = |shape, size, back| Test { shape, size, groups: groups(back) };
    let large = [false, true].map(|back| test(Shape::OneWay, Size::Large, back));
    let small = small.then(|| test(Shape::Ring, Size::Small, false));
    small.into_iter().chain(large).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_pair_meets_once_and_nobody_twice_in_a_round() {
        for n in 0..=17 {
            let ranks: Vec<u32> = (100..100 + n).collect();
            let rounds = tournament(&ranks);
            assert_eq!(rounds.len() as u32, if n % 2 == 1 { n } else { n.saturating_sub(1) });
            let mut met = HashSet::new();
            for round in &rounds {
                let mut seen = HashSet::new();
                for (a, b) in round {
                    assert!(seen.insert(*a) && seen.insert(*b), "{round:?}");
                    assert!(met.insert((*a.min(b), *a.max(b))), "{rounds:?}");
                }
            }
            assert_eq!(met.len() as u32, n * n.saturating_sub(1) / 2);
        }
    }

    #[test]
    fn splits_decode_one_rank() {
        let ranks: Vec<u32> = (0..13).map(|at| at * 2).collect();
        let splits = splits(&ranks);
        assert_eq!(splits.len(), 5);
        for wanted in &ranks {
            let with = |halves: &[Vec<u32>; 2], rank| usize::from(halves[1].contains(&rank));
            let alike = ranks
                .iter()
                .filter(|other| splits.iter().all(|halves| with(halves, **other) == with(halves, *wanted)));
            assert_eq!(alike.count(), 1);
        }
        assert!(super::splits(&[4, 9]).is_empty() && super::splits(&[]).is_empty());
    }

    #[test]
    fn suspects_meet_others_only() {
        let rounds = against(&[3, 4], &[0, 1, 2, 5, 6, 7], 4);
        assert_eq!(rounds.len(), 4);
        for round in rounds {
            let ranks: Vec<u32> = round.iter().flat_map(|(a, b)| [*a, *b]).collect();
            assert_eq!(ranks.iter().collect::<HashSet<_>>().len(), ranks.len());
            assert!(round.iter().all(|(a, b)| !([3, 4].contains(a) && [3, 4].contains(b))));
            assert_eq!(round.iter().filter(|(a, _)| [3, 4].contains(a)).count(), 2);
            assert!(round.len() >= 4);
        }
    }
}

//! From times of pairs to those who might be slow.

use std::collections::BTreeMap;

use super::polish::{Cell, Polished, polish};
use super::verdict::Blame;
use super::{Places, Shape, Size, Test, lower_median, spread};

/// What is too little to be looked at, as logarithms of ratios of times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// At large sizes.
    pub slow: f64,
    /// At small sizes, where times are short and vary more.
    pub late: f64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { slow: 1.1_f64.ln(), late: 1.5_f64.ln() }
    }
}

/// Ranks that stand out as senders or receivers, and single cells that do, each with the logarithm of its ratio.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Suspects {
    /// As senders.
    pub send: BTreeMap<u32, f64>,
    /// As receivers.
    pub recv: BTreeMap<u32, f64>,
    /// As cells; none of a rank that stands out in that direction, and the worst first.
    pub links: Vec<(u32, u32, f64)>,
    /// Standard deviation of what the polish leaves of a cell.
    pub noise: f64,
    /// What the polish made of the cells.
    pub parts: Polished,
}

/// The noise that is assumed at least, lest a handful of equal times make everything stand out.
const LEAST_NOISE: f64 = 0.005;
/// Standard deviations from which a rank stands out, of its own mean noise and of all ranks' parts; and a cell, of
/// which there are many more.
const OF_NOISE: f64 = 5.0;
pub(super) const OF_RANKS: f64 = 3.5;
const OF_CELLS: f64 = 6.0;

/// Who stands out by more than `least` and the noise, which is `noise` or what the polish leaves, if that is more.
/// Pairs within a host are compared with such pairs only.
pub fn suspects(places: &Places, cells: &[Cell], noise: f64, least: f64) -> Suspects {
    let cells = leveled(places, cells);
    let polished = polish(places.ranks(), &cells);
    let noise = spread(polished.link.iter().copied(), 0.0, noise.max(LEAST_NOISE));
    let mut found = Suspects { noise, ..Suspects::default() };
    let lines = cells.iter().map(|cell| cell.from).collect::<std::collections::HashSet<_>>().len().max(1);
    let own = OF_NOISE * noise / (cells.len() as f64 / lines as f64).max(1.0).sqrt();
    for (parts, into) in [(&polished.send, &mut found.send), (&polished.recv, &mut found.recv)] {
        let limit = least.max(own).max(OF_RANKS * spread(parts.iter().flatten().copied(), 0.0, 0.0));
        let above =
            |(rank, part): (u32, &Option<f64>)| part.filter(|part| *part > limit).map(|part| (rank, part));
        into.extend((0..).zip(parts).filter_map(above));
    }
    let limit = least.max(OF_CELLS * noise);
    for (cell, link) in cells.iter().zip(&polished.link) {
        let known = found.send.contains_key(&cell.from) || found.recv.contains_key(&cell.to);
        if *link > limit && !known {
            found.links.push((cell.from, cell.to, *link));
        }
    }
    found.links.sort_by(|a, b| b.2.total_cmp(&a.2));
    found.parts = polished;
    found
}

/// The shortest time of each directed pair among the tests of a size, as logarithms, and where tests were `repeated` the
/// noise of these as far as repeats tell: how far apart the two shortest are in the mean.
pub(super) fn cells(heard: &[(Test, Vec<f64>)], size: Size, repeated: bool) -> (Vec<Cell>, f64) {
    let mut cells = Vec::new();
    for (test, times_us) in heard.iter().filter(|(test, _)| test.size == size) {
        for (group, time_us) in test.groups.iter().zip(times_us) {
            let [from, to] = group[..] else { continue };
            let y = time_us.max(1e-3).ln();
            cells.push(Cell { from, to, y });
            if test.shape == Shape::Ring {
                cells.push(Cell { from: to, to: from, y });
            }
        }
    }
    if !repeated {
        return (cells, 0.0);
    }
    cells.sort_by(|a, b| (a.from, a.to).cmp(&(b.from, b.to)).then(a.y.total_cmp(&b.y)));
    let repeats: Vec<&[Cell]> = cells.chunk_by(|a, b| (a.from, a.to) == (b.from, b.to)).collect();
    let gaps = repeats.iter().filter_map(|repeats| Some(repeats.get(1)?.y - repeats.first()?.y));
    let noise = gaps.sum::<f64>() / repeats.len().max(1) as f64;
    (repeats.iter().filter_map(|repeats| repeats.first().copied()).collect(), noise)
}

/// Cells less the median of their like: pairs of one host, or of two.
fn leveled(places: &Places, cells: &[Cell]) -> Vec<Cell> {
    let near = |cell: &&Cell| places.together(cell.from, cell.to);
    let median = |mut values: Vec<f64>| lower_median(&mut values).unwrap_or(0.0);
    let inside = median(cells.iter().filter(near).map(|cell| cell.y).collect());
    let between = median(cells.iter().filter(|cell| !near(cell)).map(|cell| cell.y).collect());
    let level = |cell: &Cell| if near(&cell) { inside } else { between };
    cells.iter().map(|cell| Cell { y: cell.y - level(cell), ..*cell }).collect()
}

/// Ranks of one kind that are named at most.
pub(super) const MOST: usize = 4;
/// Beside a rank that was named, so many others must be left for the next one to be the exception among them: of two,
/// either could be.
pub(super) const COMPANY: usize = 3;
/// Links that are looked at again, the worst first.
pub(super) const MOST_LINKS: usize = 8;

/// Those who might be to blame, as few names as explain the suspects among the ranks `left`; or why there is no such
/// name.
pub(super) fn candidates(
    places: &Places,
    left: &[u32],
    small: &Suspects,
    large: &Suspects,
) -> Result<Vec<Blame>, String> {
    let late: Vec<u32> = small.send.keys().filter(|rank| small.recv.contains_key(rank)).copied().collect();
    if left.len() == 2 {
        // Sender, receiver and link are one.
        let slow =
            large.send.keys().find_map(|from| left.iter().find(|to| *to != from).map(|to| (*from, *to)));
        return Ok(slow.into_iter().map(|(from, to)| Blame::SlowLink { from, to }).collect());
    }
    let mut names: Vec<Blame> = late.iter().map(|rank| Blame::LateRank { rank: *rank }).collect();
    let mut slow: Vec<u32> = large.send.keys().chain(large.recv.keys()).copied().collect();
    slow.sort_unstable();
    slow.dedup();
    slow.retain(|rank| !late.contains(rank));
    for name in groups(places, left, &slow) {
        let ranks = name.ranks();
        slow.retain(|rank| !ranks.contains(rank));
        names.push(name);
    }
    names.extend(slow.into_iter().map(|rank| one_rank(rank, large)));
    if names.len() > MOST {
        return Err(format!("{} ranks stand out, without a pattern that is known", names.len()));
    }
    let touched = |(from, to, _): &&(u32, u32, f64)| !late.contains(from) && !late.contains(to);
    let links = large.links.iter().filter(touched).take(MOST_LINKS);
    names.extend(links.map(|(from, to, _)| Blame::SlowLink { from: *from, to: *to }));
    Ok(names)
}

/// Both ways only where neither way is much worse: what one way does to the other (acknowledgements, a shared core) is
/// not a second fault.
fn one_rank(rank: u32, large: &Suspects) -> Blame {
    let part = |parts: &BTreeMap<u32, f64>| parts.get(&rank).copied().unwrap_or(0.0);
    match (part(&large.send), part(&large.recv)) {
        (send, recv) if send > 2.0 * recv => Blame::SlowSender { rank },
        (send, recv) if recv > 2.0 * send => Blame::SlowReceiver { rank },
        _ => Blame::SlowBothWays { rank },
    }
}

/// Hosts, runs of hosts and rails whose ranks are all among the `slow`: of at least three that there are, since of
/// two either could be the slow one.
fn groups(places: &Places, left: &[u32], slow: &[u32]) -> Vec<Blame> {
    let whole = |number: &[u32]| {
        let mut all = BTreeMap::<u32, Vec<u32>>::new();
        for rank in left {
            all.entry(number[*rank as usize]).or_default().push(*rank);
        }
        let count = all.len();
        all.retain(|_, ranks| ranks.len() > 1 && ranks.iter().all(|rank| slow.contains(rank)));
        if count > 2 { all } else { BTreeMap::new() }
    };
    let mut names = Vec::new();
    let mut run: Option<(u32, Vec<u32>, usize)> = None;
    let close = |run: Option<(u32, Vec<u32>, usize)>, names: &mut Vec<Blame>| match run {
        Some((_, ranks, 1)) => names.push(Blame::SlowNode { ranks }),
        Some((_, ranks, _)) => names.push(Blame::SlowBlock { ranks }),
        None => {}
    };
    for (node, ranks) in whole(&places.node) {
        run = match run.take() {
            Some((last, mut so_far, hosts)) if last + 1 == node => {
                so_far.extend(ranks);
                Some((node, so_far, hosts + 1))
            }
            other => {
                close(other, &mut names);
                Some((node, ranks, 1))
            }
        };
    }
    close(run, &mut names);
    if names.is_empty() {
        names.extend(whole(&places.rail).into_values().map(|ranks| Blame::SlowRail { ranks }));
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two sizes of hosts: pairs within one take a tenth.
    fn table(places: &Places, slow: impl Fn(u32, u32) -> f64) -> Vec<Cell> {
        let n = places.ranks();
        let pairs = (0..n).flat_map(|from| (0..n).map(move |to| (from, to))).filter(|(from, to)| from != to);
        pairs
            .map(|(from, to)| {
                let base = if places.together(from, to) { 10.0 } else { 100.0 };
                let wobble = 1.0 + f64::from((from * 11 + to * 17) % 7) * 2e-3;
                Cell { from, to, y: (base * wobble * slow(from, to)).ln() }
            })
            .collect()
    }

    fn names(places: &Places, slow: impl Fn(u32, u32) -> f64) -> Result<Vec<Blame>, String> {
        let found = suspects(places, &table(places, slow), 0.0, Limits::default().slow);
        let left: Vec<u32> = (0..places.ranks()).collect();
        candidates(places, &left, &Suspects::default(), &found)
    }

    fn four_hosts() -> Places {
        Places::of(&(0..16).map(|rank| rank / 4).collect::<Vec<u32>>())
    }

    #[test]
    fn each_kind_is_told_by_its_pattern() {
        let places = four_hosts();
        let hit = |hit: bool| if hit { 1.25 } else { 1.0 };
        assert_eq!(names(&places, |_, _| 1.0), Ok(vec![]));
        assert_eq!(names(&places, |from, _| hit(from == 5)), Ok(vec![Blame::SlowSender { rank: 5 }]));
        assert_eq!(names(&places, |_, to| hit(to == 5)), Ok(vec![Blame::SlowReceiver { rank: 5 }]));
        assert_eq!(
            names(&places, |from, to| hit(from == 5 || to == 5)),
            Ok(vec![Blame::SlowBothWays { rank: 5 }])
        );
        let mostly = |from: u32, to: u32| {
            if from == 5 {
                4.0
            } else if to == 5 {
                1.3
            } else {
                1.0
            }
        };
        assert_eq!(names(&places, mostly), Ok(vec![Blame::SlowSender { rank: 5 }]));
        let link = vec![Blame::SlowLink { from: 5, to: 12 }];
        assert_eq!(names(&places, |from, to| hit((from, to) == (5, 12))), Ok(link));
        let node = vec![Blame::SlowNode { ranks: vec![4, 5, 6, 7] }];
        assert_eq!(names(&places, |from, _| hit(from / 4 == 1)), Ok(node));
        let rail = vec![Blame::SlowRail { ranks: vec![2, 6, 10, 14] }];
        assert_eq!(names(&places, |from, to| hit(from % 4 == 2 || to % 4 == 2)), Ok(rail));
        let hosts = Places::of(&(0..32).map(|rank| rank / 2).collect::<Vec<u32>>());
        let block = vec![Blame::SlowBlock { ranks: (8..12).collect() }];
        assert_eq!(names(&hosts, |from, _| hit((8..12).contains(&from))), Ok(block));
    }

    #[test]
    fn many_without_a_pattern_are_no_names() {
        let places = Places::of(&(0..32).collect::<Vec<u32>>());
        let odd = names(&places, |from, _| if [1, 4, 9, 16, 25].contains(&from) { 1.5 } else { 1.0 });
        assert!(odd.is_err_and(|why| why.contains("5 ranks")));
    }

    #[test]
    fn noise_that_repeats_showed_hides_what_is_smaller() {
        let places = four_hosts();
        let cells = table(&places, |from, _| if from == 5 { 1.25 } else { 1.0 });
        let least = Limits::default().slow;
        assert!(suspects(&places, &cells, 0.05, least).send.contains_key(&5));
        assert!(suspects(&places, &cells, 0.25, least).send.is_empty());
    }

    #[test]
    fn of_two_ranks_the_link_is_named() {
        let places = Places::of(&[0, 1]);
        let link = vec![Blame::SlowLink { from: 1, to: 0 }];
        assert_eq!(names(&places, |from, _| if from == 1 { 1.5 } else { 1.0 }), Ok(link));
    }
}

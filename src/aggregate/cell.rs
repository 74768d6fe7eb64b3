//! What all ranks brought back from one placement, made into one cell of a row.

use super::{Average, Cell, GroupTime, PerIteration, RankSample, Summary, Wrong};
use crate::collective::Traffic;
use crate::stats::{nearest_rank, sorted};
use crate::verify::Tally;
use crate::vocab::Placement;

/// Whether and how the placement was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Check {
    /// Every rank counted its wrong elements.
    Counted,
    /// `-c 0`.
    NotChecked,
    /// The placement has no defined result.
    Undefined,
    /// No check can see an error here; the reason.
    Blind(String),
}

/// What the options say about every cell of a run.
#[derive(Clone, Copy, Debug)]
pub struct How<'a> {
    /// `-a`.
    pub average: Average,
    /// `-C`: the table shows the host's time before the last wait.
    pub cputime: bool,
    /// `-I`: statistics over iterations.
    pub per_iteration: bool,
    /// `-K`: leading iterations that the statistics leave out.
    pub skip: usize,
    /// The process of each rank, in rank order.
    pub processes: &'a [u32],
}

/// One cell. `samples` come in any order and leave in rank order.
pub fn cell(
    placement: Placement,
    mut samples: Vec<RankSample>,
    traffic: Traffic,
    how: How<'_>,
    check: Check,
) -> Cell {
    samples.sort_by_key(|sample| sample.rank);
    let time = Summary::over(&samples.iter().map(|sample| sample.total_us).collect::<Vec<_>>());
    let cputime = Summary::over(&samples.iter().map(|sample| sample.cpu_us).collect::<Vec<_>>());
    let algbw_gbps = bandwidth(traffic.bytes, time.select(how.average));
    let (wrong, wrong_ranks) = verdict(&samples, check);
    Cell {
        placement,
        time,
        cputime,
        shown_us: if how.cputime { cputime.select(how.average) } else { time.select(how.average) },
        algbw_gbps,
        busbw_gbps: algbw_gbps * traffic.bus_factor,
        wrong,
        wrong_ranks,
        coverage: None,
        algorithm: None,
        predicted_us: None,
        unpredicted: None,
        stop: None,
        groups: Vec::new(),
        per_iteration: if how.per_iteration { per_iteration(&samples, how) } else { None },
        arrivals: None,
        ranks: samples,
    }
}

/// A cell of several groups, each with its ranks and what its size means: the slowest group's figures, all groups'
/// check, every rank's times.
pub fn split_cell(
    placement: Placement,
    samples: Vec<RankSample>,
    groups: &[(u32, Vec<u32>, Traffic)],
    how: How<'_>,
    check: Check,
) -> Cell {
    let mut cells = Vec::with_capacity(groups.len());
    for (group, ranks, traffic) in groups {
        let theirs = samples.iter().filter(|sample| ranks.contains(&sample.rank)).cloned().collect();
        let cell = cell(placement, theirs, *traffic, how, check.clone());
        let ranks = ranks.len() as u32;
        let Cell { time, algbw_gbps, busbw_gbps, ref wrong, .. } = cell;
        let wrong = wrong.clone();
        cells.push((GroupTime { group: *group, ranks, time, algbw_gbps, busbw_gbps, wrong }, cell));
    }
    let mut all = cell(placement, samples, Traffic { bytes: 0, bus_factor: 0.0 }, how, check);
    if matches!(all.wrong, Wrong::Count(_)) {
        // Each group follows a legal result of its own.
        let counts = cells.iter().map(|(_, cell)| match cell.wrong {
            Wrong::Count(wrong) => wrong,
            _ => 0,
        });
        all.wrong = Wrong::Count(counts.sum());
        all.wrong_ranks = cells.iter().flat_map(|(_, cell)| cell.wrong_ranks.iter().copied()).collect();
        all.wrong_ranks.sort_unstable();
    }
    let slowest = cells.iter().map(|(_, cell)| cell).max_by(|a, b| a.shown_us.total_cmp(&b.shown_us));
    let Some(slowest) = slowest.cloned() else { return all };
    let groups = cells.into_iter().map(|(time, _)| time).collect();
    // As nccl-tests, -I is over all ranks: the slowest group may be another one in every cycle.
    let Cell { wrong, wrong_ranks, per_iteration, ranks, .. } = all;
    Cell { wrong, wrong_ranks, groups, per_iteration, ranks, ..slowest }
}

/// 10^9 B/s; 0 where nothing took no time, never infinite.
fn bandwidth(bytes: u64, time_us: f64) -> f64 {
    let gbps = bytes as f64 / 1e3 / time_us;
    if gbps.is_finite() && time_us > 0.0 { gbps } else { 0.0 }
}

/// Sums over ranks, then takes the better of the two legal results (`avg` may divide before or after the sum, but
/// all ranks alike). A rank without a count makes the whole cell unchecked, unless an error was seen elsewhere.
fn verdict(samples: &[RankSample], check: Check) -> (Wrong, Vec<u32>) {
    match check {
        Check::NotChecked => return (Wrong::NotChecked, Vec::new()),
        Check::Undefined => return (Wrong::Undefined, Vec::new()),
        Check::Blind(reason) => return (Wrong::Blind(reason), Vec::new()),
        Check::Counted => {}
    }
    let tallies: Vec<_> = samples.iter().filter_map(|s| s.tally.map(|tally| (s.rank, tally))).collect();
    let sum =
        |of: fn(&Tally) -> u64| tallies.iter().fold(0, |sum: u64, (_, tally)| sum.saturating_add(of(tally)));
    let (wrong_a, wrong_b) = (sum(|tally| tally.wrong_a), sum(|tally| tally.wrong_b));
    let wrong = wrong_a.min(wrong_b);
    if wrong == 0 && (tallies.is_empty() || tallies.len() < samples.len()) {
        return (Wrong::NotChecked, Vec::new());
    }
    let own = |rank: &Tally| if wrong_a <= wrong_b { rank.wrong_a } else { rank.wrong_b };
    let guilty = tallies.iter().filter(|(_, tally)| own(tally) > 0).map(|(rank, _)| *rank).collect();
    (Wrong::Count(wrong), guilty)
}

/// nccl-tests' statistics of `-I` (`computeIterStats`): the maximum over each process's ranks, then over
/// processes, per iteration; `None` where not every rank has the series, or `-K` leaves nothing.
fn per_iteration(samples: &[RankSample], how: How<'_>) -> Option<PerIteration> {
    let iterations = samples.first()?.series.interval_us.len();
    if samples.iter().any(|sample| sample.series.interval_us.len() != iterations) {
        return None;
    }
    let mut per_process: Vec<(u32, Vec<f64>)> = Vec::new();
    for sample in samples {
        let process = how.processes.get(sample.rank as usize).copied().unwrap_or(sample.rank);
        match per_process.iter_mut().find(|(known, _)| *known == process) {
            Some((_, times)) => raise(times, &sample.series.interval_us),
            None => per_process.push((process, sample.series.interval_us.clone())),
        }
    }
    per_process.sort_by_key(|(process, _)| *process);
    let per_process_us: Vec<Vec<f64>> = per_process.into_iter().map(|(_, times)| times).collect();
    let mut times_us = vec![0.0; iterations];
    for times in &per_process_us {
        raise(&mut times_us, times);
    }
    statistics(times_us, per_process_us, how.skip)
}

/// Element-wise maximum.
fn raise(times: &mut [f64], others: &[f64]) {
    for (time, other) in times.iter_mut().zip(others) {
        *time = time.max(*other);
    }
}

fn statistics(times_us: Vec<f64>, per_process_us: Vec<Vec<f64>>, skip: usize) -> Option<PerIteration> {
    let sorted = sorted(times_us.get(skip..)?);
    let samples = sorted.len() as f64;
    let avg_us = sorted.iter().sum::<f64>() / samples;
    let variance = sorted.iter().map(|time| (time - avg_us) * (time - avg_us)).sum::<f64>() / samples;
    let stdev_us = variance.sqrt();
    Some(PerIteration {
        skipped: skip,
        min_us: *sorted.first()?,
        max_us: *sorted.last()?,
        avg_us,
        p50_us: *sorted.get(sorted.len() / 2)?,
        p95_us: nearest_rank(&sorted, 95)?,
        p99_us: nearest_rank(&sorted, 99)?,
        stdev_us,
        cv_pct: if avg_us > 0.0 { stdev_us / avg_us * 100.0 } else { 0.0 },
        times_us,
        per_process_us,
    })
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "the values are exact")]
mod tests {
    use super::*;
    use crate::aggregate::Series;

    const TRAFFIC: Traffic = Traffic { bytes: 1_000_000, bus_factor: 1.5 };
    const HOW: How<'static> = How {
        average: Average::Max,
        cputime: false,
        per_iteration: false,
        skip: 0,
        processes: &[0, 1, 2, 3],
    };

    fn sample(rank: u32, total_us: f64, tally: Option<(u64, u64)>) -> RankSample {
        let tally = tally.map(|(wrong_a, wrong_b)| Tally { wrong_a, wrong_b, ..Tally::default() });
        RankSample { rank, total_us, cpu_us: total_us / 2.0, series: Series::default(), tally }
    }

    fn two(first: Option<(u64, u64)>, second: Option<(u64, u64)>) -> Vec<RankSample> {
        vec![sample(1, 20.0, second), sample(0, 10.0, first)]
    }

    #[test]
    fn time_and_bandwidth_follow_the_chosen_average() {
        for (average, time_us) in
            [(Average::Rank0, 10.0), (Average::Avg, 15.0), (Average::Min, 10.0), (Average::Max, 20.0)]
        {
            let how = How { average, ..HOW };
            let cell = cell(Placement::InPlace, two(None, None), TRAFFIC, how, Check::NotChecked);
            assert_eq!(cell.shown_us, time_us);
            assert_eq!(cell.algbw_gbps, 1000.0 / time_us);
            assert_eq!(cell.busbw_gbps, 1500.0 / time_us);
            assert_eq!(cell.ranks[0].rank, 0);
        }
        let cpu = cell(
            Placement::InPlace,
            two(None, None),
            TRAFFIC,
            How { cputime: true, ..HOW },
            Check::NotChecked,
        );
        assert_eq!(
            (cpu.shown_us, cpu.algbw_gbps),
            (10.0, 50.0),
            "bandwidth is of the time, not of the CPU's"
        );
    }

    #[test]
    fn no_time_is_no_bandwidth() {
        for time_us in [0.0, -1.0, f64::NAN] {
            assert_eq!(bandwidth(8, time_us), 0.0);
        }
        assert_eq!(bandwidth(0, 5.0), 0.0);
        assert_eq!(bandwidth(u64::MAX, 1e-320), 0.0);
    }

    #[test]
    fn wrong_elements_add_up_under_the_one_result_that_fits_all_ranks() {
        let check = |first, second| {
            let cell = cell(Placement::OutOfPlace, two(first, second), TRAFFIC, HOW, Check::Counted);
            (cell.wrong, cell.wrong_ranks)
        };
        assert_eq!(check(Some((0, 0)), Some((0, 0))), (Wrong::Count(0), vec![]));
        assert_eq!(check(Some((0, 7)), Some((0, 7))), (Wrong::Count(0), vec![]));
        assert_eq!(check(Some((7, 0)), Some((7, 0))), (Wrong::Count(0), vec![]));
        assert_eq!(check(Some((7, 0)), Some((0, 5))), (Wrong::Count(5), vec![1]), "ranks that disagree");
        assert_eq!(check(Some((3, 3)), Some((4, 4))), (Wrong::Count(7), vec![0, 1]));
        assert_eq!(
            check(Some((4, 0)), Some((0, 4))),
            (Wrong::Count(4), vec![0]),
            "a tie goes to the first result"
        );
        assert_eq!(check(Some((3, 3)), None), (Wrong::Count(3), vec![0]));
        assert_eq!(check(Some((0, 0)), None), (Wrong::NotChecked, vec![]), "never called right unseen");
        assert_eq!(check(None, None), (Wrong::NotChecked, vec![]));
    }

    #[test]
    fn each_group_is_checked_by_itself_and_the_slowest_is_shown() {
        let split = |first, second| {
            let groups = [(0, vec![0], TRAFFIC), (4, vec![1], TRAFFIC)];
            split_cell(Placement::OutOfPlace, two(first, second), &groups, HOW, Check::Counted)
        };
        let right = split(Some((0, 5)), Some((7, 0)));
        assert_eq!(
            (right.wrong, right.wrong_ranks),
            (Wrong::Count(0), vec![]),
            "each follows its own result"
        );
        let bad = split(Some((2, 5)), Some((7, 1)));
        let of: Vec<_> =
            bad.groups.iter().map(|group| (group.group, group.ranks, group.wrong.clone())).collect();
        assert_eq!(of, [(0, 1, Wrong::Count(2)), (4, 1, Wrong::Count(1))]);
        assert_eq!((bad.wrong, bad.wrong_ranks), (Wrong::Count(3), vec![0, 1]));
        let with = |rank: u32, interval_us: &[f64]| {
            let mut sample = sample(rank, f64::from(rank) + 1.0, None);
            sample.series.interval_us = interval_us.to_vec();
            sample
        };
        let samples = vec![with(0, &[9.0, 1.0]), with(1, &[2.0, 3.0])];
        let groups = [(0, vec![0], TRAFFIC), (4, vec![1], TRAFFIC)];
        let how = How { per_iteration: true, processes: &[0, 1], ..HOW };
        let cell = split_cell(Placement::OutOfPlace, samples, &groups, how, Check::NotChecked);
        assert_eq!(cell.per_iteration.unwrap().times_us, [9.0, 3.0], "over all ranks");
        let longest = bad.groups.iter().map(|group| group.time.avg_us).fold(0.0, f64::max);
        assert_eq!((bad.time.avg_us, bad.ranks.len()), (longest, 2));
    }

    #[test]
    fn iterations_are_the_maximum_over_ranks() {
        let with = |rank, interval_us: &[f64]| {
            let mut sample = sample(rank, 1.0, None);
            sample.series.interval_us = interval_us.to_vec();
            sample
        };
        let samples = vec![with(0, &[9.0, 1.0, 4.0]), with(1, &[2.0, 3.0, 3.0]), with(2, &[1.0, 1.0, 6.0])];
        let how = How { per_iteration: true, skip: 1, processes: &[0, 0, 1], ..HOW };
        let stats = per_iteration(&samples, how).unwrap();
        assert_eq!(stats.times_us, [9.0, 3.0, 6.0]);
        assert_eq!(stats.per_process_us, [[9.0, 3.0, 4.0], [1.0, 1.0, 6.0]]);
        assert_eq!((stats.min_us, stats.max_us, stats.avg_us, stats.p50_us), (3.0, 6.0, 4.5, 6.0));
        assert_eq!((stats.stdev_us, stats.p95_us, stats.p99_us), (1.5, 6.0, 6.0));
        assert!((stats.cv_pct - 100.0 / 3.0).abs() < 1e-12);
        assert_eq!(per_iteration(&samples, How { skip: 3, ..how }), None);
        assert_eq!(per_iteration(&samples, How { skip: 4, ..how }), None);
        assert_eq!(per_iteration(&[with(0, &[1.0]), with(1, &[])], how), None);
    }
}

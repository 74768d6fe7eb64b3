//! `p2p_matrix_perf`: all pairs by a tournament, in one launch, over one communicator.

use super::agreement::together;
use super::reporter::{Reporter, local_time};
use crate::cli::Cli;
use crate::error::{Exit, Result};
use crate::judge::{Link, Matrix, PairTimes, Shape, Size, Suspects, Test, tournament};
use crate::measure::{Bench, Load};
use crate::report::record::Event;
use crate::report::sink::Level;
use crate::report::{matrix, places_of, table};

/// Bytes of a small message, and how many are sent together where their rate counts.
const SMALL_BYTES: u64 = 8;
const BATCH: u32 = 64;
/// Repeats of every round; their order moves on by one each time. The median counts.
const REPEATS: usize = 5;
/// Up to so many ranks every pair is measured alone too; above, the suspects are.
const ALL_ALONE: u32 = 16;

/// What is measured of each round; alone comes after them.
const KINDS: usize = 4;

/// Times by directed pair, one list for each kind, in µs.
struct Samples {
    ranks: u32,
    times_us: Vec<[Vec<f64>; KINDS + 1]>,
}

impl Samples {
    fn of(&mut self, from: u32, to: u32) -> &mut [Vec<f64>; KINDS + 1] {
        &mut self.times_us[(from * self.ranks + to) as usize]
    }
}

/// Measures all pairs; the first process, whose `reporter` is there, shows them.
pub(super) fn measure(
    bench: &mut Bench<'_>,
    cli: &Cli,
    host: &str,
    large_bytes: u64,
    reporter: Option<&Reporter>,
) -> Result<()> {
    let made = match (&cli.csv, reporter) {
        (Some(path), Some(reporter)) => reporter.sink.write_file(path, ""),
        _ => Ok(()),
    };
    together(bench.control, host, made)?;
    let ranks = bench.backend.ranks();
    let all: Vec<u32> = (0..ranks).collect();
    let mut rounds = tournament(&all);
    let mut samples = Samples {
        ranks,
        // Only the first process is told times.
        times_us: (0..reporter.map_or(0, |_| ranks * ranks))
            .map(|_| std::array::from_fn(|_| Vec::new()))
            .collect(),
    };
    for _ in 0..REPEATS {
        for round in &rounds {
            measure_round(bench, round, large_bytes, &mut samples)?;
        }
        let by = 1.min(rounds.len());
        rounds.rotate_left(by);
    }
    if ranks <= ALL_ALONE {
        let pairs = all.iter().flat_map(|from| all.iter().map(move |to| (*from, *to)));
        let pairs: Vec<_> = pairs.filter(|(from, to)| from != to).collect();
        alone(bench, &pairs, large_bytes, &mut samples)?;
    }
    let found = reporter.map(|reporter| {
        let places = places_of(&reporter.preamble.sites);
        let mut matrix = summary(&mut samples, large_bytes);
        let found = matrix.decompose(&places);
        (matrix, found, places)
    });
    let mine =
        found.as_ref().filter(|_| ranks > ALL_ALONE).map(|(matrix, found, _)| matrix.of_suspects(found));
    let suspects =
        bench.control.broadcast(serde_json::to_vec(&mine.unwrap_or_default()).unwrap_or_default())?;
    let suspects: Vec<(u32, u32)> = serde_json::from_slice(&suspects).unwrap_or_default();
    alone(bench, &suspects, large_bytes, &mut samples)?;
    let (Some(reporter), Some((mut matrix, found, places))) = (reporter, found) else { return Ok(()) };
    if ranks < 2 {
        reporter.sink.note(Level::Warning, "one rank has no pair: nothing was measured");
    }
    if !suspects.is_empty() {
        matrix = summary(&mut samples, large_bytes);
        matrix.decompose(&places);
    }
    show(reporter, cli, &matrix, &found)
}

/// One round at all kinds, each way.
fn measure_round(
    bench: &mut Bench<'_>,
    round: &[(u32, u32)],
    large_bytes: u64,
    samples: &mut Samples,
) -> Result<()> {
    let kinds = [
        (Shape::Ring, Load { bytes: SMALL_BYTES, batch: 1, operations: 32 }),
        (Shape::OneWay, Load { bytes: SMALL_BYTES, batch: BATCH, operations: 4 }),
        (Shape::OneWay, Load { bytes: large_bytes, batch: 1, operations: 2 }),
        (Shape::Ring, Load { bytes: large_bytes, batch: 1, operations: 2 }),
    ];
    for (kind, (shape, load)) in kinds.into_iter().enumerate() {
        let ways: &[bool] = if shape == Shape::Ring { &[false] } else { &[false, true] };
        for back in ways {
            let turned: Vec<(u32, u32)> =
                round.iter().map(|(a, b)| if *back { (*b, *a) } else { (*a, *b) }).collect();
            let groups = turned.iter().map(|(a, b)| vec![*a, *b]).collect();
            let size = if load.bytes == SMALL_BYTES { Size::Small } else { Size::Large };
            let times = bench.probe(&Test { shape, size, groups }, load)?.unwrap_or_default();
            for ((from, to), us) in turned.into_iter().zip(times) {
                samples.of(from, to)[kind].push(us);
                if shape == Shape::Ring {
                    samples.of(to, from)[kind].push(us);
                }
            }
        }
    }
    Ok(())
}

/// Each pair while nobody else sends.
fn alone(bench: &mut Bench<'_>, pairs: &[(u32, u32)], large_bytes: u64, samples: &mut Samples) -> Result<()> {
    let load = Load { bytes: large_bytes, batch: 1, operations: 2 };
    for _ in 0..REPEATS {
        for (from, to) in pairs {
            let test = Test { shape: Shape::OneWay, size: Size::Large, groups: vec![vec![*from, *to]] };
            if let Some(times) = bench.probe(&test, load)? {
                samples.of(*from, *to)[KINDS].extend(times);
            }
        }
    }
    Ok(())
}

/// Medians of all pairs.
fn summary(samples: &mut Samples, large_bytes: u64) -> Matrix {
    let ranks = samples.ranks;
    let mut links = Vec::new();
    for (from, to) in (0..ranks).flat_map(|from| (0..ranks).map(move |to| (from, to))) {
        let [latency_us, message_us, one_way_us, both_ways_us, alone_us] = samples.of(from, to).clone();
        let times = PairTimes { latency_us, message_us, one_way_us, both_ways_us, alone_us };
        links.extend(Link::of(from, to, large_bytes, times));
    }
    Matrix::of(SMALL_BYTES, large_bytes, links)
}

fn show(reporter: &Reporter, cli: &Cli, matrix: &Matrix, found: &Suspects) -> Result<()> {
    let sink = &reporter.sink;
    sink.event(&Event::Matrix(matrix.clone()));
    sink.print(&matrix::table(matrix, &reporter.preamble.sites));
    let place = |rank: u32| format!("rank {}", table::ranked(rank, &reporter.preamble.sites));
    let words = "a suspect, not a finding; --localize of another binary confirms";
    for (role, ranks) in [("sends", &found.send), ("receives", &found.recv)] {
        for (rank, part) in ranks {
            let text = format!("{} {role} in {:.2} x the time of others: {words}", place(*rank), part.exp());
            sink.note(Level::Warning, &text);
        }
    }
    for (from, to, part) in &found.links {
        let link = matrix.links.iter().find(|link| (link.from, link.to) == (*from, *to));
        let alone = link.and_then(|link| link.alone_gbps).map(|rate| format!(", {rate:.2} GB/s alone"));
        let text = format!(
            "{} to {} takes {:.2} x the time of others, {:.2} GB/s{}: {words}",
            place(*from),
            place(*to),
            part.exp(),
            link.map_or(0.0, |link| link.one_way_gbps),
            alone.unwrap_or_default()
        );
        sink.note(Level::Warning, &text);
    }
    cli.csv.as_ref().map_or(Ok(()), |path| sink.write_file(path, &matrix::csv(&reporter.preamble, matrix)))
}

/// The last lines, and the code to leave with.
pub(super) fn end(reporter: &Reporter) -> Exit {
    reporter.sink.print(&matrix::footer(&reporter.preamble));
    let ended = Event::Ended { exit_code: Exit::Success.code(), end_time: local_time() };
    reporter.sink.end(&ended).map_or_else(|error| error.exit(), |()| Exit::Success)
}

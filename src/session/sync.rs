//! All processes' clocks against process 0's: which share one, and ping-pong with one process of each other host.

use rustix::time::{ClockId, clock_gettime};

use super::Control;
use crate::clock::{Fit, Ping, Point, Track};
use crate::error::Result;

/// Round trips of a burst; fewer where there are so many hosts that bursts would take long.
const PINGS: usize = 32;
const PINGS_OF_MANY: usize = 8;
const MANY_HOSTS: usize = 64;
/// The shortest rest before listening, in ns.
const REST_NS: u64 = 10_000;

/// The machine's monotonic clock, in ns: one clock for all processes of a kernel.
pub fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

/// What all processes with the same monotonic clock have alike: host name, boot, and name space of time.
pub fn clock_name() -> String {
    let host = hostname::get().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let space = std::fs::read_link("/proc/self/ns/time").unwrap_or_default();
    format!("{host} {} {}", boot.trim(), space.display())
}

/// The clocks of a job. Every process has one and calls the same methods in the same order; only process 0 learns
/// what they say.
pub struct Clocks<'a> {
    control: &'a dyn Control,
    /// Of each process, the clock that it reads.
    clock_of: Vec<usize>,
    /// Of each clock but process 0's (which is clock 0), the first process that reads it, and what is known.
    others: Vec<(u32, Track)>,
}

impl<'a> Clocks<'a> {
    /// Asks every process for its clock's name. Collective.
    pub fn new(control: &'a dyn Control) -> Result<Self> {
        let names = control.all_gather(clock_name().as_bytes())?;
        let (clock_of, leaders) = group(&names);
        let others = leaders.into_iter().skip(1).map(|leader| (leader, Track::default())).collect();
        Ok(Self { control, clock_of, others })
    }

    /// Adds a point to each other clock's track. Collective; the hosts take turns, so that they do not disturb
    /// each other.
    pub fn sync(&mut self) -> Result<()> {
        let me = self.control.rank();
        let pings = if self.others.len() > MANY_HOSTS { PINGS_OF_MANY } else { PINGS };
        for (leader, track) in &mut self.others {
            if me == 0 {
                let burst: Vec<Ping> =
                    (0..pings).map(|_| ask(self.control, *leader)).collect::<Result<_>>()?;
                if let Some(point) = Point::from_pings(&burst) {
                    track.push(point);
                }
            } else if me == *leader {
                for turn in 0..pings {
                    rest(turn);
                    self.control.hear(0)?;
                    self.control.tell(0, monotonic_ns())?;
                }
            }
        }
        Ok(())
    }

    /// At process 0: how the clock of `process` runs against process 0's. `None` before the first `sync`.
    pub fn fit(&self, process: u32) -> Option<Fit> {
        match self.clock_of.get(process as usize)? {
            0 => Some(Fit::OWN),
            clock => self.others.get(clock - 1)?.1.fit(),
        }
    }

    /// At process 0: the same of all processes. `None` before the first `sync`.
    pub fn fits(&self) -> Option<Vec<Fit>> {
        (0..).zip(&self.clock_of).map(|(process, _)| self.fit(process)).collect()
    }

    /// At process 0: no two processes' clocks are further off each other than this, in µs.
    pub fn error_us(&self) -> f64 {
        let mut errors: Vec<f64> = self.states().map(|(_, _, fit)| fit.error_ns / 1e3).collect();
        errors.sort_by(|a, b| b.total_cmp(a));
        errors.iter().take(2).sum()
    }

    /// At process 0: of each other clock the first process that reads it, the newest point and the fit.
    pub fn states(&self) -> impl Iterator<Item = (u32, Point, Fit)> {
        self.others.iter().filter_map(|(process, track)| Some((*process, *track.newest()?, track.fit()?)))
    }

    /// Clocks of the job.
    pub fn count(&self) -> usize {
        self.others.len() + 1
    }
}

/// Lets the question come before it is listened for, in every second turn and ever longer. A library that yields
/// while it waits gives its core away for time slices where the core is shared; who does not wait does not yield.
fn rest(turn: usize) {
    let rest_ns = if turn.is_multiple_of(2) { 0 } else { REST_NS << (turn / 2 % 5) };
    let start = monotonic_ns();
    while monotonic_ns() - start < rest_ns {
        std::hint::spin_loop();
    }
}

fn ask(control: &dyn Control, leader: u32) -> Result<Ping> {
    let sent_ns = monotonic_ns();
    control.tell(leader, 0)?;
    let other_ns = control.hear(leader)?;
    Ok(Ping { sent_ns, other_ns, received_ns: monotonic_ns() })
}

/// Of each process its clock, clocks being numbered as they first occur, and of each clock its first process.
fn group(names: &[Vec<u8>]) -> (Vec<usize>, Vec<u32>) {
    let mut leaders: Vec<u32> = Vec::new();
    let mut clock_of = Vec::with_capacity(names.len());
    for (process, name) in (0..).zip(names) {
        let known = leaders.iter().position(|leader| names[*leader as usize] == *name);
        clock_of.push(known.unwrap_or_else(|| {
            leaders.push(process);
            leaders.len() - 1
        }));
    }
    (clock_of, leaders)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::solo::Solo;

    #[test]
    fn processes_of_a_host_share_a_clock() {
        let names = ["a", "b", "a", "c", "b"].map(|name| name.as_bytes().to_vec());
        assert_eq!(group(&names), (vec![0, 1, 0, 2, 1], vec![0, 1, 3]));
    }

    #[test]
    fn one_process_has_one_clock_and_no_error() {
        let mut clocks = Clocks::new(&Solo).unwrap();
        clocks.sync().unwrap();
        assert_eq!((clocks.count(), clocks.fit(0), clocks.fit(1)), (1, Some(Fit::OWN), None));
        assert_eq!(clocks.fits(), Some(vec![Fit::OWN]));
    }

    #[test]
    fn the_monotonic_clock_is_the_one_of_the_standard_library() {
        let (start, before) = (std::time::Instant::now(), monotonic_ns());
        std::thread::sleep(std::time::Duration::from_millis(20));
        let (theirs, ours) = (start.elapsed().as_nanos() as u64, monotonic_ns() - before);
        assert!(ours.abs_diff(theirs) < 5_000_000, "{ours} {theirs}");
    }
}

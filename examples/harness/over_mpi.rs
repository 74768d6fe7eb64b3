//! Blocks of our timed loop and of a bare `MPI_Allreduce` loop in turn, in one launch, over the same buffers.
#![expect(unsafe_code, reason = "the bare loop calls MPI itself")]

use std::ffi::{c_int, c_void};
use std::time::Instant;

use critrank::backend::Backend;
use critrank::backend::mpi::MpiHost;
use critrank::collective::Collective;
use critrank::error::{Error, Result};
use critrank::measure::Blocking;
use critrank::session::Control;
use critrank::session::mpi::MpiWorld;
use mpi::ffi;

use crate::mode::{Mode, ours};

/// Short, so that most blocks of a busy machine pass between two interruptions.
const BLOCK_US: f64 = 500.0;
pub(crate) const MOST_ITERATIONS: u64 = 20_000;

/// Both times of a pair of neighbouring blocks, in µs per operation: means over ranks.
#[derive(Clone, Copy)]
pub(crate) struct Pair {
    pub(crate) ours: f64,
    pub(crate) bare: f64,
}

impl Pair {
    pub(crate) fn log_ratio(self) -> f64 {
        (self.ours / self.bare).ln()
    }
}

pub(crate) struct Job<'a> {
    pub(crate) world: &'a MpiWorld,
    pub(crate) host: MpiHost,
    pub(crate) collective: &'a dyn Collective,
}

impl Job<'_> {
    /// `quadruples` times ours, bare, bare, ours: two pairs each, the same on every rank.
    pub(crate) fn pairs(&mut self, mode: Mode, bytes: u64, quadruples: usize) -> Result<Vec<[Pair; 2]>> {
        let iterations = self.iterations(mode, bytes)?;
        let mut mine = Vec::with_capacity(quadruples * 4);
        for _ in 0..quadruples {
            for is_ours in [true, false, false, true] {
                mine.push(if is_ours {
                    ours(&mut self.host, self.world, self.collective, mode, iterations, bytes)?
                } else {
                    self.bare(mode, iterations, bytes)?
                });
            }
        }
        let means = self.mean_over_ranks(&mine)?;
        let blocks = means.as_chunks::<4>().0.iter();
        Ok(blocks.map(|[a, b, c, d]| [Pair { ours: *a, bare: *b }, Pair { ours: *d, bare: *c }]).collect())
    }

    /// So many that a block takes about `BLOCK_US`; the same on every rank.
    fn iterations(&mut self, mode: Mode, bytes: u64) -> Result<u64> {
        let mut one = f64::INFINITY;
        for _ in 0..5 {
            one = one.min(self.bare(mode, 20, bytes)?);
        }
        let wanted = (BLOCK_US / one).ceil() as u64;
        Ok(self.world.vote(wanted)?.clamp(5, MOST_ITERATIONS))
    }

    fn mean_over_ranks(&self, mine: &[f64]) -> Result<Vec<f64>> {
        let bytes: Vec<u8> = mine.iter().flat_map(|value| value.to_le_bytes()).collect();
        let all = self.world.all_gather(&bytes)?;
        let mut sums = vec![0.0; mine.len()];
        for rank in &all {
            for (sum, bytes) in sums.iter_mut().zip(rank.as_chunks::<8>().0) {
                *sum += f64::from_le_bytes(*bytes) / all.len() as f64;
            }
        }
        Ok(sums)
    }

    /// The block without us: µs per operation of what `time` means in the mode.
    fn bare(&mut self, mode: Mode, iterations: u64, bytes: u64) -> Result<f64> {
        let (send, recv) = self.host.buffers();
        if send.len() < bytes as usize || recv.len() < bytes as usize {
            return Err(Error::Setup(format!("the buffers hold less than {bytes} bytes")));
        }
        let call = Call {
            send: send.as_ptr().cast(),
            recv: recv.as_mut_ptr().cast(),
            count: c_int::try_from(bytes / 4).unwrap_or(c_int::MAX),
        };
        // SAFETY: both buffers are borrowed until the end of this function and were measured above.
        unsafe { bare_loop(&call, mode.blocking(), iterations) }
    }
}

struct Call {
    send: *const c_void,
    recv: *mut c_void,
    count: c_int,
}

impl Call {
    /// # Safety
    /// Both buffers hold `count` floats.
    unsafe fn all_reduce(&self) -> c_int {
        // SAFETY: the caller's promise.
        unsafe {
            ffi::MPI_Allreduce(
                self.send,
                self.recv,
                self.count,
                ffi::RSMPI_FLOAT,
                ffi::RSMPI_SUM,
                ffi::RSMPI_COMM_WORLD,
            )
        }
    }
}

fn barrier() -> c_int {
    // SAFETY: MPI is initialised as long as a `Job` lives.
    unsafe { ffi::MPI_Barrier(ffi::RSMPI_COMM_WORLD) }
}

/// # Safety
/// As for `Call::all_reduce`.
unsafe fn bare_loop(call: &Call, blocking: Blocking, iterations: u64) -> Result<f64> {
    // SAFETY: the caller's promise, here and below.
    let mut failed = unsafe { call.all_reduce() };
    failed |= barrier();
    let start = Instant::now();
    let mut inside = 0;
    for _ in 0..iterations {
        // The mode's time leaves the barrier out, so this loop too must read the clock.
        if blocking == Blocking::WaitThenBarrier {
            let called = start.elapsed().as_nanos();
            // SAFETY: as above.
            failed |= unsafe { call.all_reduce() };
            inside += start.elapsed().as_nanos() - called;
        } else {
            // SAFETY: as above.
            failed |= unsafe { call.all_reduce() };
        }
        if blocking.meets() {
            failed |= barrier();
        }
    }
    let whole = start.elapsed().as_nanos();
    failed |= barrier();
    if failed != 0 {
        return Err(Error::Mpi { call: "MPI_Allreduce", text: format!("error {failed} in the bare loop") });
    }
    let nanoseconds = if blocking == Blocking::WaitThenBarrier { inside } else { whole };
    Ok(nanoseconds as f64 / 1e3 / iterations as f64)
}

/// Clock readings of the mode that the bare loop does not have, inside `time`.
pub(crate) fn extra_readings(mode: Mode) -> u32 {
    match mode.blocking() {
        Blocking::WaitThenBarrier => mode.readings() - 2,
        _ => mode.readings(),
    }
}

/// Buffers for all that is measured.
pub(crate) fn host(world: &MpiWorld, bytes: u64) -> Result<MpiHost> {
    let mut host = MpiHost::new(world)?;
    host.allocate(bytes, 2 * MOST_ITERATIONS as usize + 1)?;
    Ok(host)
}

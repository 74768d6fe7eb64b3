//! Which faults can be put in where.

use super::Cli;
use crate::error::Error;
use crate::vocab::{Corruption, Inject, Kind, Point};

impl Cli {
    /// Refuses faults that this backend cannot be given, or of which there are too many.
    pub(super) fn validate_faults(&self) -> Result<(), Error> {
        let real = self.backend != Kind::Sim;
        let simulated =
            |fault: &&Inject| matches!(fault, Inject::Corrupt { how, .. } if *how != Corruption::Flipped);
        if let (true, Some(fault)) = (real, self.inject.iter().find(simulated)) {
            return Err(Error::Unsupported(format!(
                "--inject {fault} works with --backend sim only; elsewhere corrupt:RANK:flipped flips a bit of each result"
            )));
        }
        let corrupts = |fault: &Inject| matches!(fault, Inject::Corrupt { .. });
        if real && self.inject.iter().filter(|fault| corrupts(fault)).count() > 1 {
            return Err(Error::Usage("one rank at a time can be injected with wrong data".to_owned()));
        }
        let in_a_sweep = |fault: &&Inject| {
            corrupts(fault)
                || matches!(
                    fault,
                    Inject::Hang { at: Point::Iteration(_), .. }
                        | Inject::Stop { at: Point::Iteration(_), .. }
                )
        };
        if let (true, Some(fault)) = (self.matrix, self.inject.iter().find(in_a_sweep)) {
            return Err(Error::Usage(format!(
                "--inject {fault} needs a sweep, which p2p_matrix_perf has not: late, slow-link, slow-node, and hang and \
                 stop at init work there"
            )));
        }
        if self.checks == 0 && self.inject.iter().any(corrupts) {
            return Err(Error::Usage("--inject corrupt is found by the check: leave -c 0 out".to_owned()));
        }
        let slow = |fault: &&Inject| fault.lost_pct().is_some();
        if let (Kind::Nccl, Some(fault)) = (self.backend, self.inject.iter().find(slow)) {
            return Err(Error::Unsupported(format!(
                "--inject {fault} is competing traffic over TCP, which NVLink, PCIe and InfiniBand do not carry: it works with \
                 --backend mpi between hosts, and with --backend sim; --backend nccl can be given late, corrupt, hang and stop"
            )));
        }
        if self.inject.iter().filter(slow).count() > 1 {
            return Err(Error::Usage("one slow link or node at a time can be injected".to_owned()));
        }
        Ok(())
    }

    /// Ranks that are made late on purpose.
    pub(super) fn late_ranks(&self) -> usize {
        self.inject.iter().filter(|fault| matches!(fault, Inject::Late { .. })).count()
    }
}

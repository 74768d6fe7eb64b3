//! What `--epochs` goes with.

use super::Cli;
use crate::error::Error;
use crate::vocab::{Inject, Point};

impl Cli {
    /// An epoch must have an end, and a fault in one must come to pass.
    pub(super) fn validate_epochs(&self) -> Result<(), Error> {
        let (epochs, usage) = (self.extent.epochs, |text: String| Err(Error::Usage(text)));
        if epochs > 1 && self.cycles == 0 {
            return usage(format!(
                "-N 0 never comes to the end of its first epoch: give -N a number, or leave --epochs {epochs} out"
            ));
        }
        if epochs > 1 && self.matrix {
            return usage("p2p_matrix_perf has no sweep to repeat: leave --epochs out".to_owned());
        }
        let rounds = if self.graph > 0 { self.graph } else { self.iterations };
        for fault in &self.inject {
            if let Inject::Hang { at: Point::Iteration(at), .. }
            | Inject::Stop { at: Point::Iteration(at), .. } = fault
                && *at >= rounds
            {
                return usage(format!("--inject {fault}: the timed loop has iterations 0 to {}", rounds - 1));
            }
            if let Inject::Hang { at: Point::Epoch(epoch), .. } | Inject::Stop { at: Point::Epoch(epoch), .. } =
                fault
                && !(1..epochs).contains(epoch)
            {
                return usage(format!(
                    "--inject {fault}: new communicators are made for epoch 1 to N - 1 of --epochs N, counted from 0"
                ));
            }
        }
        Ok(())
    }

    /// What is told of the first epoch alone.
    pub(super) fn first_epoch_only(&self) -> Option<String> {
        (self.extent.epochs > 1 && self.cold_start).then(|| {
            "--cold-start tells of the first epoch's communicator; the record has what each later one cost".to_owned()
        })
    }
}

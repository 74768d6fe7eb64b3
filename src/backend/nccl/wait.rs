//! Waiting for the streams of all local ranks.

use std::time::{Duration, Instant};

use super::Nccl;
use crate::error::{Error, Result};

impl Nccl {
    /// Whether all local streams are complete; where not, fails if NCCL has met an error.
    #[inline]
    fn is_done(&self) -> Result<bool> {
        let mut done = true;
        let roams = self.null_stream && self.locals.len() > 1;
        for local in &self.locals {
            if roams {
                self.cuda.enter(&local.place.context)?;
            }
            if !self.cuda.is_done(&local.stream)? {
                self.api.health(&local.comm)?;
                done = false;
            }
        }
        if roams {
            self.cuda.enter(&self.local().place.context)?;
        }
        Ok(done)
    }

    /// Polls until all is done or the deadline has passed.
    pub(super) fn poll(&self, deadline: Duration) -> Result<()> {
        if self.is_done()? {
            return Ok(());
        }
        let started = Instant::now();
        while !self.is_done()? {
            if started.elapsed() > deadline {
                return Err(Error::Timeout { deadline });
            }
            // NCCL's proxy threads may need this core.
            std::thread::yield_now();
        }
        Ok(())
    }
}

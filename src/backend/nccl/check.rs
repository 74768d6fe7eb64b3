//! Filling and checking buffers with `verify`'s kernels.

use super::Nccl;
use super::ffi::Kernels;
use crate::backend::FLIPPED;
use crate::error::{Error, Result};
use crate::verify::{Bad, Pattern, RunSpec, Tally};
use crate::vocab::{Content, Slot};

/// Room for what the kernels report, in words: a tally, or a list of wrong elements.
const REPORT_WORDS: usize = 4096;

impl Nccl {
    /// Loads the kernels for the selected rank, if not done yet, and runs each once on nothing: CUDA loads code
    /// when it first runs, and that must not happen between timed operations.
    fn prime(&mut self) -> Result<()> {
        if self.local().kernels.is_some() {
            return Ok(());
        }
        let place = &self.local().place;
        let kernels = Kernels::load(self.cuda, place.processors, place.device.compute_capability)?;
        let report = self.cuda.allocate(8 * REPORT_WORDS as u64)?;
        kernels.prime(self.cuda, &self.local().stream, &report)?;
        self.local_mut().kernels = Some((kernels, report));
        Ok(())
    }

    /// Writes every run of `content`.
    pub(super) fn fill_content(
        &mut self,
        content: &Content,
        pattern: &Pattern,
        inverted: bool,
    ) -> Result<()> {
        self.prime()?;
        let local = self.local();
        if let Some((kernels, _)) = &local.kernels {
            let spec = pattern.spec();
            for run in content {
                let to = self.at(run.at, run.count)?;
                kernels.fill(self.cuda, &local.stream, to, &(spec, RunSpec::from(run)), inverted)?;
            }
        }
        self.cuda.synchronize(&local.stream)
    }

    /// Compares every run of `content`.
    pub(super) fn check_content(&mut self, content: &Content, pattern: &Pattern) -> Result<Tally> {
        self.prime()?;
        let local = self.local();
        let mut words = to_words(&Tally::default());
        if let Some((kernels, report)) = &local.kernels {
            let spec = pattern.spec();
            self.cuda.write(&words, report, &local.stream)?;
            for run in content {
                let from = self.at(run.at, run.count)?;
                kernels.check(self.cuda, &local.stream, from, &(spec, RunSpec::from(run)), report)?;
            }
            self.cuda.read(report, &mut words, &local.stream)?;
        }
        Ok(from_words(words))
    }

    /// At most `limit` elements, in order, that differ from pattern A, or B. Of a run with more of them than a
    /// report holds, any.
    pub(super) fn bad_content(
        &mut self,
        content: &Content,
        pattern: &Pattern,
        pattern_b: bool,
        limit: usize,
    ) -> Result<Vec<Bad>> {
        self.prime()?;
        let local = self.local();
        let mut bad = Vec::new();
        let Some((kernels, report)) = &local.kernels else { return Ok(bad) };
        let spec = pattern.spec();
        for run in content {
            let mut words = vec![0; REPORT_WORDS];
            let from = self.at(run.at, run.count)?;
            self.cuda.write(&words[..1], report, &local.stream)?;
            let what = &(spec, RunSpec::from(run));
            kernels.collect(self.cuda, &local.stream, from, what, pattern_b, report)?;
            self.cuda.read(report, &mut words, &local.stream)?;
            bad.extend(listed(&words).map(|(index, got)| Bad { run: *run, index, got }).take(limit));
        }
        bad.truncate(limit);
        Ok(bad)
    }

    /// Flips a bit of an element, by way of the report's first word: a copy there, one to the host and back, and one to
    /// its place.
    pub(super) fn flip_element(&mut self, at: Slot) -> Result<()> {
        self.prime()?;
        let local = self.local();
        let Some((_, report)) = &local.kernels else { return Ok(()) };
        let room = report.place(0, self.element).ok_or_else(|| Error::Setup(NO_ROOM.to_owned()))?;
        let (place, mut word) = (self.at(at, 1)?, [0]);
        self.cuda.copy(place, room, self.element, &local.stream)?;
        self.cuda.read(report, &mut word, &local.stream)?;
        word[0] ^= u64::from(FLIPPED) << (8 * (self.element - 1));
        self.cuda.write(&word, report, &local.stream)?;
        self.cuda.copy(room, place, self.element, &local.stream)?;
        self.cuda.synchronize(&local.stream)
    }
}

const NO_ROOM: &str = "a report has no room for an element: an error of this program";

/// The list that `critrank_collect` leaves, by index: threads append to it in any order.
fn listed(words: &[u64]) -> impl Iterator<Item = (u64, u64)> {
    let (found, pairs) = words.split_first().unwrap_or((&0, &[]));
    let mut pairs: Vec<_> = pairs.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
    pairs.truncate(*found as usize);
    pairs.sort_unstable();
    pairs.into_iter()
}

/// A tally as the kernels keep it.
fn to_words(tally: &Tally) -> [u64; Kernels::TALLY] {
    [tally.wrong_a, tally.first_a, tally.last_a, tally.wrong_b, tally.first_b, tally.last_b]
}

fn from_words([wrong_a, first_a, last_a, wrong_b, first_b, last_b]: [u64; Kernels::TALLY]) -> Tally {
    Tally { wrong_a, wrong_b, first_a, last_a, first_b, last_b }
}

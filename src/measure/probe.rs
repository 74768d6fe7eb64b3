//! One test of the localiser or of the matrix: groups of ranks that send to each other at the same time.

use serde::{Deserialize, Serialize};

use super::Bench;
use crate::backend::Setup;
use crate::error::Result;
use crate::judge::{Shape, Test};
use crate::session::watch::Phase;
use crate::vocab::{Dtype, Placement, Side, Slot};

/// What a message carries and how often; equal on every rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Load {
    /// Bytes of a message.
    pub bytes: u64,
    /// Messages that are sent together.
    pub batch: u32,
    /// Timed batches, each awaited before the next.
    pub operations: u32,
}

/// A rank's peers in a test: whom it sends to and whom it receives from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    group: usize,
    to: Option<u32>,
    from: Option<u32>,
    /// It copies within its own memory.
    own: bool,
}

/// What `rank` does in `test`, if anything.
fn part(test: &Test, rank: u32) -> Option<Part> {
    let place = |members: &Vec<u32>| members.iter().position(|member| *member == rank);
    let (group, at) =
        test.groups.iter().enumerate().find_map(|(group, members)| Some((group, place(members)?)))?;
    let members = &test.groups[group];
    let next = |at: usize| members[at % members.len()];
    let idle = Part { group, to: None, from: None, own: false };
    Some(match test.shape {
        Shape::Ring => Part { to: Some(next(at + 1)), from: Some(next(at + members.len() - 1)), ..idle },
        Shape::OneWay if at == 0 => Part { to: Some(next(1)), ..idle },
        Shape::OneWay => Part { from: Some(next(0)), ..idle },
        Shape::Own => Part { own: true, ..idle },
    })
}

impl Bench<'_> {
    /// Runs `test`: every process calls this with the same one. The first process gets a time for each group, in µs
    /// per message: the longest of its ranks, each from its own leaving of a barrier. One untimed batch of empty
    /// messages goes before, since a pair's first message makes its connection.
    pub fn probe(&mut self, test: &Test, load: Load) -> Result<Option<Vec<f64>>> {
        let deadline = self.settings.deadlines.first_use();
        self.progress.size(load.bytes);
        self.progress.enter(Phase::Localise, deadline);
        let placement = Placement::OutOfPlace;
        self.backend.prepare(&Setup { dtype: Dtype::Uint8, op: None, placement, repetition: 0 })?;
        self.backend.shift(0);
        let mut parts = Vec::new();
        for local in 0..self.backend.locals() {
            self.backend.select(local)?;
            parts.push(part(test, self.backend.rank()));
        }
        self.batch(&parts, Load { bytes: 1, batch: 1, ..load })?;
        self.barrier()?;
        let mut begin = Vec::with_capacity(parts.len());
        for local in 0..self.backend.locals() {
            self.backend.select(local)?;
            begin.push(self.backend.now());
        }
        if test.shape == Shape::Own {
            return self.by_itself(&parts, load, test.groups.len());
        }
        // An injected lateness holds here as before the calls of the sweep, where its rank takes part.
        let late = self.delay.filter(|delay| matches!(parts.get(delay.local as usize), Some(Some(_))));
        for operation in 0..load.operations {
            if let Some(delay) = late {
                self.backend.select(delay.local)?;
                self.backend.delay(delay.ns);
            }
            self.progress.step(u64::from(operation) + 1);
            self.batch(&parts, load)?;
        }
        let messages = f64::from(load.operations) * f64::from(load.batch);
        let mut mine = Vec::with_capacity(parts.len());
        for ((local, part), begin) in (0..).zip(&parts).zip(begin) {
            self.backend.select(local)?;
            let us = self.backend.now().saturating_sub(begin) as f64 / 1e3 / messages;
            mine.extend(part.map(|part| (part.group, us)));
        }
        self.longest_of_groups(&mine, test.groups.len())
    }

    /// One batch of copies of each rank that takes part, by its own marks: how late its host is says nothing about it.
    fn by_itself(&mut self, parts: &[Option<Part>], load: Load, groups: usize) -> Result<Option<Vec<f64>>> {
        self.mark(0)?;
        self.enqueue(parts, load)?;
        self.mark(1)?;
        self.backend.wait(self.settings.deadlines.first_use())?;
        let mut mine = Vec::with_capacity(parts.len());
        for (local, part) in (0..).zip(parts) {
            self.backend.select(local)?;
            let us = self.backend.between_us(0, 1)? / f64::from(load.batch);
            mine.extend(part.map(|part| (part.group, us)));
        }
        self.longest_of_groups(&mine, groups)
    }

    /// At the first process, the longest time of each group.
    fn longest_of_groups(&self, mine: &[(usize, f64)], groups: usize) -> Result<Option<Vec<f64>>> {
        let mine = serde_json::to_vec(mine).unwrap_or_default();
        let Some(all) = self.control.gather(&mine)? else { return Ok(None) };
        let mut times_us = vec![0.0_f64; groups];
        for (group, us) in all
            .iter()
            .flat_map(|bytes| serde_json::from_slice::<Vec<(usize, f64)>>(bytes).unwrap_or_default())
        {
            times_us[group] = times_us[group].max(us);
        }
        Ok(Some(times_us))
    }

    /// One batch of every local rank, awaited.
    fn batch(&mut self, parts: &[Option<Part>], load: Load) -> Result<()> {
        self.enqueue(parts, load)?;
        self.backend.wait(self.settings.deadlines.first_use())
    }

    fn enqueue(&mut self, parts: &[Option<Part>], load: Load) -> Result<()> {
        let (input, output) = (Slot { side: Side::Send, offset: 0 }, Slot { side: Side::Recv, offset: 0 });
        self.backend.group_start()?;
        for (local, part) in (0..).zip(parts) {
            let Some(part) = part else { continue };
            self.backend.select(local)?;
            for _ in 0..load.batch {
                if part.own {
                    self.backend.copy(input, output, load.bytes)?;
                }
                if let Some(peer) = part.to {
                    self.backend.send(input, load.bytes, peer)?;
                }
                if let Some(peer) = part.from {
                    self.backend.recv(output, load.bytes, peer)?;
                }
            }
        }
        self.backend.group_end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::Size;

    #[test]
    fn everyone_has_the_peers_of_its_group() {
        let ring = Test { shape: Shape::Ring, size: Size::Small, groups: vec![vec![4, 2, 9], vec![1, 3]] };
        assert_eq!(part(&ring, 4), Some(Part { group: 0, to: Some(2), from: Some(9), own: false }));
        assert_eq!(part(&ring, 3), Some(Part { group: 1, to: Some(1), from: Some(1), own: false }));
        assert_eq!(part(&ring, 0), None);
        let way = Test { shape: Shape::OneWay, size: Size::Large, groups: vec![vec![4, 2]] };
        assert_eq!(part(&way, 4), Some(Part { group: 0, to: Some(2), from: None, own: false }));
        let own = Test { shape: Shape::Own, size: Size::Large, groups: vec![vec![4], vec![2]] };
        assert_eq!(part(&own, 2), Some(Part { group: 1, to: None, from: None, own: true }));
        assert_eq!(part(&way, 2), Some(Part { group: 0, to: None, from: Some(4), own: false }));
    }
}

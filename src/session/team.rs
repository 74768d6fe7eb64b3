//! Threads of one process as members of the job: each is a worker among all processes' threads, numbered process by
//! process. Only the first thread of a process talks to other processes.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Barrier, Mutex, MutexGuard, PoisonError};

use super::control::{pack, unpack};
use super::{Abort, Control};
use crate::error::{Error, Exit, Result};

/// The threads of this process.
pub struct Team<'a> {
    process: &'a dyn Control,
    threads: u32,
    meeting: Barrier,
    words: Mutex<Vec<Vec<u8>>>,
    answer: Mutex<Vec<u8>>,
    /// The exit code of a call that failed between processes; 0 while all is well.
    failed: AtomicU8,
}

/// One thread.
pub struct Teammate<'a> {
    team: &'a Team<'a>,
    thread: u32,
}

impl<'a> Team<'a> {
    /// `threads` threads (at least 1) over `process`, which all processes have alike.
    pub fn new(process: &'a dyn Control, threads: u32) -> Self {
        Self {
            process,
            threads,
            meeting: Barrier::new(threads as usize),
            words: Mutex::new(vec![Vec::new(); threads as usize]),
            answer: Mutex::new(Vec::new()),
            failed: AtomicU8::new(0),
        }
    }

    /// Thread `thread`'s place.
    pub fn member(&'a self, thread: u32) -> Teammate<'a> {
        Teammate { team: self, thread }
    }
}

/// A thread that panicked ends the job; what it held is still readable.
fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Teammate<'_> {
    /// All threads bring their words; the first makes one answer of them, which all get.
    fn round(&self, mine: Vec<u8>, answer: impl FnOnce(Vec<Vec<u8>>) -> Result<Vec<u8>>) -> Result<Vec<u8>> {
        let team = self.team;
        held(&team.words)[self.thread as usize] = mine;
        team.meeting.wait();
        if self.thread == 0 {
            let words = std::mem::replace(&mut *held(&team.words), vec![Vec::new(); team.threads as usize]);
            match answer(words) {
                Ok(bytes) => *held(&team.answer) = bytes,
                Err(error) => {
                    team.failed.store(error.exit().code(), Ordering::Release);
                    team.meeting.wait();
                    return Err(error);
                }
            }
        }
        team.meeting.wait();
        self.well()?;
        Ok(held(&team.answer).clone())
    }

    fn well(&self) -> Result<()> {
        match self.team.failed.load(Ordering::Acquire) {
            0 => Ok(()),
            code => Err(Error::Agreed(Exit::from_code(code))),
        }
    }
}

impl Control for Teammate<'_> {
    fn rank(&self) -> u32 {
        self.team.process.rank() * self.team.threads + self.thread
    }

    fn size(&self) -> u32 {
        self.team.process.size() * self.team.threads
    }

    fn barrier(&self) -> Result<()> {
        let team = self.team;
        team.meeting.wait();
        let met = if self.thread == 0 { team.process.barrier() } else { Ok(()) };
        if let Err(error) = &met {
            team.failed.store(error.exit().code(), Ordering::Release);
        }
        team.meeting.wait();
        met.and_then(|()| self.well())
    }

    fn broadcast(&self, bytes: Vec<u8>) -> Result<Vec<u8>> {
        self.round(bytes, |mut words| self.team.process.broadcast(std::mem::take(&mut words[0])))
    }

    fn gather(&self, bytes: &[u8]) -> Result<Option<Vec<Vec<u8>>>> {
        let all = self.round(bytes.to_vec(), |words| {
            let processes = self.team.process.gather(&pack(&words))?.unwrap_or_default();
            let workers: Vec<Vec<u8>> = processes.iter().flat_map(|words| unpack(words)).collect();
            Ok(pack(&workers))
        })?;
        Ok((self.rank() == 0).then(|| unpack(&all)))
    }

    fn vote(&self, value: u64) -> Result<u64> {
        let largest = self.round(value.to_le_bytes().to_vec(), |words| {
            let values =
                words.iter().filter_map(|word| Some(u64::from_le_bytes(word.as_slice().try_into().ok()?)));
            let voted = self.team.process.vote(values.max().unwrap_or(0))?;
            Ok(voted.to_le_bytes().to_vec())
        })?;
        Ok(largest.try_into().map_or(u64::MAX, u64::from_le_bytes))
    }

    fn abort(&self) -> Abort {
        self.team.process.abort()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::solo::Solo;

    #[test]
    fn threads_agree_as_processes_do() {
        let team = Team::new(&Solo, 3);
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let team = &team;
                scope.spawn(move || {
                    let me = team.member(thread);
                    assert_eq!((me.rank(), me.size()), (thread, 3));
                    for round in 0..100_u64 {
                        me.barrier().unwrap();
                        assert_eq!(me.vote(round * u64::from(thread)).unwrap(), 2 * round);
                        let told = me.broadcast(vec![thread as u8, round as u8]).unwrap();
                        assert_eq!(told, [0, round as u8]);
                        let all = me.gather(&[thread as u8; 2]).unwrap();
                        let wanted = vec![vec![0, 0], vec![1, 1], vec![2, 2]];
                        assert_eq!(all, (thread == 0).then(|| wanted.clone()));
                        assert_eq!(me.all_gather(&[thread as u8; 2]).unwrap(), wanted);
                    }
                });
            }
        });
    }
}

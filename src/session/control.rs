//! Control messages between processes: bytes only, never the data that is measured.

use std::sync::Arc;

use crate::error::{Error, Exit, Result};

/// Ends the whole job with a code, from any thread; does not return in a process that belongs to a job.
pub type Abort = Arc<dyn Fn(Exit) + Send + Sync>;

/// The processes of the job. Every method is collective: all processes call it in the same order.
pub trait Control: Sync {
    /// This process.
    fn rank(&self) -> u32;
    /// Processes of the job.
    fn size(&self) -> u32;
    /// Waits for all.
    fn barrier(&self) -> Result<()>;
    /// Everyone gets rank 0's bytes.
    fn broadcast(&self, bytes: Vec<u8>) -> Result<Vec<u8>>;
    /// Rank 0 gets everyone's bytes, in rank order; others get `None`.
    fn gather(&self, bytes: &[u8]) -> Result<Option<Vec<Vec<u8>>>>;
    /// The largest of all values: what ranks could disagree on is decided so.
    fn vote(&self, value: u64) -> Result<u64>;
    /// Sends a word to process `to`, which hears it. Of these two processes only, unlike all else here.
    fn tell(&self, to: u32, _word: u64) -> Result<()> {
        Err(Error::Setup(format!("there is no way to process {to} from here; this is an error of critrank")))
    }
    /// Waits for a word of process `from`.
    fn hear(&self, from: u32) -> Result<u64> {
        Err(Error::Setup(format!(
            "there is no way to process {from} from here; this is an error of critrank"
        )))
    }
    /// The way to end the job.
    fn abort(&self) -> Abort;

    /// Everyone gets everyone's bytes, in rank order.
    fn all_gather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
        let gathered = self.gather(bytes)?.unwrap_or_default();
        let packed = self.broadcast(pack(&gathered))?;
        Ok(unpack(&packed))
    }
}

/// Length-prefixed parts, end to end.
pub(super) fn pack(parts: &[Vec<u8>]) -> Vec<u8> {
    parts
        .iter()
        .flat_map(|part| (part.len() as u64).to_le_bytes().into_iter().chain(part.iter().copied()))
        .collect()
}

pub(super) fn unpack(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut parts = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk::<8>() {
        let (part, rest) = rest.split_at((u64::from_le_bytes(*length) as usize).min(rest.len()));
        parts.push(part.to_vec());
        bytes = rest;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_survive_packing() {
        let parts = vec![b"a".to_vec(), Vec::new(), vec![7; 300]];
        assert_eq!(unpack(&pack(&parts)), parts);
        assert!(unpack(&pack(&[])).is_empty());
    }
}

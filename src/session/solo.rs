//! A job of one process.

use std::sync::Arc;

use super::{Abort, Control};
use crate::error::Result;

/// The only process.
#[derive(Debug, Default)]
pub struct Solo;

impl Control for Solo {
    fn rank(&self) -> u32 {
        0
    }

    fn size(&self) -> u32 {
        1
    }

    fn barrier(&self) -> Result<()> {
        Ok(())
    }

    fn broadcast(&self, bytes: Vec<u8>) -> Result<Vec<u8>> {
        Ok(bytes)
    }

    fn gather(&self, bytes: &[u8]) -> Result<Option<Vec<Vec<u8>>>> {
        Ok(Some(vec![bytes.to_vec()]))
    }

    fn vote(&self, value: u64) -> Result<u64> {
        Ok(value)
    }

    fn abort(&self) -> Abort {
        Arc::new(crate::error::leave)
    }
}

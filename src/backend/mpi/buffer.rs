//! Host memory for the data: aligned to pages, and touched before anything is timed.

use crate::error::{Error, Result};

/// What the kernel can map as one piece when transparent huge pages are enabled.
const HUGE: usize = 2 << 20;
const PAGE: usize = 4096;

/// One of a rank's two buffers.
#[derive(Debug, Default)]
pub(super) struct Buffer {
    store: Vec<u8>,
    start: usize,
    length: usize,
}

impl Buffer {
    /// Zeroed, every page present.
    pub(super) fn new(bytes: u64) -> Result<Self> {
        let refused = || {
            Error::Unsupported(format!(
                "cannot get {bytes} bytes of host memory for a buffer; use a smaller -e or fewer ranks per host"
            ))
        };
        let length = usize::try_from(bytes).map_err(|_| refused())?;
        let alignment = if length >= HUGE { HUGE } else { PAGE };
        let room = length.checked_add(alignment).ok_or_else(refused)?;
        let mut store = Vec::new();
        store.try_reserve_exact(room).map_err(|_| refused())?;
        // Writing touches every page; a zeroed allocation would not.
        store.resize(room, 0);
        let start = store.as_ptr().align_offset(alignment).min(alignment);
        Ok(Self { store, start, length })
    }

    /// Its bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.store[self.start..self.start + self.length]
    }

    /// Its bytes, to be written.
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.store[self.start..self.start + self.length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_and_refuse_the_impossible() {
        for (bytes, alignment) in [(0, PAGE), (10, PAGE), (3 << 20, HUGE)] {
            let mut buffer = Buffer::new(bytes).unwrap();
            assert_eq!(buffer.bytes().len() as u64, bytes);
            assert_eq!(buffer.bytes_mut().as_ptr().align_offset(alignment), 0);
        }
        assert!(Buffer::new(u64::MAX).is_err());
        assert!(Buffer::new(1 << 62).is_err());
    }
}

//! SIGTERM and SIGINT as something to poll.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mio::{Interest, Poll, Token};
use signal_hook::SigId;
use signal_hook::consts::{SIGINT, SIGTERM};

/// Which signal came, and the pipe that wakes the thread.
pub(super) struct Signals {
    number: Arc<AtomicUsize>,
    pipe: mio::net::UnixStream,
    ids: Vec<SigId>,
}

impl Signals {
    pub(super) fn new(poll: &Poll, token: Token) -> io::Result<Self> {
        let (read, write) = UnixStream::pair()?;
        read.set_nonblocking(true)?;
        let mut pipe = mio::net::UnixStream::from_std(read);
        poll.registry().register(&mut pipe, token, Interest::READABLE)?;
        let number = Arc::new(AtomicUsize::new(0));
        let mut ids = Vec::new();
        for signal in [SIGTERM, SIGINT] {
            ids.push(signal_hook::flag::register_usize(
                signal,
                Arc::clone(&number),
                usize::try_from(signal).unwrap_or(0),
            )?);
            ids.push(signal_hook::low_level::pipe::register(signal, write.try_clone()?)?);
        }
        Ok(Self { number, pipe, ids })
    }

    pub(super) fn drain(&mut self) {
        let mut bytes = [0; 64];
        while self.pipe.read(&mut bytes).is_ok_and(|got| got > 0) {}
    }

    pub(super) fn take(&self) -> Option<&'static str> {
        match self.number.swap(0, Ordering::SeqCst) {
            0 => None,
            number if usize::try_from(SIGINT) == Ok(number) => Some("SIGINT"),
            _ => Some("SIGTERM"),
        }
    }

    pub(super) fn close(&self) {
        for id in &self.ids {
            signal_hook::low_level::unregister(*id);
        }
    }
}

//! The job's processes over MPI, and the raw calls that the rest of the crate may make through safe functions.
#![expect(unsafe_code, reason = "MPI is a C library")]

use std::ffi::{c_char, c_int, c_void};
use std::ptr;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use mpi::ffi;

use super::launcher::Flavour;
use super::{Abort, Control};
use crate::error::{Error, Exit, Result, leave};

/// `MPI_Abort` must have ended the process by then.
const ABORT_PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of one control call; longer messages go in pieces, for counts are C `int`.
const PIECE: usize = 1 << 30;
/// The tag of words from one process to another; the `mpi` backend uses others.
const WORD: c_int = 17;

/// The family of the MPI that this binary is built with: its handles are pointers in Open MPI, numbers in MPICH.
pub const FLAVOUR: Flavour =
    if size_of::<ffi::MPI_Comm>() == size_of::<c_int>() { Flavour::Mpich } else { Flavour::OpenMpi };

/// All processes of the job. `MPI_Finalize` is called by [`MpiWorld::finalize`] only: after a failure it would hang.
#[derive(Debug)]
pub struct MpiWorld {
    rank: u32,
    size: u32,
    local_rank: u32,
    local_size: u32,
    threads: bool,
    version: String,
}

impl MpiWorld {
    /// Starts MPI. Once per process, from the main thread, after the GPU of the rank is chosen.
    pub fn init() -> Result<Self> {
        let mut provided = 0;
        // SAFETY: null arguments are allowed since MPI 2; the caller calls this once.
        check("MPI_Init_thread", unsafe {
            ffi::MPI_Init_thread(
                ptr::null_mut(),
                ptr::null_mut(),
                ffi::RSMPI_THREAD_MULTIPLE,
                &raw mut provided,
            )
        })?;
        // SAFETY: MPI is initialised; both handles are predefined.
        check("MPI_Comm_set_errhandler", unsafe {
            ffi::MPI_Comm_set_errhandler(world(), ffi::RSMPI_ERRORS_RETURN)
        })?;
        let (rank, size) = place(world())?;
        let mut local = world();
        // SAFETY: MPI is initialised; `local` is written before it is read.
        check("MPI_Comm_split_type", unsafe {
            ffi::MPI_Comm_split_type(
                world(),
                ffi::RSMPI_COMM_TYPE_SHARED,
                rank.cast_signed(),
                ffi::RSMPI_INFO_NULL,
                &raw mut local,
            )
        })?;
        let (local_rank, local_size) = place(local)?;
        // SAFETY: `local` was made above and is not used again.
        check("MPI_Comm_free", unsafe { ffi::MPI_Comm_free(&raw mut local) })?;
        // SAFETY: a constant of the library.
        let threads = provided == unsafe { ffi::RSMPI_THREAD_MULTIPLE };
        if !threads {
            tracing::warn!(
                "the MPI library does not support calls from several threads; the watchdog then leaves without MPI_Abort"
            );
        }
        Ok(Self { rank, size, local_rank, local_size, threads, version: library_version() })
    }

    /// This process's number among those that share its memory, as MPI sees it.
    pub fn local_rank(&self) -> u32 {
        self.local_rank
    }

    /// How many processes share its memory.
    pub fn local_size(&self) -> u32 {
        self.local_size
    }

    /// The library and its version, such as "Open MPI" and "4.1.4".
    pub fn library(&self) -> (String, String) {
        name_and_version(&self.version)
    }

    /// Everything that the library says about itself, first line only.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Orderly end; waits for all. Nothing of MPI may be called after it, abort included.
    pub fn finalize(self) -> Result<()> {
        // SAFETY: initialised by `init`; `self` is consumed, so this happens once.
        check("MPI_Finalize", unsafe { ffi::MPI_Finalize() })
    }
}

/// The communicator of all processes.
pub(crate) fn world() -> ffi::MPI_Comm {
    // SAFETY: a constant of the library.
    unsafe { ffi::RSMPI_COMM_WORLD }
}

/// A number that is known to be small, as MPI takes it.
pub(crate) fn int(small: usize) -> c_int {
    debug_assert!(c_int::try_from(small).is_ok());
    c_int::try_from(small).unwrap_or(c_int::MAX)
}

/// `MPI_SUCCESS`, or the library's words.
pub(crate) fn check(call: &'static str, code: c_int) -> Result<()> {
    if code == 0 { Ok(()) } else { Err(Error::Mpi { call, text: words(code) }) }
}

#[cold]
fn words(code: c_int) -> String {
    let mut text = vec![0_u8; 4096];
    let mut length = 0;
    // SAFETY: 4096 bytes are more than any library's MPI_MAX_ERROR_STRING (512, 1024).
    let told = unsafe { ffi::MPI_Error_string(code, text.as_mut_ptr().cast::<c_char>(), &raw mut length) };
    if told != 0 {
        return format!("error {code}");
    }
    cut(text, length)
}

fn cut(mut text: Vec<u8>, length: c_int) -> String {
    text.truncate(usize::try_from(length).unwrap_or(0));
    String::from_utf8_lossy(&text).trim_end_matches('\0').trim().to_owned()
}

fn place(comm: ffi::MPI_Comm) -> Result<(u32, u32)> {
    let (mut rank, mut size) = (0, 0);
    // SAFETY: `comm` is a valid communicator of this process.
    check("MPI_Comm_rank", unsafe { ffi::MPI_Comm_rank(comm, &raw mut rank) })?;
    // SAFETY: as above.
    check("MPI_Comm_size", unsafe { ffi::MPI_Comm_size(comm, &raw mut size) })?;
    Ok((rank.unsigned_abs(), size.unsigned_abs()))
}

/// What the library in this process calls itself; allowed before `MPI_Init`.
pub fn library_version() -> String {
    // SAFETY: a constant of the library.
    let longest = usize::try_from(unsafe { ffi::RSMPI_MAX_LIBRARY_VERSION_STRING }).unwrap_or(0).max(8192);
    let mut text = vec![0_u8; longest + 1];
    let mut length = 0;
    // SAFETY: the buffer is as long as the library asks for.
    let code = unsafe { ffi::MPI_Get_library_version(text.as_mut_ptr().cast::<c_char>(), &raw mut length) };
    if code == 0 { summary(&cut(text, length)) } else { "unknown MPI library".to_owned() }
}

/// One line of a text that may fill a page: MPICH names every option it was built with.
fn summary(text: &str) -> String {
    let (name, version) = name_and_version(text);
    format!("{name} {version}").trim().to_owned()
}

/// `Open MPI v4.1.4, package: …`, `MPICH Version:\t4.0.2\nMPICH Release date: …`, `Intel(R) MPI Library 2021.9 …`.
fn name_and_version(text: &str) -> (String, String) {
    let line = text.lines().next().unwrap_or_default();
    let line = line.split(',').next().unwrap_or_default();
    let words: Vec<&str> = line.split_whitespace().collect();
    let number = |word: &&str| word.trim_start_matches('v').starts_with(|first: char| first.is_ascii_digit());
    let at = words.iter().position(number).unwrap_or(words.len());
    let name: Vec<&str> =
        words[..at].iter().copied().filter(|word| !matches!(*word, "Version:" | "Version" | ":")).collect();
    let version = words.get(at).map_or("", |word| word.trim_start_matches('v'));
    (name.join(" "), version.to_owned())
}

impl Control for MpiWorld {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn barrier(&self) -> Result<()> {
        // SAFETY: MPI is initialised as long as `self` lives.
        check("MPI_Barrier", unsafe { ffi::MPI_Barrier(world()) })
    }

    fn broadcast(&self, mut bytes: Vec<u8>) -> Result<Vec<u8>> {
        let mut length = bytes.len() as u64;
        self.send_from_root((&raw mut length).cast(), size_of::<u64>())?;
        let length = usize::try_from(length).map_err(|_| too_long(length))?;
        if self.rank != 0 {
            bytes = vec![0; length];
        }
        for piece in bytes.chunks_mut(PIECE) {
            self.send_from_root(piece.as_mut_ptr().cast(), piece.len())?;
        }
        Ok(bytes)
    }

    fn gather(&self, bytes: &[u8]) -> Result<Option<Vec<Vec<u8>>>> {
        let lengths = self.lengths(bytes.len() as u64)?;
        // Rounds of equal pieces: every call's counts and displacements fit a C int.
        let longest = lengths.iter().copied().max().unwrap_or(0);
        let piece = (i32::MAX.unsigned_abs() as usize / self.size.max(1) as usize).clamp(1, PIECE);
        let mut all: Vec<Vec<u8>> = if self.rank == 0 { vec![Vec::new(); lengths.len()] } else { Vec::new() };
        for start in (0..usize::try_from(longest).map_err(|_| too_long(longest))?).step_by(piece) {
            self.gather_piece(bytes, start, piece, &lengths, &mut all)?;
        }
        Ok((self.rank == 0).then_some(all))
    }

    fn vote(&self, value: u64) -> Result<u64> {
        // As signed numbers in the same order: MPICH 4.0.2 compares unsigned ones as if they were signed.
        const FLIP: u64 = 1 << 63;
        let (mine, mut largest) = ((value ^ FLIP).cast_signed(), 0_i64);
        // SAFETY: one element each, of the type that is named.
        check("MPI_Allreduce", unsafe {
            ffi::MPI_Allreduce(
                (&raw const mine).cast::<c_void>(),
                (&raw mut largest).cast::<c_void>(),
                1,
                ffi::RSMPI_INT64_T,
                ffi::RSMPI_MAX,
                world(),
            )
        })?;
        Ok(largest.cast_unsigned() ^ FLIP)
    }

    fn tell(&self, to: u32, word: u64) -> Result<()> {
        // SAFETY: one element of the type that is named; a rank that does not exist is refused.
        check("MPI_Send", unsafe {
            let word = (&raw const word).cast::<c_void>();
            ffi::MPI_Send(word, 1, ffi::RSMPI_UINT64_T, to.cast_signed(), WORD, world())
        })
    }

    fn hear(&self, from: u32) -> Result<u64> {
        let mut word = 0_u64;
        // SAFETY: room for one element of the type that is named; the status is the constant for none.
        check("MPI_Recv", unsafe {
            let word = (&raw mut word).cast::<c_void>();
            let ignored = ffi::RSMPI_STATUS_IGNORE;
            ffi::MPI_Recv(word, 1, ffi::RSMPI_UINT64_T, from.cast_signed(), WORD, world(), ignored)
        })?;
        Ok(word)
    }

    fn abort(&self) -> Abort {
        let threads = self.threads;
        Arc::new(move |exit| abort(exit, threads))
    }
}

impl MpiWorld {
    fn send_from_root(&self, bytes: *mut c_void, length: usize) -> Result<()> {
        debug_assert!(length <= PIECE && self.size > 0);
        // SAFETY: `bytes` has `length` bytes, at most PIECE, and lives during the call.
        check("MPI_Bcast", unsafe { ffi::MPI_Bcast(bytes, int(length), ffi::RSMPI_UINT8_T, 0, world()) })
    }

    /// Every rank's length, on every rank: all must know how many rounds there are.
    fn lengths(&self, length: u64) -> Result<Vec<u64>> {
        let mut lengths = vec![0_u64; self.size as usize];
        // SAFETY: one element from each of `size` ranks, and room for as many.
        check("MPI_Allgather", unsafe {
            ffi::MPI_Allgather(
                (&raw const length).cast::<c_void>(),
                1,
                ffi::RSMPI_UINT64_T,
                lengths.as_mut_ptr().cast::<c_void>(),
                1,
                ffi::RSMPI_UINT64_T,
                world(),
            )
        })?;
        Ok(lengths)
    }

    /// Bytes `start..start + piece` of every rank's message.
    fn gather_piece(
        &self,
        bytes: &[u8],
        start: usize,
        piece: usize,
        lengths: &[u64],
        all: &mut [Vec<u8>],
    ) -> Result<()> {
        // Where there are no bytes, a slice points to address 1, which is MPI_IN_PLACE to Open MPI.
        let mine = match &bytes[start.min(bytes.len())..(start + piece).min(bytes.len())] {
            [] => &[0][..0],
            some => some,
        };
        let counts: Vec<c_int> =
            lengths.iter().map(|length| int((*length as usize).saturating_sub(start).min(piece))).collect();
        let starts: Vec<c_int> = counts
            .iter()
            .scan(0, |sum, count| {
                let start = *sum;
                *sum += count;
                Some(start)
            })
            .collect();
        let total: usize = counts.iter().map(|count| count.unsigned_abs() as usize).sum();
        let mut room = vec![0_u8; if self.rank == 0 { total } else { 0 }];
        // SAFETY: `mine` is as long as its count, and at rank 0 `room` holds all counts end to end.
        check("MPI_Gatherv", unsafe {
            ffi::MPI_Gatherv(
                mine.as_ptr().cast::<c_void>(),
                int(mine.len()),
                ffi::RSMPI_UINT8_T,
                room.as_mut_ptr().cast::<c_void>(),
                counts.as_ptr(),
                starts.as_ptr(),
                ffi::RSMPI_UINT8_T,
                0,
                world(),
            )
        })?;
        for ((part, start), count) in all.iter_mut().zip(&starts).zip(&counts) {
            part.extend_from_slice(
                &room[start.unsigned_abs() as usize..(start + count).unsigned_abs() as usize],
            );
        }
        Ok(())
    }
}

fn too_long(length: u64) -> Error {
    Error::Setup(format!("a control message of {length} bytes does not fit this machine's memory"))
}

/// Ends the job from any thread; does not return.
fn abort(exit: Exit, threads: bool) {
    let last = move || {
        thread::sleep(ABORT_PATIENCE);
        leave(exit);
    };
    let timer = thread::Builder::new().name("abort".to_owned()).spawn(last);
    // Without the timer or a library that takes calls from other threads, leaving is the safe way: the launcher
    // ends the rest of the job when one process leaves with a code.
    if timer.is_err() || !threads || finalized() {
        leave(exit);
    }
    // SAFETY: MPI is initialised, not finalised, and allows calls from every thread.
    unsafe { ffi::MPI_Abort(world(), c_int::from(exit.code())) };
    leave(exit);
}

fn finalized() -> bool {
    let mut flag = 0;
    // SAFETY: allowed at any time.
    unsafe { ffi::MPI_Finalized(&raw mut flag) == 0 && flag != 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_named_briefly() {
        let cases = [
            ("Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4, repo rev: v4.1.4", "Open MPI", "4.1.4"),
            ("MPICH Version:\t4.0.2\nMPICH Release date:\tThu Apr  7", "MPICH", "4.0.2"),
            ("Intel(R) MPI Library 2021.9 for Linux* OS\n", "Intel(R) MPI Library", "2021.9"),
            ("MVAPICH2 Version      :\t2.3.7\n", "MVAPICH2", "2.3.7"),
            ("", "", ""),
        ];
        for (text, name, version) in cases {
            assert_eq!(name_and_version(text), (name.to_owned(), version.to_owned()));
        }
    }

    #[test]
    fn this_builds_library_is_known() {
        let version = library_version();
        assert!(version.starts_with(FLAVOUR.name()), "{version}");
    }
}

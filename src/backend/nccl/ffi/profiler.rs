//! NCCL's profiler interface, served by this program itself: it tells which algorithm, protocol and channels a
//! call used. NCCL finds the structures by their names among the program's exported symbols (`build.rs`), if
//! `NCCL_PROFILER_PLUGIN` is `STATIC_PLUGIN` when the first communicator is made.
//!
//! Layouts are those of NCCL's headers `profiler_v4.h` (2.27), `_v5.h` (2.28) and `_v6.h` (2.29); what is read here
//! lies at the same offsets in all three. Until someone watches, the mask of events is 0.

#![expect(unsafe_code, reason = "NCCL calls these functions and reads these structures")]

use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::environment;

/// `ncclProfileColl` and `ncclProfileP2p`.
const COLL: u64 = 1 << 1;
const P2P: u64 = 1 << 2;

/// The value by which NCCL looks into the program itself.
const OURS: &str = "STATIC_PLUGIN";

/// What NCCL told of one call of one rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) enum Seen {
    /// A collective.
    Collective {
        /// Such as `RING`.
        algorithm: String,
        /// Such as `LL128`.
        protocol: String,
        /// Channels.
        channels: u8,
    },
    /// A send or a receive: NCCL has no algorithm for these.
    PointToPoint,
}

/// The mask that NCCL reads, once a communicator was made with this profiler.
static MASK: AtomicPtr<c_int> = AtomicPtr::new(ptr::null_mut());
/// Threads that watch.
static WATCHERS: AtomicUsize = AtomicUsize::new(0);
/// What was seen of each rank and not taken yet.
static SEEN: Mutex<Vec<(c_int, Seen)>> = Mutex::new(Vec::new());

fn seen() -> MutexGuard<'static, Vec<(c_int, Seen)>> {
    SEEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Offers the profiler to NCCL, unless the user has chosen another; says whether it did. To be called before any
/// thread is started and before the first communicator is made: a failed load is final.
pub(in super::super) fn offer() -> bool {
    // The linker drops what nothing refers to.
    std::hint::black_box((
        &raw const ncclProfiler_v4,
        &raw const ncclProfiler_v5,
        &raw const ncclProfiler_v6,
    ));
    let variable = "NCCL_PROFILER_PLUGIN";
    match std::env::var_os(variable) {
        Some(value) if !value.is_empty() => value == OURS,
        _ => {
            environment::set(variable, OsStr::new(OURS));
            true
        }
    }
}

/// Whether NCCL has taken the offer.
pub(in super::super) fn is_loaded() -> bool {
    !MASK.load(Ordering::Acquire).is_null()
}

/// From now on calls are seen.
pub(in super::super) fn watch() {
    WATCHERS.fetch_add(1, Ordering::AcqRel);
    set_mask((COLL | P2P) as c_int);
}

/// The end of `watch`; what was seen of a rank of a communicator.
pub(in super::super) fn seen_of(rank: u32) -> Vec<Seen> {
    // Another thread of this process may still watch: its rank may not have called yet.
    if WATCHERS.fetch_sub(1, Ordering::AcqRel) == 1 {
        set_mask(0);
    }
    let mut all = seen();
    let mine = all.extract_if(.., |(of, _)| of.cast_unsigned() == rank).map(|(_, seen)| seen);
    mine.collect()
}

fn set_mask(events: c_int) {
    let mask = MASK.load(Ordering::Acquire);
    if !mask.is_null() {
        // SAFETY: the address came from NCCL, which keeps its mask in a static int of a library that is never
        // unloaded, and reads it atomically.
        unsafe { AtomicI32::from_ptr(mask) }.store(events, Ordering::Release);
    }
}

/// The start of an event's description, up to what a collective adds.
#[repr(C)]
struct Description {
    kind: u64,
    parent: *const c_void,
    rank: c_int,
    sequence: u64,
    function: *const c_char,
    send: *const c_void,
    recv: *const c_void,
    count: usize,
    root: c_int,
    datatype: *const c_char,
    channels: u8,
    warps: u8,
    algorithm: *const c_char,
    protocol: *const c_char,
}

/// `init` of version 4 has the communicator's number in another place.
type Init4 = unsafe extern "C" fn(
    *mut *mut c_void,
    *mut c_int,
    *const c_char,
    u64,
    c_int,
    c_int,
    c_int,
    *const c_void,
) -> c_int;
type Init5 = unsafe extern "C" fn(
    *mut *mut c_void,
    u64,
    *mut c_int,
    *const c_char,
    c_int,
    c_int,
    c_int,
    *const c_void,
) -> c_int;

/// `ncclProfiler_v4_t` to `_v6_t`.
#[repr(C)]
struct Profiler<Init> {
    name: *const c_char,
    init: Init,
    start: unsafe extern "C" fn(*mut c_void, *mut *mut c_void, *const Description) -> c_int,
    stop: extern "C" fn(*mut c_void) -> c_int,
    state: extern "C" fn(*mut c_void, c_int, *const c_void) -> c_int,
    finalize: extern "C" fn(*mut c_void) -> c_int,
}

// SAFETY: nothing in it changes, and what it points to is static.
unsafe impl<Init> Sync for Profiler<Init> {}

const NAME: *const c_char = c"critrank".as_ptr();

#[unsafe(no_mangle)]
#[used]
static ncclProfiler_v4: Profiler<Init4> =
    Profiler { name: NAME, init: init_4, start: start_4, stop, state, finalize };
#[unsafe(no_mangle)]
#[used]
static ncclProfiler_v5: Profiler<Init5> =
    Profiler { name: NAME, init: init_5, start: start_5, stop, state, finalize };
#[unsafe(no_mangle)]
#[used]
static ncclProfiler_v6: Profiler<Init5> =
    Profiler { name: NAME, init: init_5, start: start_5, stop, state, finalize };

/// Every communicator calls this when it is made.
unsafe extern "C" fn init_4(
    context: *mut *mut c_void,
    mask: *mut c_int,
    _name: *const c_char,
    _communicator: u64,
    _nodes: c_int,
    _ranks: c_int,
    _rank: c_int,
    _log: *const c_void,
) -> c_int {
    // SAFETY: as for `take`.
    unsafe { take(context, mask) }
}

unsafe extern "C" fn init_5(
    context: *mut *mut c_void,
    _communicator: u64,
    mask: *mut c_int,
    _name: *const c_char,
    _nodes: c_int,
    _ranks: c_int,
    _rank: c_int,
    _log: *const c_void,
) -> c_int {
    // SAFETY: as for `take`.
    unsafe { take(context, mask) }
}

/// Keeps the mask's address.
///
/// # Safety
///
/// As NCCL calls `init`: `context` can be written, and `mask` is its static mask of events.
unsafe fn take(context: *mut *mut c_void, mask: *mut c_int) -> c_int {
    // NCCL takes null for a profiler that has refused; nobody reads what this points to.
    // SAFETY: the caller says that it can be written.
    unsafe { context.write((&raw const MASK).cast_mut().cast()) };
    MASK.store(mask, Ordering::Release);
    let watched = WATCHERS.load(Ordering::Acquire) > 0;
    set_mask(if watched { (COLL | P2P) as c_int } else { 0 });
    0
}

/// In version 4 an event's kind is a byte.
unsafe extern "C" fn start_4(
    _context: *mut c_void,
    handle: *mut *mut c_void,
    event: *const Description,
) -> c_int {
    // SAFETY: NCCL gives a description; of version 4 it begins with a byte.
    let kind = u64::from(unsafe { event.cast::<u8>().read() });
    // SAFETY: as for `note`.
    unsafe { note(handle, event, kind) }
}

unsafe extern "C" fn start_5(
    _context: *mut c_void,
    handle: *mut *mut c_void,
    event: *const Description,
) -> c_int {
    // SAFETY: NCCL gives a description; from version 5 on it begins with 8 bytes.
    let kind = unsafe { event.cast::<u64>().read() };
    // SAFETY: as for `note`.
    unsafe { note(handle, event, kind) }
}

/// Notes a call, without a handle: then NCCL reports neither its end nor its parts.
///
/// # Safety
///
/// As NCCL calls `startEvent`: `handle` can be written, and `event` is a description of `kind`.
unsafe fn note(handle: *mut *mut c_void, event: *const Description, kind: u64) -> c_int {
    // SAFETY: the caller says that it can be written.
    unsafe { handle.write(ptr::null_mut()) };
    let text = |text: *const c_char| {
        // SAFETY: not null, so one of NCCL's static strings.
        let text = (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy());
        text.unwrap_or_default().into_owned()
    };
    let told = match kind {
        // SAFETY: a collective's description has these fields; only they are read, and no reference is made to
        // the whole, whose padding and first field differ between versions.
        COLL => unsafe {
            Seen::Collective {
                algorithm: text((*event).algorithm),
                protocol: text((*event).protocol),
                channels: (*event).channels,
            }
        },
        P2P => Seen::PointToPoint,
        _ => return 0,
    };
    // SAFETY: every description has a rank.
    let rank = unsafe { (*event).rank };
    seen().push((rank, told));
    0
}

extern "C" fn stop(_event: *mut c_void) -> c_int {
    0
}

extern "C" fn state(_event: *mut c_void, _state: c_int, _arguments: *const c_void) -> c_int {
    0
}

extern "C" fn finalize(_context: *mut c_void) -> c_int {
    0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    /// Offsets as a C compiler lays the headers out on a 64-bit machine.
    #[test]
    fn the_layout_is_that_of_the_headers() {
        let offsets = [
            (offset_of!(Description, parent), 8),
            (offset_of!(Description, rank), 16),
            (offset_of!(Description, sequence), 24),
            (offset_of!(Description, function), 32),
            (offset_of!(Description, count), 56),
            (offset_of!(Description, root), 64),
            (offset_of!(Description, datatype), 72),
            (offset_of!(Description, channels), 80),
            (offset_of!(Description, warps), 81),
            (offset_of!(Description, algorithm), 88),
            (offset_of!(Description, protocol), 96),
        ];
        for (ours, header) in offsets {
            assert_eq!(ours, header);
        }
        assert_eq!((size_of::<Profiler<Init4>>(), size_of::<Profiler<Init5>>()), (48, 48));
    }

    #[test]
    fn what_nccl_tells_is_kept_while_someone_watches() {
        static mut EVENTS: c_int = 9;
        let (mut context, mut handle) = (ptr::null_mut(), ptr::dangling_mut());
        let mask = &raw mut EVENTS;
        // SAFETY: the mask is static, and only this test touches it.
        let events = || unsafe { AtomicI32::from_ptr(mask) }.load(Ordering::Acquire);
        let event = |kind, rank| Description {
            kind,
            parent: ptr::null(),
            rank,
            sequence: 0,
            function: c"AllReduce".as_ptr(),
            send: ptr::null(),
            recv: ptr::null(),
            count: 1,
            root: 0,
            datatype: ptr::null(),
            channels: 2,
            warps: 4,
            algorithm: c"RING".as_ptr(),
            protocol: c"LL".as_ptr(),
        };
        // SAFETY: as NCCL calls them.
        unsafe {
            init_4(&raw mut context, mask, ptr::null(), 1, 1, 2, 0, ptr::null());
            init_5(&raw mut context, 1, mask, ptr::null(), 1, 2, 0, ptr::null());
        }
        assert!(!context.is_null() && is_loaded());
        assert_eq!(events(), 0, "nothing is told unasked");
        watch();
        watch();
        assert_eq!(events(), 6);
        // SAFETY: as NCCL calls them; the kind's low byte comes first on the machines that CUDA runs.
        unsafe {
            start_4(context, &raw mut handle, ptr::from_ref(&event(COLL, 70)));
            start_5(context, &raw mut handle, ptr::from_ref(&event(P2P, 71)));
            start_5(context, &raw mut handle, ptr::from_ref(&event(1, 71)));
        }
        assert!(handle.is_null());
        assert_eq!(seen_of(71), [Seen::PointToPoint]);
        assert_eq!(events(), 6, "the other thread still watches");
        let (algorithm, protocol) = ("RING".to_owned(), "LL".to_owned());
        assert_eq!(seen_of(70), [Seen::Collective { algorithm, protocol, channels: 2 }]);
        assert_eq!(
            (events(), stop(context), state(context, 0, ptr::null()), finalize(context)),
            (0, 0, 0, 0)
        );
    }
}

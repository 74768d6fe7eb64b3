//! Opening a shared library and taking a table of functions from it.

#![expect(unsafe_code, reason = "dlopen and dlsym")]

use std::ffi::{OsStr, c_int};
use std::path::PathBuf;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

/// Opens the first of `names` that can be opened, for as long as the process lives: these libraries have threads
/// and exit handlers, so they are never closed. Fails with what the loader said to each.
pub(super) fn open<S: AsRef<OsStr>>(names: &[S]) -> Result<&'static Library, String> {
    let mut refused = Vec::new();
    for name in names {
        // SAFETY: loading runs the library's constructors. The name is that of the CUDA driver or of NCCL, or the
        // user's own choice in their place; their constructors may run in any process, before any other call.
        match unsafe { Library::open(Some(name.as_ref()), RTLD_NOW | RTLD_LOCAL) } {
            Ok(library) => return Ok(Box::leak(Box::new(library))),
            Err(error) => refused.push(reason(&error)),
        }
    }
    Err(refused.join("; "))
}

/// The loader's own words, without libloading's around them.
fn reason(error: &libloading::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

/// The function `symbol` of `library`.
///
/// # Safety
///
/// `F` must be the function pointer type of that symbol.
pub(super) unsafe fn function<F: Copy>(library: &'static Library, symbol: &str) -> Option<F> {
    // SAFETY: the caller vouches for the type; the library is never closed, so the copy stays valid.
    unsafe { library.get::<F>(symbol) }.ok().map(|found| *found)
}

/// Whether the MPI library in this process knows CUDA, or does not say.
pub fn mpi_knows_cuda() -> bool {
    let process = Library::this();
    // SAFETY: Open MPI and MPICH declare it so.
    let query = unsafe { process.get::<unsafe extern "C" fn() -> c_int>("MPIX_Query_cuda_support") };
    // SAFETY: it takes nothing and may be called at any time, before MPI_Init as well.
    query.map_or(true, |query| unsafe { query() } != 0)
}

/// The file that holds the code at `address`, from the kernel's list of mappings.
pub(super) fn file_of(address: usize) -> Option<PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    maps.lines().find_map(|line| maps_line(line, address))
}

/// The file of a line of `/proc/self/maps`, if the line's range holds `address`.
fn maps_line(line: &str, address: usize) -> Option<PathBuf> {
    let (start, end) = line.split_once(' ')?.0.split_once('-')?;
    let range = usize::from_str_radix(start, 16).ok()?..usize::from_str_radix(end, 16).ok()?;
    let file = line.find('/')?;
    range.contains(&address).then(|| PathBuf::from(&line[file..]))
}

/// Declares a table of C functions: `required` ones must all be there, `optional` ones came with later versions.
macro_rules! functions {
    (
        $(#[$about:meta])* $table:ident
        required { $($field:ident = $symbol:ident($($arg:ty),*) -> $result:ty;)* }
        optional { $($late:ident = $late_symbol:ident($($late_arg:ty),*) -> $late_result:ty;)* }
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy)]
        pub(super) struct $table {
            $(pub(super) $field: unsafe extern "C" fn($($arg),*) -> $result,)*
            $(pub(super) $late: Option<unsafe extern "C" fn($($late_arg),*) -> $late_result>,)*
        }

        impl $table {
            /// The optional functions that are there.
            pub(super) fn late(&self) -> Vec<&'static str> {
                let all = [$((stringify!($late_symbol), self.$late.is_some())),*];
                all.into_iter().filter(|&(_, there)| there).map(|(name, _)| name).collect()
            }

            /// Takes the functions from `library`, or names the required ones that it lacks.
            ///
            /// # Safety
            ///
            /// Where `library` has these symbols, they must be the functions of this table.
            pub(super) unsafe fn load(
                library: &'static libloading::os::unix::Library,
            ) -> Result<Self, Vec<&'static str>> {
                let mut missing = Vec::new();
                $(
                    // SAFETY: the caller says that the symbol has this type.
                    let $field = unsafe {
                        $crate::backend::nccl::ffi::load::function::<
                            unsafe extern "C" fn($($arg),*) -> $result,
                        >(library, stringify!($symbol))
                    };
                    if $field.is_none() {
                        missing.push(stringify!($symbol));
                    }
                )*
                let ($(Some($field),)*) = ($($field,)*) else {
                    return Err(missing);
                };
                Ok(Self {
                    $($field,)*
                    $(
                        // SAFETY: as above.
                        $late: unsafe {
                            $crate::backend::nccl::ffi::load::function::<
                                unsafe extern "C" fn($($late_arg),*) -> $late_result,
                            >(library, stringify!($late_symbol))
                        },
                    )*
                })
            }
        }
    };
}
pub(super) use functions;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_traced_to_its_file() {
        let line = "7f3a1000-7f3a9000 r-xp 00001000 08:01 131 /opt/my libs/libnccl.so.2.28.3";
        let file = Some(PathBuf::from("/opt/my libs/libnccl.so.2.28.3"));
        assert_eq!(maps_line(line, 0x7f3a_1000), file);
        assert_eq!(maps_line(line, 0x7f3a_9000), None);
        assert_eq!(maps_line("7f3a1000-7f3a9000 rw-p 00000000 00:00 0", 0x7f3a_1000), None);
        let here = file_of(code_is_traced_to_its_file as fn() as usize);
        assert_eq!(here, std::env::current_exe().ok());
    }
}

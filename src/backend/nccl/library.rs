//! Which libraries are loaded.

use std::path::Path;

/// libcuda's names: the only one that a driver installs.
const CUDA: &str = "libcuda.so.1";
/// libnccl's names: the one of runtime packages, then the one of development packages.
const NCCL: [&str; 2] = ["libnccl.so.2", "libnccl.so"];

/// Names of libcuda, in the order in which they are tried.
pub(super) fn cuda_names() -> Vec<String> {
    vec![CUDA.to_owned()]
}

/// Names of libnccl, in the order in which they are tried; a file that the user named is the only one.
pub(super) fn nccl_names(chosen: Option<&Path>) -> Vec<String> {
    match chosen {
        Some(file) => vec![file.display().to_string()],
        None => NCCL.map(str::to_owned).to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_the_user_named_has_no_substitute() {
        assert_eq!(nccl_names(Some(Path::new("/opt/nccl/libnccl.so.2"))), ["/opt/nccl/libnccl.so.2"]);
        assert_eq!(nccl_names(None), ["libnccl.so.2", "libnccl.so"]);
    }
}

//! What to do about an error of CUDA or NCCL: the sentence behind the library's own words.

use std::ffi::c_int;

/// `CUDA_ERROR_OUT_OF_MEMORY`.
const CUDA_OUT_OF_MEMORY: c_int = 2;

/// What to do about CUDA's `code`; starts with "; ", or is empty.
pub(super) fn cuda(code: c_int) -> &'static str {
    match code {
        CUDA_OUT_OF_MEMORY => "; use a smaller -e, or end the other processes that hold memory of this GPU",
        34 => "; the stub libcuda of a toolkit was loaded: take its folder out of LD_LIBRARY_PATH",
        46 | 101 => "; the GPU is held exclusively by another process, or is in MIG mode without an instance",
        214 | 220 | 721 => "; a hardware error: see `nvidia-smi -q` and the kernel's log for an Xid",
        218 | 222 => "; the driver is too old for the check kernels: use R520 or later, or -c 0",
        700 | 702 | 719 => "; the kernel's log may name an Xid; this process cannot use the GPU any more",
        802 => {
            "; the fabric manager does not run or has not finished: see `systemctl status nvidia-fabricmanager`"
        }
        803 => {
            "; driver and libcuda differ in version: reload the driver, or take the compat folder out of LD_LIBRARY_PATH"
        }
        804 => {
            "; the forward-compatibility libcuda needs a data-centre GPU: take the compat folder out of LD_LIBRARY_PATH"
        }
        805..=810 => "; the MPS daemon cannot be reached: start it, or stop it for good",
        _ => "",
    }
}

/// What to do about NCCL's `code`, given its `last` error text; starts with "; ", or is empty.
pub(super) fn nccl(code: c_int, last: &str) -> String {
    let text = match code {
        1 if last.contains("out of memory") => {
            "use a smaller -e, or end the other processes that hold memory of this GPU"
        }
        1 => "NCCL_DEBUG=WARN names the CUDA call",
        2 => {
            "a system call or the network failed: check NCCL_SOCKET_IFNAME, firewalls, and the size of /dev/shm; \
             NCCL_DEBUG=WARN names the call"
        }
        3 => "NCCL_DEBUG=WARN names the place; an NCCL plugin or another NCCL version may be the cause",
        4 => "an argument that this NCCL does not take; NCCL_DEBUG=WARN names it",
        5 => {
            "if two ranks share a GPU, start one rank per GPU, or give each rank its own NCCL_HOSTID; \
             NCCL_DEBUG=WARN names the cause otherwise"
        }
        6 => "another rank failed or left: look for the first error of the others",
        _ => return String::new(),
    };
    format!("; {text}")
}

/// NCCL's name for a result.
pub(super) fn nccl_name(code: c_int) -> &'static str {
    match code {
        0 => "ncclSuccess",
        1 => "ncclUnhandledCudaError",
        2 => "ncclSystemError",
        3 => "ncclInternalError",
        4 => "ncclInvalidArgument",
        5 => "ncclInvalidUsage",
        6 => "ncclRemoteError",
        7 => "ncclInProgress",
        8 => "ncclTimeout",
        _ => "a result that this program does not know",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_name_what_helps() {
        assert!(nccl(5, "").contains("NCCL_HOSTID"));
        assert!(nccl(2, "").contains("NCCL_SOCKET_IFNAME"));
        assert!(nccl(1, "Cuda failure 2 'out of memory'").contains("-e"));
        assert!(nccl(6, "").contains("another rank"));
        assert!(cuda(2).contains("-e"));
        assert!(cuda(802).contains("fabric"));
        assert_eq!((nccl(0, ""), cuda(1)), (String::new(), ""));
    }

    #[test]
    fn no_hint_holds_a_word_that_other_tools_look_for() {
        let all =
            (0..1000).flat_map(|code| [cuda(code).to_owned(), nccl(code, ""), nccl(code, "out of memory")]);
        for text in all.chain((0..20).map(|code| nccl_name(code).to_owned())) {
            for word in [" on ", "bandwidth", "FAILED", "Avg bus", "Test failure"] {
                assert!(!text.contains(word), "{text}");
            }
            assert!(text.is_empty() || !text.starts_with("; ;"));
        }
    }
}

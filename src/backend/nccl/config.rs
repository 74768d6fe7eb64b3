//! The communicator's configuration: `ncclConfig_t` in its newest layout.
//!
//! NCCL copies as much of it as it knows and leaves the rest unread, so one layout serves every version, and an
//! option that is newer than the library is ignored silently. That is said by [`Options::ignored`] instead.
//! The layout only ever grew at its end (nccl.h of 2.17 to 2.30.7).

use std::ffi::{c_char, c_int, c_uint};
use std::ptr;

use crate::cli::{Cli, Native as Choice};
use crate::collective::{Native, Traits};

/// `NCCL_CONFIG_UNDEF_INT`.
const UNDEFINED: c_int = c_int::MIN;
/// `NCCL_API_MAGIC`.
const MAGIC: c_uint = 0xcafe_beef;
/// The version whose header this layout is (2.30.7).
const VERSION: c_uint = 23_007;

/// `ncclConfig_t` of NCCL 2.30.7. Undefined fields are `i32::MIN` or null; a zero would mean something else.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Config {
    size: usize,
    magic: c_uint,
    version: c_uint,
    blocking: c_int,
    cga_cluster_size: c_int,
    min_ctas: c_int,
    max_ctas: c_int,
    net_name: *const c_char,
    split_share: c_int,
    traffic_class: c_int,
    comm_name: *const c_char,
    collnet_enable: c_int,
    cta_policy: c_int,
    shrink_share: c_int,
    nvls_ctas: c_int,
    channels_per_net_peer: c_int,
    nvlink_centric_sched: c_int,
    graph_usage_mode: c_int,
    rma_contexts: c_int,
    max_p2p_peers: c_int,
    graph_stream_ordering: c_int,
}

/// What the command line and the collective choose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Policy for thread blocks (`-x`): 0 default, 1 efficiency, 2 zero. NCCL 2.27.
    pub cta_policy: Option<i32>,
    /// How many peers each rank exchanges with (2 for sendrecv). NCCL 2.30.
    pub max_p2p_peers: Option<i32>,
    /// What both buffers are registered as (`-R`).
    pub register: Register,
    /// All work goes to the null stream (`-y`).
    pub null_stream: bool,
    /// Streams can be held (`-z G`).
    pub gate: bool,
    /// Memory use is recorded (`-M`).
    pub memory: bool,
    /// The collective's one call, where it has one (2.28), and whether to use it (`--native`).
    pub native: (Option<Native>, Choice),
}

/// `-R`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Register {
    /// Nothing.
    #[default]
    No,
    /// Buffers known to this rank's communicator. NCCL 2.19.
    Local,
    /// Windows that all ranks have alike. NCCL 2.27.
    Window,
}

impl Register {
    /// What NCCL `version` can do of it.
    pub(super) fn possible(self, version: u32) -> Self {
        match self {
            Self::Window if version < WINDOWS => Self::Local.possible(version),
            Self::Local if version < REGISTRATION => Self::No,
            other => other,
        }
    }
}

/// The first versions with `ncclCommRegister`, with windows and CTA policies, and with policy 2 and native calls.
const REGISTRATION: u32 = 21_900;
const WINDOWS: u32 = 22_700;
const POLICIES: u32 = 22_700;
const POLICY_ZERO: u32 = 22_800;

impl Options {
    /// What nccl-tests sets for a collective.
    pub fn for_collective(traits: Traits) -> Self {
        Self { max_p2p_peers: traits.peers, native: (traits.native, Choice::Auto), ..Self::default() }
    }

    /// What the command line asks for besides.
    pub fn new(cli: &Cli, traits: Traits) -> Self {
        Self {
            cta_policy: cli.cta_policy.filter(|policy| *policy >= 0).map(|policy| policy as i32),
            register: match cli.register {
                0 => Register::No,
                1 => Register::Local,
                _ => Register::Window,
            },
            null_stream: cli.stream_null == 1,
            gate: cli.gated(),
            memory: cli.memory == 1,
            native: (traits.native, cli.native),
            ..Self::for_collective(traits)
        }
    }

    /// The policy, where NCCL `version` knows it: an older one would refuse the configuration.
    fn policy(&self, version: u32) -> Option<i32> {
        let since = if self.cta_policy == Some(2) { POLICY_ZERO } else { POLICIES };
        self.cta_policy.filter(|_| version >= since)
    }

    /// The structure for `ncclCommInitRankConfig`. As nccl-tests does, it asks for the schedule that suits
    /// `NVLink` (2.28).
    pub(super) fn config(&self, version: u32) -> Config {
        Config {
            size: size_of::<Config>(),
            magic: MAGIC,
            version: VERSION,
            blocking: 1,
            cga_cluster_size: UNDEFINED,
            min_ctas: UNDEFINED,
            max_ctas: UNDEFINED,
            net_name: ptr::null(),
            split_share: UNDEFINED,
            traffic_class: UNDEFINED,
            comm_name: ptr::null(),
            collnet_enable: UNDEFINED,
            cta_policy: self.policy(version).unwrap_or(UNDEFINED),
            shrink_share: UNDEFINED,
            nvls_ctas: UNDEFINED,
            channels_per_net_peer: UNDEFINED,
            nvlink_centric_sched: 1,
            graph_usage_mode: UNDEFINED,
            rma_contexts: UNDEFINED,
            max_p2p_peers: self.max_p2p_peers.unwrap_or(UNDEFINED),
            graph_stream_ordering: UNDEFINED,
        }
    }

    /// The user's options that NCCL `version` is too old for, said for the user.
    pub(super) fn ignored(&self, version: u32) -> Vec<String> {
        // maxP2pPeers is only a hint of sendrecv's own; nobody asked for it, so nobody misses it.
        let have = version_text(version);
        let needs = |flag: &str, since| format!("{flag} needs NCCL {}, this is {have}", version_text(since));
        let mut words = Vec::new();
        match self.cta_policy {
            Some(_) if version < POLICIES => {
                words.push(needs("-x (CTA policy)", POLICIES) + "; it is ignored");
            }
            Some(2) if version < POLICY_ZERO => words.push(needs("-x 2", POLICY_ZERO) + "; it is ignored"),
            _ => {}
        }
        if self.register != Register::No && version < REGISTRATION {
            words.push(needs("-R (registration)", REGISTRATION) + "; it is ignored");
        } else if self.register == Register::Window && version < WINDOWS {
            words.push(needs("-R 2 (symmetric windows)", WINDOWS) + "; -R 1 takes its place");
        }
        words
    }
}

/// "2.28.3" for 22803. NCCL up to 2.8 counted 2803 for 2.8.3.
pub(super) fn version_text(code: u32) -> String {
    let (major, rest) =
        if code >= 10_000 { (code / 10_000, code % 10_000) } else { (code / 1000, code % 1000) };
    format!("{major}.{}.{}", rest / 100, rest % 100)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cudarc::nccl::sys::ncclConfig_t;
    use std::mem::offset_of;

    /// Offsets as a C compiler lays nccl.h of 2.30.7 out on a 64-bit machine.
    #[test]
    fn the_layout_is_that_of_the_header() {
        let offsets = [
            (offset_of!(Config, magic), 8),
            (offset_of!(Config, version), 12),
            (offset_of!(Config, blocking), 16),
            (offset_of!(Config, net_name), 32),
            (offset_of!(Config, split_share), 40),
            (offset_of!(Config, traffic_class), 44),
            (offset_of!(Config, comm_name), 48),
            (offset_of!(Config, collnet_enable), 56),
            (offset_of!(Config, cta_policy), 60),
            (offset_of!(Config, nvls_ctas), 68),
            (offset_of!(Config, nvlink_centric_sched), 76),
            (offset_of!(Config, rma_contexts), 84),
            (offset_of!(Config, max_p2p_peers), 88),
            (offset_of!(Config, graph_stream_ordering), 92),
        ];
        for (ours, header) in offsets {
            assert_eq!(ours, header);
        }
        assert_eq!(size_of::<Config>(), 96);
        assert_eq!(offset_of!(Config, blocking), offset_of!(ncclConfig_t, blocking));
        assert_eq!(offset_of!(Config, comm_name), offset_of!(ncclConfig_t, commName));
        assert_eq!(offset_of!(Config, cta_policy), offset_of!(ncclConfig_t, CTAPolicy));
        assert_eq!(offset_of!(Config, nvlink_centric_sched), offset_of!(ncclConfig_t, nvlinkCentricSched));
        assert_eq!(offset_of!(Config, max_p2p_peers), offset_of!(ncclConfig_t, maxP2pPeers));
    }

    #[test]
    fn what_nobody_chose_is_undefined_and_not_zero() {
        let config = Options::default().config(22_803);
        assert_eq!((config.size, config.magic, config.blocking), (96, 0xcafe_beef, 1));
        assert_eq!(
            (config.cta_policy, config.max_p2p_peers, config.min_ctas),
            (i32::MIN, i32::MIN, i32::MIN)
        );
        let config =
            Options { cta_policy: Some(2), max_p2p_peers: Some(2), ..Options::default() }.config(22_803);
        assert_eq!((config.cta_policy, config.max_p2p_peers, config.nvlink_centric_sched), (2, 2, 1));
    }

    #[test]
    fn only_sendrecv_has_two_peers() {
        for entry in crate::collective::ALL {
            let collective = (entry.build)(crate::collective::Shares::default());
            let peers = (entry.name == "sendrecv").then_some(2);
            assert_eq!(Options::for_collective(collective.traits()).max_p2p_peers, peers, "{}", entry.name);
        }
    }

    #[test]
    fn an_option_too_new_for_the_library_is_named() {
        let asked = |policy, register| Options {
            cta_policy: Some(policy),
            max_p2p_peers: Some(2),
            register,
            ..Options::default()
        };
        let ignored = |policy, register, version| asked(policy, register).ignored(version).join("\n");
        assert_eq!(ignored(2, Register::Window, 22_803), "");
        assert_eq!(ignored(1, Register::Window, 22_700), "");
        assert_eq!(asked(2, Register::No).config(22_700).cta_policy, UNDEFINED, "NCCL would refuse it");
        assert_eq!(ignored(2, Register::No, 22_700), "-x 2 needs NCCL 2.28.0, this is 2.27.0; it is ignored");
        let old = ignored(1, Register::Window, 22_602);
        assert!(old.starts_with("-x (CTA policy) needs NCCL 2.27.0, this is 2.26.2; it is ignored"), "{old}");
        assert!(old.ends_with("this is 2.26.2; -R 1 takes its place"), "{old}");
        assert!(ignored(1, Register::Local, 21_806).ends_with("this is 2.18.6; it is ignored"));
        let possible = [21_806, 21_900, 22_602, 22_700].map(|version| Register::Window.possible(version));
        assert_eq!(possible, [Register::No, Register::Local, Register::Local, Register::Window]);
    }

    #[test]
    fn versions_read_as_nccl_prints_them() {
        for (code, text) in [(22_803, "2.28.3"), (21_806, "2.18.6"), (23_007, "2.30.7"), (2803, "2.8.3")] {
            assert_eq!(version_text(code), text);
        }
    }
}

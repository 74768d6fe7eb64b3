//! How the backend runs when asked to: registered buffers, native calls, memory use.

use super::config::{Options, Register, version_text};
use super::ffi::{Context, Cuda, Gate};
use super::{Early, Nccl};
use crate::backend::{Remark, Usage};
use crate::cli::Native as Choice;
use crate::collective::Native;
use crate::error::{Error, Result};

/// NCCL's name of a call.
const fn call_name(call: Native) -> &'static str {
    match call {
        Native::Alltoall => "ncclAlltoAll",
        Native::Gather => "ncclGather",
        Native::Scatter => "ncclScatter",
    }
}

/// A mistake of this program.
#[cold]
pub(super) fn no_gate() -> Error {
    Error::Setup("no gate was made; this is an error of critrank".to_owned())
}

/// Each context's free memory; nothing where it is not `wanted`.
pub(super) fn free(cuda: &Cuda, contexts: &[&Context], wanted: bool) -> Result<Vec<u64>> {
    let one = |context: &&Context| cuda.enter(context).and_then(|()| cuda.memory()).map(|(free, _)| free);
    if wanted { contexts.iter().map(one).collect() } else { Ok(Vec::new()) }
}

/// What was taken between two readings, by the rank that took most.
fn taken(before: &[u64], after: &[u64]) -> u64 {
    before.iter().zip(after).map(|(before, after)| before.saturating_sub(*after)).max().unwrap_or(0)
}

impl Early {
    /// The call that the collective makes instead of sends and receives.
    pub(super) fn native(&self, options: &Options) -> Result<Option<Native>> {
        let (Some(call), choice) = options.native else { return Ok(None) };
        match choice {
            Choice::Auto | Choice::Always if self.api.has(call) => Ok(Some(call)),
            Choice::Auto | Choice::Never => Ok(None),
            Choice::Always => Err(Error::Unsupported(format!(
                "--native always: {} needs NCCL 2.28 or later, this is {}",
                call_name(call),
                version_text(self.api.version())
            ))),
        }
    }
}

impl Nccl {
    /// Says which way a collective that has two is run.
    pub(super) fn remark_native(&mut self, call: Option<Native>) {
        let text = match (self.native, call) {
            (Some(call), _) => format!("native: {}", call_name(call)),
            (None, Some(_)) => "composed: ncclSend and ncclRecv".to_owned(),
            (None, None) => return,
        };
        self.remarks.push(Remark { warning: false, text });
    }

    /// With `-R`, registers both buffers of every local rank.
    pub(super) fn register_buffers(&mut self) -> Result<()> {
        if self.register == Register::No {
            return Ok(());
        }
        let windows = self.register == Register::Window;
        let ranks: Vec<_> = self
            .locals
            .iter()
            .filter_map(|local| Some((&local.place.context, &local.comm, local.both()?)))
            .collect();
        let registered = self.api.register(self.cuda, &ranks, windows)?;
        let obtained = registered.iter().all(super::ffi::Registered::is_obtained);
        for (local, registered) in self.locals.iter_mut().zip(registered) {
            local.registered = Some(registered);
        }
        let text = match (windows, obtained) {
            (false, true) => "both buffers: local registration, handle obtained",
            (false, false) => "both buffers: local registration, null handle: not registered",
            (true, true) => {
                "window of both buffers: handle obtained; only NCCL's log or --explain shows a symmetric kernel"
            }
            (true, false) => "window of both buffers: null handle: not symmetric",
        };
        self.remarks.push(Remark { warning: !obtained, text: text.to_owned() });
        self.enter(self.selected)
    }

    /// With `-z G`, makes every local rank's gate.
    pub(super) fn make_gates(&mut self) -> Result<()> {
        if !self.options.gate {
            return Ok(());
        }
        self.for_each(|nccl| {
            let gate = Gate::new(nccl.cuda, &nccl.local().stream)?;
            nccl.local_mut().gate = Some(gate);
            Ok(())
        })
    }

    /// With `-M`, reads what is free once the buffers are made.
    pub(super) fn note_allocated(&mut self) -> Result<()> {
        self.free[2] = self.free_now()?;
        Ok(())
    }

    /// What was taken by the communicator, the buffers, and since then.
    pub(super) fn usage_so_far(&mut self) -> Result<Usage> {
        let now = self.free_now()?;
        let [before, connected, allocated] = &self.free;
        Ok(Usage {
            init_bytes: taken(before, connected),
            user_bytes: taken(connected, allocated),
            collective_bytes: taken(allocated, &now),
        })
    }

    fn free_now(&mut self) -> Result<Vec<u64>> {
        let wanted = !self.free[0].is_empty();
        let contexts: Vec<_> = self.locals.iter().map(|local| &local.place.context).collect();
        let free = free(self.cuda, &contexts, wanted)?;
        self.enter(self.selected)?;
        Ok(free)
    }
}

//! Who started this process, read from the environment before MPI is touched: whether MPI can start at all, which
//! GPU is this rank's, and whether the world that MPI found is the one that was meant.

use crate::error::{Error, Result};

/// A way to look a variable up.
pub type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The family of an MPI library; one does not start under the other's launcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// Open MPI and what is built from it.
    OpenMpi,
    /// MPICH and what shares its ABI: Intel MPI, MVAPICH, Cray MPICH.
    Mpich,
}

impl Flavour {
    /// The family's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::OpenMpi => "Open MPI",
            Self::Mpich => "MPICH",
        }
    }
}

/// What starts processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Launcher {
    /// Open MPI's `mpirun`.
    OpenMpi,
    /// MPICH's `mpirun` (Hydra) and its relatives.
    Hydra,
    /// `srun`.
    Slurm,
    /// None: one process by intent.
    Bare,
}

impl Launcher {
    /// As a message names it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::OpenMpi => "Open MPI's mpirun",
            Self::Hydra => "MPICH's mpirun (Hydra)",
            Self::Slurm => "srun",
            Self::Bare => "no launcher",
        }
    }
}

/// What the launcher says about this process. `None` where it does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Who started it.
    pub launcher: Launcher,
    /// Its rank.
    pub rank: Option<u32>,
    /// Processes of the job.
    pub size: Option<u32>,
    /// Its number among those of its host.
    pub local_rank: Option<u32>,
    /// Processes of its host.
    pub local_size: Option<u32>,
    /// `PMIX_RANK` is set: an Open MPI of version 3 or later finds its world.
    pub pmix: bool,
    /// A PMI-1 or PMI-2 server is offered: MPICH finds its world.
    pub pmi: bool,
}

impl Launch {
    /// Reads the variables. Slurm's leak into what `mpirun` starts inside a job, so a launcher's own come first.
    pub fn read(lookup: Lookup<'_>) -> Self {
        let number = |name: &str| lookup(name).and_then(|text| text.trim().parse().ok());
        let there = |name: &str| lookup(name).is_some();
        let from = |launcher, names: [&str; 4]| Self {
            launcher,
            rank: number(names[0]),
            size: number(names[1]),
            local_rank: number(names[2]),
            local_size: number(names[3]),
            pmix: there("PMIX_RANK"),
            pmi: there("PMI_FD") || there("PMI_PORT") || there("PMI_RANK"),
        };
        if there("OMPI_COMM_WORLD_RANK") {
            let names =
                ["RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE"].map(|name| format!("OMPI_COMM_WORLD_{name}"));
            return from(Launcher::OpenMpi, names.each_ref().map(String::as_str));
        }
        // `srun --mpi=pmi2` sets PMI_* as Hydra does; Hydra's local rank tells them apart.
        if there("MPI_LOCALRANKID") || (there("PMI_RANK") && !slurm_step(lookup)) {
            return from(Launcher::Hydra, ["PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"]);
        }
        if slurm_step(lookup) {
            return Self {
                local_size: lookup("SLURM_STEP_TASKS_PER_NODE").as_deref().and_then(uniform),
                ..from(Launcher::Slurm, ["SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", ""])
            };
        }
        Self {
            launcher: Launcher::Bare,
            rank: None,
            size: None,
            local_rank: None,
            local_size: None,
            pmix: there("PMIX_RANK"),
            pmi: false,
        }
    }

    /// Why this build's MPI cannot start here: said before `MPI_Init`, which would die or make a world of one.
    pub fn refuse_before_init(&self, mpi: Flavour) -> Result<()> {
        if self.launcher != Launcher::Slurm || self.size.is_none_or(|size| size < 2) {
            return Ok(());
        }
        let (missing, way) = match mpi {
            Flavour::OpenMpi if !self.pmix => ("PMIx", "pmix"),
            Flavour::Mpich if !self.pmi && !self.pmix => ("PMI", "pmi2"),
            _ => return Ok(()),
        };
        Err(Error::Setup(format!(
            "this binary is built with {}, and srun offers no {missing} to it: start it with 'srun --mpi={way}', \
             or with that MPI's own mpirun inside the allocation ('srun --mpi=list' shows what Slurm has)",
            mpi.name()
        )))
    }

    /// A world of one where more were meant: a binary of one MPI under the launcher of another. `version` is what
    /// the library in this process calls itself.
    pub fn refuse_singletons(&self, world_size: u32, mpi: Flavour, version: &str) -> Result<()> {
        let Some(meant) = self.size.filter(|size| *size > 1 && world_size == 1) else { return Ok(()) };
        let fix = match (self.launcher, mpi) {
            (Launcher::Slurm, Flavour::OpenMpi) => "start it with 'srun --mpi=pmix'".to_owned(),
            (Launcher::Slurm, Flavour::Mpich) => "start it with 'srun --mpi=pmi2'".to_owned(),
            (launcher, mpi) => {
                let other = if launcher == Launcher::Hydra { "mpicc of MPICH" } else { "mpicc of Open MPI" };
                format!(
                    "start it with the mpirun of {} (Debian: 'mpirun.{}'), or build it with the {other}",
                    mpi.name(),
                    if mpi == Flavour::OpenMpi { "openmpi" } else { "mpich" }
                )
            }
        };
        Err(Error::Setup(format!(
            "{} started {meant} processes, but each of them is alone: this binary's MPI is {version}, the \
             launcher belongs to {}; {fix}",
            self.launcher.name(),
            match self.launcher {
                Launcher::OpenMpi => "Open MPI",
                Launcher::Hydra => "MPICH",
                Launcher::Slurm | Launcher::Bare => "Slurm",
            }
        )))
    }
}

/// Whether this is a task that `srun` started. A batch shell has `SLURM_PROCID` too, but its step is the batch
/// script: it has a job and no step tasks of its own.
fn slurm_step(lookup: Lookup<'_>) -> bool {
    let there = |name: &str| lookup(name).is_some();
    there("SLURM_STEP_NUM_TASKS") && there("SLURM_PROCID") && there("SLURM_LOCALID")
}

/// `4`, `4(x2)`: tasks per node, where all nodes have as many.
fn uniform(text: &str) -> Option<u32> {
    let number = text.split('(').next()?;
    if text.contains(',') { None } else { number.parse().ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(variables: &[(&str, &str)]) -> Launch {
        let find = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        Launch::read(&find)
    }

    const OPENMPI: [(&str, &str); 5] = [
        ("OMPI_COMM_WORLD_RANK", "3"),
        ("OMPI_COMM_WORLD_SIZE", "8"),
        ("OMPI_COMM_WORLD_LOCAL_RANK", "1"),
        ("OMPI_COMM_WORLD_LOCAL_SIZE", "2"),
        ("PMIX_RANK", "3"),
    ];
    const HYDRA: [(&str, &str); 5] = [
        ("PMI_RANK", "3"),
        ("PMI_SIZE", "8"),
        ("MPI_LOCALRANKID", "1"),
        ("MPI_LOCALNRANKS", "2"),
        ("PMI_FD", "7"),
    ];
    const STEP: [(&str, &str); 6] = [
        ("SLURM_PROCID", "5"),
        ("SLURM_STEP_NUM_TASKS", "16"),
        ("SLURM_LOCALID", "0"),
        ("SLURM_STEP_TASKS_PER_NODE", "4(x4)"),
        ("SLURM_NTASKS", "64"),
        ("SLURM_JOB_ID", "9"),
    ];

    fn both<const A: usize, const B: usize>(
        a: [(&'static str, &'static str); A],
        b: [(&'static str, &'static str); B],
    ) -> Vec<(&'static str, &'static str)> {
        [a.to_vec(), b.to_vec()].concat()
    }

    #[test]
    fn a_launchers_own_variables_come_before_slurms() {
        for (variables, launcher) in [
            (OPENMPI.to_vec(), Launcher::OpenMpi),
            (both(STEP, OPENMPI), Launcher::OpenMpi),
            (HYDRA.to_vec(), Launcher::Hydra),
            (both(STEP, HYDRA), Launcher::Hydra),
        ] {
            let found = launch(&variables);
            assert_eq!(found.launcher, launcher);
            assert_eq!((found.rank, found.size), (Some(3), Some(8)));
            assert_eq!((found.local_rank, found.local_size), (Some(1), Some(2)));
        }
        let found = launch(&STEP);
        assert_eq!((found.launcher, found.rank, found.size), (Launcher::Slurm, Some(5), Some(16)));
        assert_eq!((found.local_rank, found.local_size), (Some(0), Some(4)));
        // What `srun --mpi=pmi2` adds.
        let found = launch(&both(STEP, [("PMI_RANK", "5"), ("PMI_SIZE", "16"), ("PMI_FD", "7")]));
        assert_eq!((found.launcher, found.pmi), (Launcher::Slurm, true));
    }

    #[test]
    fn a_batch_shell_is_no_launcher() {
        let found = launch(&[("SLURM_NTASKS", "64"), ("SLURM_JOB_ID", "9"), ("SLURM_PROCID", "0")]);
        assert_eq!((found.launcher, found.size), (Launcher::Bare, None));
        assert!(found.refuse_singletons(1, Flavour::OpenMpi, "Open MPI 4.1.4").is_ok());
        assert!(found.refuse_before_init(Flavour::OpenMpi).is_ok());
        assert_eq!(launch(&[]).launcher, Launcher::Bare);
    }

    #[test]
    fn srun_must_offer_what_the_mpi_needs() {
        let none = launch(&STEP);
        let pmix = launch(&both(STEP, [("PMIX_RANK", "5")]));
        let under_pmi = launch(&both(STEP, [("PMI_RANK", "5"), ("PMI_FD", "7")]));
        let refused =
            |launch: &Launch, mpi| launch.refuse_before_init(mpi).err().map(|error| error.to_string());
        assert!(refused(&none, Flavour::OpenMpi).is_some_and(|text| text.contains("srun --mpi=pmix")));
        assert!(refused(&under_pmi, Flavour::OpenMpi).is_some_and(|text| text.contains("srun --mpi=pmix")));
        assert!(refused(&none, Flavour::Mpich).is_some_and(|text| text.contains("srun --mpi=pmi2")));
        assert_eq!(refused(&pmix, Flavour::OpenMpi), None);
        assert_eq!(refused(&under_pmi, Flavour::Mpich), None);
        let one = Launch { size: Some(1), ..none };
        assert_eq!(refused(&one, Flavour::OpenMpi), None);
    }

    #[test]
    fn singletons_are_refused_with_both_names() {
        let cases = [
            (launch(&HYDRA), Flavour::OpenMpi, "mpirun.openmpi"),
            (launch(&OPENMPI), Flavour::Mpich, "mpirun.mpich"),
            (launch(&STEP), Flavour::Mpich, "--mpi=pmi2"),
        ];
        for (launch, mpi, fix) in cases {
            let version = format!("{} 4.0", mpi.name());
            let text = launch.refuse_singletons(1, mpi, &version).unwrap_err().to_string();
            assert!(text.contains(&version) && text.contains(fix) && text.contains("is alone"), "{text}");
            for word in [" on ", "bandwidth", "FAILED", "Avg bus", "Test failure"] {
                assert!(!text.contains(word), "{text}");
            }
            assert!(launch.refuse_singletons(8, mpi, &version).is_ok());
        }
    }
}

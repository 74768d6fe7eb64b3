//! nccl-tests' environment variables, and what of the environment goes into files.

use std::path::PathBuf;

use super::Split;
use crate::collective::Shares;
use crate::error::Error;

/// What `NCCL_TESTS_*` ask for.
#[derive(Clone, Debug, PartialEq)]
pub struct Environment {
    /// `NCCL_TESTS_MIN_BW`: the run is good from 0.9 × this on, in 10^9 B/s.
    pub min_busbw_gbps: Option<f64>,
    /// `NCCL_TESTS_ALLTOALLV_SPREAD`, cut to 0 to 1.
    pub spread: f64,
    /// `NCCL_TESTS_ALLTOALLV_MATRIX_FILE`.
    pub matrix: Option<PathBuf>,
    /// `NCCL_TESTS_ALLTOALLV_MATRIX_SCALE`.
    pub matrix_scale: f64,
    /// `NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY`.
    pub print_summary: bool,
    /// `NCCL_TESTS_SPLIT` or `_MASK`, whichever counts.
    pub split: Option<Split>,
}

impl Environment {
    /// Reads the variables; text that is no number is an error, not 0.
    pub fn read(get: impl Fn(&str) -> Option<String>) -> Result<Self, Error> {
        let number = |name: &str| match get(name).map(|text| (text.trim().parse::<f64>(), text)) {
            None => Ok(None),
            Some((Ok(value), _)) if value.is_finite() => Ok(Some(value)),
            Some((_, text)) => Err(Error::Usage(format!("{name}='{text}' is no number"))),
        };
        Ok(Self {
            min_busbw_gbps: number("NCCL_TESTS_MIN_BW")?,
            spread: number("NCCL_TESTS_ALLTOALLV_SPREAD")?.unwrap_or(1.0).clamp(0.0, 1.0),
            matrix: get("NCCL_TESTS_ALLTOALLV_MATRIX_FILE").map(PathBuf::from),
            matrix_scale: number("NCCL_TESTS_ALLTOALLV_MATRIX_SCALE")?.unwrap_or(1.0).max(0.0),
            print_summary: number("NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY")?.is_some_and(|value| value != 0.0),
            split: Split::read(&get)?,
        })
    }

    /// The shares of alltoallv; reads the matrix file.
    pub fn shares(&self) -> Result<Shares, Error> {
        let Some(path) = &self.matrix else {
            return Ok(Shares::Generated { spread: self.spread });
        };
        let text = std::fs::read_to_string(path).map_err(|source| Error::File {
            action: "read",
            path: path.clone(),
            source,
        })?;
        Shares::parse_matrix(&text, self.matrix_scale)
            .map_err(|error| Error::Usage(format!("{}: {error}", path.display())))
    }
}

/// Beginnings of the names of variables that shape a measurement; all others, with whatever secrets, stay out.
const SHAPING: [&str; 17] = [
    "NCCL_",
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_",
    "CUDA_MODULE_LOADING",
    "CUDA_LAUNCH_BLOCKING",
    "OMPI_MCA_",
    "OMPI_COMM_WORLD_",
    "MPICH_",
    "MPIR_CVAR_",
    "PMI_",
    "UCX_",
    "FI_",
    "I_MPI_",
    "SLURM_JOB_",
    "SLURM_STEP_",
    "SLURM_NTASKS",
    "CRITRANK_",
];

/// The variables of `all` that shape a measurement, in order of name.
pub fn shaping(all: impl IntoIterator<Item = (String, String)>) -> Vec<(String, String)> {
    let mut chosen: Vec<_> = all
        .into_iter()
        .filter(|(name, _)| SHAPING.iter().any(|beginning| name.starts_with(beginning)))
        .collect();
    chosen.sort();
    chosen
}

/// Why `-z G` cannot work in this environment: calls return only when their work is done, or streams wait for each
/// other, and behind a closed gate that is never.
pub fn why_no_gate(get: impl Fn(&str) -> Option<String>) -> Option<String> {
    let value = |name: &'static str| get(name).map(|value| (name, value));
    let blocking = value("CUDA_LAUNCH_BLOCKING").filter(|(_, value)| !matches!(value.as_str(), "" | "0"));
    let alone = || value("CUDA_DEVICE_MAX_CONNECTIONS").filter(|(_, value)| value == "1");
    blocking.or_else(alone).map(|(name, value)| format!("not with {name}={value}; unset it, or use -z 3"))
}

/// Variables that differ between ranks by their nature.
const OWN: [&str; 11] = [
    "OMPI_COMM_WORLD_",
    "PMI_",
    "SLURM_",
    "CUDA_VISIBLE_DEVICES",
    "NCCL_HOSTID",
    "OMPI_MCA_ess",
    "OMPI_MCA_orte",
    "OMPI_MCA_initial",
    "OMPI_MCA_pmix",
    "OMPI_MCA_shmem",
    "NCCL_DEBUG_FILE",
];

/// Whether a variable differs between ranks, or between launches, by its nature.
pub fn is_a_ranks_own(name: &str) -> bool {
    OWN.iter().any(|own| name.starts_with(own))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Environment, Error> {
        Environment::read(|name| {
            pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn variables_read_as_nccl_tests_reads_them() {
        let none = read(&[]).unwrap();
        assert_eq!((none.min_busbw_gbps, none.spread, none.split), (None, 1.0, None));
        let some = read(&[("NCCL_TESTS_MIN_BW", "40"), ("NCCL_TESTS_ALLTOALLV_SPREAD", "7")]).unwrap();
        assert_eq!((some.min_busbw_gbps, some.spread), (Some(40.0), 1.0));
        let both = read(&[("NCCL_TESTS_SPLIT", "MOD 2"), ("NCCL_TESTS_SPLIT_MASK", "0x1")]).unwrap();
        assert_eq!(both.split, Some(Split::And(1)), "the mask wins");
        assert!(read(&[("NCCL_TESTS_MIN_BW", "fast")]).is_err());
    }

    #[test]
    fn what_would_hold_a_gate_for_ever_is_told() {
        let told = |name: &str, value: &str| why_no_gate(|asked| (asked == name).then(|| value.to_owned()));
        let (blocking, connections) = ("CUDA_LAUNCH_BLOCKING", "CUDA_DEVICE_MAX_CONNECTIONS");
        assert!(told(blocking, "1").is_some_and(|why| why.contains("CUDA_LAUNCH_BLOCKING=1")));
        assert!(told(connections, "1").is_some_and(|why| why.contains("CUDA_DEVICE_MAX_CONNECTIONS=1")));
        assert_eq!((told(blocking, "0"), told(connections, "8"), told("HOME", "1")), (None, None, None));
    }

    #[test]
    fn secrets_stay_out() {
        let all = [
            ("AWS_SECRET_ACCESS_KEY", "x"),
            ("NCCL_DEBUG", "INFO"),
            ("PATH", "/bin"),
            ("FI_PROVIDER", "efa"),
        ];
        let all = all.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let names: Vec<_> = shaping(all).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["FI_PROVIDER", "NCCL_DEBUG"]);
    }
}

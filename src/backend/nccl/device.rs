//! Which GPUs the process drives, and what they are.

use std::ffi::c_int;
use std::path::PathBuf;

use super::ffi::{Context, Cuda, Gpu};
use crate::backend::Device;
use crate::error::{Error, Result};

/// `CU_DEVICE_ATTRIBUTE_…` by their numbers in cuda.h.
const MULTIPROCESSORS: c_int = 16;
const PCI_BUS: c_int = 33;
const PCI_DEVICE: c_int = 34;
const PCI_DOMAIN: c_int = 50;
const CAPABILITY_MAJOR: c_int = 75;
const CAPABILITY_MINOR: c_int = 76;

/// What decides which GPUs a process drives, and which libraries it loads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// This process among those of its host.
    pub local_rank: u32,
    /// Local ranks, one GPU each (`-g` × `-t`).
    pub locals: u32,
    /// First device, as `NCCL_TESTS_DEVICE` says it.
    pub first_device: Option<u32>,
    /// The launcher shows each process its own GPUs only, so that they are counted from 0.
    pub own_gpus_only: bool,
    /// Which thread of the process asks, and how many there are: each drives its equal part of the GPUs.
    pub thread: (u32, u32),
    /// The file of NCCL, as `CRITRANK_NCCL_LIBRARY` says it.
    pub library: Option<PathBuf>,
}

impl Request {
    /// The request of process `local_rank` with `locals` GPUs, with what the environment says.
    pub fn new(local_rank: u32, locals: u32, env: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let first_device = env("NCCL_TESTS_DEVICE").filter(|text| !text.is_empty());
        let first_device = first_device
            .map(|text| {
                let wrong = || Error::Usage(format!("NCCL_TESTS_DEVICE='{text}' is not the number of a GPU"));
                text.trim().parse::<i64>().map_err(|_| wrong())
            })
            .transpose()?
            .and_then(|device| u32::try_from(device).ok());
        let library = env("CRITRANK_NCCL_LIBRARY").filter(|file| !file.is_empty()).map(PathBuf::from);
        let own_gpus_only = own_gpus_only(&env);
        Ok(Self { local_rank, locals, first_device, own_gpus_only, thread: (0, 1), library })
    }
}

/// Whether the environment shows that each process sees only GPUs of its own: Slurm binds GPUs to tasks, or
/// `CUDA_VISIBLE_DEVICES` names one GPU, as scripts that wrap each rank set it.
fn own_gpus_only(env: &impl Fn(&str) -> Option<String>) -> bool {
    let is_set = |name| env(name).is_some_and(|value| !value.is_empty());
    let binding = env("SLURM_GPU_BIND").or_else(|| env("SLURM_TRES_PER_TASK")).unwrap_or_default();
    let bound = ["single", "per_task", "map", "mask", "gpu"].iter().any(|word| binding.contains(word));
    let one_listed = env("CUDA_VISIBLE_DEVICES").is_some_and(|list| !list.is_empty() && !list.contains(','));
    is_set("SLURM_GPUS_PER_TASK") || bound || one_listed
}

/// The devices of a process that sees `visible` GPUs, as nccl-tests chooses them: from `first_device`, else from
/// `local_rank * locals` on. Where that is beyond the GPUs in sight, and these are the process's own and just
/// enough, they are counted from 0.
pub fn choose_devices(visible: u32, request: &Request) -> Result<Vec<u32>> {
    let locals = request.locals.max(1);
    let base = match request.first_device {
        Some(first) => first,
        None if request.own_gpus_only && visible == locals => 0,
        None => request.local_rank.saturating_mul(locals),
    };
    let end = base.saturating_add(locals);
    if end > visible {
        return Err(Error::TooFewGpus { requested: end, found: visible });
    }
    Ok((base..end).collect())
}

/// The part of a process's devices that one of its threads drives.
pub(super) fn part((thread, threads): (u32, u32), indices: &[u32]) -> &[u32] {
    let each = indices.len() / threads.max(1) as usize;
    indices.get(thread as usize * each..(thread as usize + 1) * each).unwrap_or_default()
}

/// One local rank's GPU, with its context.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) context: Context,
    pub(super) device: Device,
    /// Streaming multiprocessors.
    pub(super) processors: u32,
}

/// Opens the context of each device, the first one last: it is then the current one.
pub(super) fn open(cuda: &Cuda, indices: &[u32], driver: &str) -> Result<Vec<Place>> {
    let mut places: Vec<_> =
        indices.iter().rev().map(|&index| place(cuda, index, driver)).collect::<Result<_>>()?;
    places.reverse();
    Ok(places)
}

fn place(cuda: &Cuda, index: u32, driver: &str) -> Result<Place> {
    let gpu = cuda.gpu(index)?;
    let device = describe(cuda, gpu, index, driver)?;
    let processors = cuda.attribute(gpu, MULTIPROCESSORS)?.unsigned_abs();
    Ok(Place { context: cuda.context(gpu)?, device, processors })
}

fn describe(cuda: &Cuda, gpu: Gpu, index: u32, driver: &str) -> Result<Device> {
    let attribute = |number| cuda.attribute(gpu, number).map(i32::unsigned_abs);
    let name = cuda.name(gpu)?;
    Ok(Device {
        index,
        bus_id: bus_id(attribute(PCI_DOMAIN)?, attribute(PCI_BUS)?, attribute(PCI_DEVICE)?),
        uuid: uuid(cuda.uuid(gpu)?, name.contains(" MIG ")),
        name,
        compute_capability: 10 * attribute(CAPABILITY_MAJOR)? + attribute(CAPABILITY_MINOR)?,
        driver: driver.to_owned(),
    })
}

/// A PCI address as nccl-tests prints it.
fn bus_id(domain: u32, bus: u32, device: u32) -> String {
    format!("{domain:04x}:{bus:02x}:{device:02x}")
}

/// A UUID as `nvidia-smi` prints it.
fn uuid(bytes: [u8; 16], is_instance: bool) -> String {
    let mut text = String::from(if is_instance { "MIG" } else { "GPU" });
    for (place, byte) in bytes.iter().enumerate() {
        if matches!(place, 0 | 4 | 6 | 8 | 10) {
            text.push('-');
        }
        for digit in [byte >> 4, byte & 0xf] {
            text.extend(char::from_digit(u32::from(digit), 16));
        }
    }
    text
}

/// The driver's version: its own number where NVML tells it, else the CUDA version that it serves.
pub(super) fn driver(cuda: &Cuda) -> Result<String> {
    let by_nvml = nvml_wrapper::Nvml::init().and_then(|nvml| nvml.sys_driver_version());
    match by_nvml {
        Ok(version) => Ok(version),
        Err(error) => {
            tracing::debug!(%error, "no NVML; the driver is described by its CUDA version");
            let version = cuda.driver_version()?;
            Ok(format!("CUDA {}.{}", version / 1000, version % 1000 / 10))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(local_rank: u32, locals: u32) -> Request {
        Request { local_rank, locals, ..Request::default() }
    }

    /// The numbers of nccl-tests' message where there are too few GPUs.
    fn too_few(result: &Result<Vec<u32>>) -> Option<(u32, u32)> {
        match result {
            Err(Error::TooFewGpus { requested, found }) => Some((*requested, *found)),
            _ => None,
        }
    }

    #[test]
    fn devices_follow_the_local_rank() {
        for (visible, local_rank, locals, expected) in
            [(8, 0, 1, vec![0]), (8, 3, 1, vec![3]), (8, 1, 4, vec![4, 5, 6, 7]), (1, 0, 1, vec![0])]
        {
            assert_eq!(choose_devices(visible, &request(local_rank, locals)).ok(), Some(expected));
        }
    }

    #[test]
    fn too_few_gpus_are_told_in_the_numbers_of_nccl_tests() {
        assert_eq!(too_few(&choose_devices(1, &request(1, 1))), Some((2, 1)));
        assert_eq!(too_few(&choose_devices(4, &request(1, 4))), Some((8, 4)));
        assert_eq!(too_few(&choose_devices(2, &request(0, 3))), Some((3, 2)));
        assert_eq!(too_few(&choose_devices(1, &request(u32::MAX, 2))), Some((u32::MAX, 1)));
        let chosen = Request { first_device: Some(7), ..request(0, 2) };
        assert_eq!(too_few(&choose_devices(8, &chosen)), Some((9, 8)));
    }

    #[test]
    fn a_first_device_that_the_user_names_wins() {
        let chosen = Request { first_device: Some(2), own_gpus_only: true, ..request(5, 2) };
        assert_eq!(choose_devices(4, &chosen).ok(), Some(vec![2, 3]));
        let shared = Request { first_device: Some(0), ..request(5, 1) };
        assert_eq!(choose_devices(1, &shared).ok(), Some(vec![0]));
    }

    #[test]
    fn gpus_of_the_process_itself_are_counted_from_zero() {
        let own = |local_rank, locals| Request { own_gpus_only: true, ..request(local_rank, locals) };
        assert_eq!(choose_devices(1, &own(3, 1)).ok(), Some(vec![0]));
        assert_eq!(choose_devices(2, &own(3, 2)).ok(), Some(vec![0, 1]));
        assert_eq!(choose_devices(4, &own(3, 1)).ok(), Some(vec![3]));
        assert_eq!(too_few(&choose_devices(2, &own(3, 1))), Some((4, 2)));
    }

    #[test]
    fn the_environment_says_whose_gpus_are_in_sight() {
        let own =
            |name: &str, value: &str| own_gpus_only(&|asked: &str| (asked == name).then(|| value.to_owned()));
        assert!(own("SLURM_GPUS_PER_TASK", "1"));
        assert!(own("SLURM_GPU_BIND", "single:1"));
        assert!(own("SLURM_TRES_PER_TASK", "gres/gpu:1"));
        assert!(own("CUDA_VISIBLE_DEVICES", "3"));
        assert!(own("CUDA_VISIBLE_DEVICES", "GPU-6f0a"));
        assert!(!own("CUDA_VISIBLE_DEVICES", "0,1"));
        assert!(!own("SLURM_GPU_BIND", "none"));
        assert!(!own("SLURM_TRES_PER_TASK", "cpu:4"));
        assert!(!own("HOME", "/"));
    }

    #[test]
    fn a_request_reads_the_environment() {
        let with = |device: &'static str| {
            Request::new(1, 2, move |name| match name {
                "NCCL_TESTS_DEVICE" => Some(device.to_owned()),
                "CRITRANK_NCCL_LIBRARY" => Some("/opt/libnccl.so.2".to_owned()),
                _ => None,
            })
        };
        let read = with("4").unwrap();
        assert_eq!((read.first_device, read.locals, read.own_gpus_only), (Some(4), 2, false));
        assert_eq!(read.library, Some(PathBuf::from("/opt/libnccl.so.2")));
        assert_eq!(with("-1").unwrap().first_device, None);
        assert!(matches!(with("first"), Err(Error::Usage(_))));
    }

    #[test]
    fn names_of_a_gpu_read_as_other_tools_print_them() {
        assert_eq!(bus_id(0, 0x1b, 0), "0000:1b:00");
        assert_eq!(bus_id(0x10_0000, 2, 3), "100000:02:03");
        let bytes = [0x6f, 0x0a, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 0xff];
        assert_eq!(uuid(bytes, false), "GPU-6f0a0102-0304-0506-0708-090a0b0c0dff");
        assert!(uuid(bytes, true).starts_with("MIG-6f0a"));
    }
}

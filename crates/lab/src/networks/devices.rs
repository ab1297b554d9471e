//! Where networks are trained.

use std::sync::Arc;

use engine::cuda::{self, Precision};

use crate::error::Result;

/// Where a network is trained. The bits of a run depend on it, so a checkpoint says which it was.
#[derive(Clone)]
pub enum Device {
    /// This machine's cores.
    Cpu,
    /// A CUDA device, and how it multiplies.
    Cuda(Arc<cuda::Device>, Precision),
}

impl Device {
    /// Opens the first CUDA device, or says what is missing.
    pub fn cuda(precision: Precision) -> Result<Device> {
        Ok(Device::Cuda(cuda::Device::open(0)?, precision))
    }

    /// What a checkpoint records: `cpu`, `cuda bf16`.
    pub fn name(&self) -> String {
        match self {
            Device::Cpu => "cpu".into(),
            Device::Cuda(_, precision) => format!("cuda {}", precision.name()),
        }
    }

    /// For people: `NVIDIA H200 (bf16)`.
    pub fn describe(&self) -> String {
        match self {
            Device::Cpu => {
                let cores = std::thread::available_parallelism().map_or(1, usize::from);
                format!("the CPU ({cores} core{})", if cores == 1 { "" } else { "s" })
            }
            Device::Cuda(device, precision) => format!("{} ({})", device.info.name, precision.name()),
        }
    }
}

/// The arguments of `iclab train` that choose the device with a recorded name.
pub fn arguments(name: &str) -> String {
    match name.split_once(' ') {
        Some((device, precision)) => format!("--device {device} --precision {precision}"),
        None => format!("--device {name}"),
    }
}

//! `--device` and `--precision`: where networks are trained and run.

use std::sync::{Arc, OnceLock};

use clap::{Args, ValueEnum};
use engine::cuda::{self, CudaError, Precision};
use lab::networks::devices::Device;
use lab::networks::evaluation::{self, Place};

use crate::error::{Error, Result};

/// Where to train.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Choice {
    /// A CUDA device if there is one, else the CPU
    Auto,
    /// This machine's cores
    Cpu,
    /// A CUDA device
    Cuda,
}

/// How a CUDA device multiplies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PrecisionChoice {
    /// float32 throughout
    Float32,
    /// float32 in memory, matmuls with 10-bit mantissas
    Tf32,
    /// Activations and matmuls in bf16; weights and sums in float32
    Bf16,
}

/// Where to train, as asked for.
#[derive(Args)]
pub struct DeviceArgs {
    /// Where networks are trained and run
    #[arg(long, value_enum, default_value = "auto")]
    device: Choice,
    /// How a CUDA device multiplies [default: bf16]
    #[arg(long, value_enum)]
    precision: Option<PrecisionChoice>,
}

impl DeviceArgs {
    /// From now on networks are evaluated there, in float32 whatever they are trained in.
    pub fn apply_to_evaluation(&self) -> Result<()> {
        self.device.evaluate()
    }

    /// The same wishes as typed.
    pub fn arguments(&self) -> Vec<String> {
        let name = |value: Option<clap::builder::PossibleValue>| value.map(|v| v.get_name().to_string());
        let device = name(self.device.to_possible_value()).map(|name| ["--device".to_string(), name]);
        let precision = self.precision.and_then(|p| name(p.to_possible_value()));
        let precision = precision.map(|name| ["--precision".to_string(), name]);
        device.into_iter().chain(precision).flatten().collect()
    }
}

/// Where a trained network runs, as asked for.
#[derive(Args)]
pub struct RunArgs {
    /// Where the network runs
    #[arg(long, value_enum, default_value = "auto")]
    device: Choice,
    /// How a CUDA device multiplies [default: float32]
    #[arg(long, value_enum)]
    precision: Option<PrecisionChoice>,
}

impl RunArgs {
    /// Where; also whether the CPU may take what a CUDA device cannot run.
    pub fn choose(&self) -> Result<(Chosen, bool)> {
        let &RunArgs { device, precision } = self;
        let precision = match device {
            Choice::Cpu => precision,
            _ => Some(precision.unwrap_or(PrecisionChoice::Float32)),
        };
        let args = DeviceArgs { device, precision };
        let devices = args.devices()?;
        Ok((devices.choose(None)?, devices.may_fall_back()))
    }
}

/// Where trained networks are evaluated, as asked for.
#[derive(Args)]
pub struct EvaluationArgs {
    /// Where networks are evaluated, in float32
    #[arg(long, value_enum, default_value = "auto")]
    device: Choice,
}

impl EvaluationArgs {
    /// From now on networks are evaluated there.
    pub fn apply(&self) -> Result<()> {
        self.device.evaluate()
    }
}

impl Choice {
    /// From now on networks are evaluated there. A device that may be missing is opened when it is needed.
    fn evaluate(self) -> Result<()> {
        evaluation::run_at(match self {
            Choice::Auto => Place::CudaIfThere,
            Choice::Cpu => Place::On(Device::Cpu),
            Choice::Cuda => Place::On(Device::cuda(evaluation::PRECISION)?),
        });
        Ok(())
    }
}

/// The device of a run, and why it is not another.
pub struct Chosen {
    /// Where to train.
    pub device: Device,
    /// Why it is the CPU although nobody asked for it.
    pub note: Option<String>,
}

impl Chosen {
    /// One line that says where.
    pub fn line(&self) -> String {
        let note = self.note.as_ref().map_or(String::new(), |note| format!("; {note}"));
        format!("training on {}{note}", self.device.describe())
    }
}

/// Opens devices as asked for, once.
pub struct Devices<'a> {
    args: &'a DeviceArgs,
    cuda: OnceLock<Result<Arc<cuda::Device>, String>>,
}

impl DeviceArgs {
    /// Checks that the arguments go together.
    pub fn devices(&self) -> Result<Devices<'_>> {
        if self.device == Choice::Cpu && self.precision.is_some() {
            return Err(Error::Usage(
                "--precision is for CUDA devices; accepted: --device cuda or auto, or no --precision".into(),
            ));
        }
        Ok(Devices { args: self, cuda: OnceLock::new() })
    }

    fn precision(&self) -> Option<Precision> {
        self.precision.map(|choice| match choice {
            PrecisionChoice::Float32 => Precision::Float32,
            PrecisionChoice::Tf32 => Precision::Tf32,
            PrecisionChoice::Bf16 => Precision::Bf16,
        })
    }
}

impl Devices<'_> {
    /// The device for a run; `recorded` is the one it was begun on, which `auto` takes again where it can.
    pub fn choose(&self, recorded: Option<&str>) -> Result<Chosen> {
        let asked = self.args.precision();
        let begun = recorded.and_then(|name| Precision::named(name.strip_prefix("cuda ")?));
        let precision = match self.args.device {
            Choice::Auto => asked.or(begun).unwrap_or_default(),
            _ => asked.unwrap_or_default(),
        };
        match self.args.device {
            Choice::Cpu => Ok(Chosen { device: Device::Cpu, note: None }),
            Choice::Cuda => {
                let device = self.open().map_err(|why| lab::Error::from(CudaError::Unavailable(why)))?;
                Ok(Chosen { device: Device::Cuda(device, precision), note: None })
            }
            Choice::Auto if recorded == Some("cpu") => {
                Ok(Chosen { device: Device::Cpu, note: Some("it was begun there".into()) })
            }
            Choice::Auto => Ok(match self.open() {
                Ok(device) => Chosen { device: Device::Cuda(device, precision), note: None },
                Err(why) => Chosen { device: Device::Cpu, note: Some(format!("no CUDA device: {why}")) },
            }),
        }
    }

    /// Whether the CPU may take what a CUDA device cannot run.
    pub fn may_fall_back(&self) -> bool {
        self.args.device == Choice::Auto
    }

    fn open(&self) -> Result<Arc<cuda::Device>, String> {
        let opened = self.cuda.get_or_init(|| {
            cuda::Device::open(0).map_err(|error| match error {
                CudaError::Unavailable(why) => why,
                other => other.to_string(),
            })
        });
        opened.clone()
    }
}

//! Where trained networks are evaluated: predictions of every layer, answers to queries, residual streams, patched activations.
//!
//! A choice of the whole process, as the number of threads is: the cores unless somebody says otherwise. A CUDA device that does not
//! offer something, or has no room for it, leaves it to the cores.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, OnceLock, RwLock};

use engine::cuda::{self, CudaError, Precision};

use crate::error::{Error, Result};
use crate::networks::devices::Device;

/// Where networks are to be evaluated.
#[derive(Clone)]
pub enum Place {
    /// On this device.
    On(Device),
    /// On the first CUDA device if there is one, else on the cores. It is opened when the first network is run.
    CudaIfThere,
}

static PLACE: RwLock<Place> = RwLock::new(Place::On(Device::Cpu));
static FOUND: OnceLock<Device> = OnceLock::new();
static LEFT: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// How a CUDA device multiplies where nobody says otherwise: so that verdicts are those of the cores.
pub const PRECISION: Precision = Precision::Float32;

/// From now on, networks of this process are evaluated there.
pub fn run_at(place: Place) {
    *PLACE.write().unwrap_or_else(|e| e.into_inner()) = place;
}

/// Where networks are evaluated.
pub fn device() -> Device {
    match &*PLACE.read().unwrap_or_else(|e| e.into_inner()) {
        Place::On(device) => device.clone(),
        Place::CudaIfThere => FOUND.get_or_init(|| Device::cuda(PRECISION).unwrap_or(Device::Cpu)).clone(),
    }
}

/// Does some work on the CUDA device; nothing where there is none, or where it does not offer this.
pub(crate) fn on_cuda<T>(work: impl FnOnce(&Arc<cuda::Device>, Precision) -> Result<T>) -> Result<Option<T>> {
    match device() {
        Device::Cpu => Ok(None),
        Device::Cuda(device, precision) => or_cores(work(&device, precision)),
    }
}

/// Multiply-adds that are worth a device: for fewer, the cores need tenths of a second, and preparing a device seconds.
const WORTH: f64 = 1e11;

/// The same, of so many multiply-adds; nothing where they are not worth a device that nobody asked for by name.
pub(crate) fn on_cuda_if_worth<T>(
    multiply_adds: f64,
    work: impl FnOnce(&Arc<cuda::Device>, Precision) -> Result<T>,
) -> Result<Option<T>> {
    let may_choose = matches!(&*PLACE.read().unwrap_or_else(|e| e.into_inner()), Place::CudaIfThere);
    if may_choose && multiply_adds < WORTH { Ok(None) } else { on_cuda(work) }
}

/// What was done, or nothing where the cores must do it.
fn or_cores<T>(done: Result<T>) -> Result<Option<T>> {
    let why = match done {
        Ok(done) => return Ok(Some(done)),
        Err(Error::Cuda(CudaError::Unsupported(what))) => format!("it does not offer {what}"),
        Err(Error::Cuda(CudaError::Memory { .. })) => "it has too little memory left".into(),
        Err(error) => return Err(error),
    };
    LEFT.lock().unwrap_or_else(|e| e.into_inner()).insert(why);
    Ok(None)
}

/// Why the CUDA device left something to the cores so far, in words that follow on its name.
pub fn left_to_cores() -> Vec<String> {
    LEFT.lock().unwrap_or_else(|e| e.into_inner()).iter().cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cores_take_what_a_device_does_not_offer() {
        let unsupported = CudaError::Unsupported("heads of size 5".into());
        let memory = CudaError::Memory { needed_mib: 2, free_mib: 1, total_mib: 3 };
        for error in [unsupported, memory] {
            assert_eq!(or_cores::<()>(Err(error.into())).unwrap(), None);
        }
        assert_eq!(left_to_cores(), ["it does not offer heads of size 5", "it has too little memory left"]);
        assert_eq!(or_cores(Ok(3)).unwrap(), Some(3));
        let broken = CudaError::Unavailable("it fell off the bus".into());
        assert!(or_cores::<()>(Err(broken.into())).is_err());
    }

    #[test]
    fn nothing_is_asked_of_a_device_that_nobody_chose() {
        assert_eq!(device().name(), "cpu");
        let done = on_cuda(|_, _| -> Result<()> { unreachable!("there is no device") });
        assert!(done.unwrap().is_none());
    }
}

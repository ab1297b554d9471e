//! Opening a GPU.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use cudarc::cublaslt::{result as lt, sys as lt_sys};
use cudarc::driver::sys::CUdevice_attribute as Attribute;
use cudarc::driver::{CudaContext, CudaStream};
use cudarc::{driver, nvrtc};

use super::autotune::{AutotuneCache, LazyTimer};
use super::compiler::Precompiled;
use super::error::{CudaError, blas, driver as failed};
use super::gate::{Gate, Preparing};
use super::guards::{GuardReport, Guards};

/// What a GPU is.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceInfo {
    /// Its name, as the driver says it.
    pub name: String,
    /// Compute capability, major and minor.
    pub capability: (i32, i32),
    /// Streaming multiprocessors.
    pub multiprocessors: usize,
    /// Bytes of memory.
    pub memory: usize,
    /// Bytes of shared memory that one block may opt in to.
    pub shared_memory: usize,
    /// Newest CUDA version the driver knows, e.g. 13000.
    pub driver: i32,
    /// Version of NVRTC, major and minor.
    pub nvrtc: (i32, i32),
    /// Version of cuBLASLt.
    pub cublaslt: usize,
}

impl DeviceInfo {
    /// Whether it is a Hopper GPU, with wgmma and programmatic dependent launch.
    pub(crate) fn is_hopper(&self) -> bool {
        self.capability == (9, 0)
    }

    /// What kernels are compiled for.
    pub(crate) fn architecture(&self) -> String {
        let (major, minor) = self.capability;
        // "sm_90a" admits wgmma, which no other architecture has.
        let own = if self.is_hopper() { "a" } else { "" };
        format!("sm_{major}{minor}{own}")
    }
}

/// How the layers of an LSTM are launched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LstmLaunches {
    /// One launch for each diagonal of layers and tokens.
    Diagonals,
    /// One launch for everything, whose blocks keep their weights and wait for each other.
    Persistent,
}

/// An opened GPU.
pub struct Device {
    pub(crate) context: Arc<CudaContext>,
    pub(crate) blas: lt_sys::cublasLtHandle_t,
    /// What it is.
    pub info: DeviceInfo,
    pub(crate) autotune: AutotuneCache,
    pub(crate) timer: LazyTimer,
    /// Whether it has been kept busy long enough to have reached its clock.
    pub(crate) warm: AtomicBool,
    pub(crate) precompiled: Precompiled,
    pub(crate) guards: Arc<Guards>,
    pub(crate) gate: Gate,
    /// How LSTMs are launched; the faster way if none is given.
    lstm_launches: Mutex<Option<LstmLaunches>>,
}

// SAFETY: a cuBLASLt handle may be used from any thread (its documentation says so); the context is bound by each call.
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: made by `open`, destroyed once.
        let _ = unsafe { lt::destroy_handle(self.blas) };
    }
}

/// The oldest CUDA version whose functions are used.
const OLDEST_DRIVER: i32 = 12000;

impl Device {
    /// Opens the GPU with the given number, or says what is missing.
    pub fn open(ordinal: usize) -> Result<Arc<Device>, CudaError> {
        with_libraries(|| Self::open_present(ordinal))
    }

    /// How many GPUs the driver sees.
    pub fn count() -> Result<usize, CudaError> {
        with_libraries(|| {
            let count = CudaContext::device_count()
                .map_err(|e| CudaError::Unavailable(format!("the driver does not start ({e})")))?;
            Ok(count.max(0) as usize)
        })
    }

    fn open_present(ordinal: usize) -> Result<Arc<Device>, CudaError> {
        let unavailable = |text: String| CudaError::Unavailable(text);
        driver::result::init().map_err(|e| unavailable(format!("the driver does not start ({e})")))?;
        let mut version = 0;
        // SAFETY: writes one integer.
        let _ = unsafe { driver::sys::cuDriverGetVersion(&mut version) };
        if version < OLDEST_DRIVER {
            return Err(unavailable(format!(
                "the driver supports CUDA {}.{}; 12.0 or later is needed",
                version / 1000,
                version % 1000 / 10
            )));
        }
        let count = CudaContext::device_count().map_err(failed("count devices"))?;
        if ordinal >= count.max(0) as usize {
            return Err(unavailable(format!("device {ordinal} was asked for, and there are {count}")));
        }
        let context = CudaContext::new(ordinal).map_err(failed("open the device"))?;
        let capability = context.compute_capability().map_err(failed("query the compute capability"))?;
        if capability < (8, 0) {
            return Err(unavailable(format!(
                "{} has compute capability {}.{}; 8.0 or later is needed",
                context.name().unwrap_or_default(),
                capability.0,
                capability.1
            )));
        }
        // SAFETY: all work is ordered by the programs themselves, which run on streams of their own.
        unsafe { context.disable_event_tracking() };
        let attribute = |a| context.attribute(a).map_err(failed("query an attribute"));
        let (mut major, mut minor) = (0, 0);
        // SAFETY: writes two integers.
        let _ = unsafe { nvrtc::sys::nvrtcVersion(&mut major, &mut minor) };
        let info = DeviceInfo {
            name: context.name().map_err(failed("query the name"))?,
            capability,
            multiprocessors: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)? as usize,
            memory: context.total_mem().map_err(failed("query the memory"))?,
            shared_memory: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?
                as usize,
            driver: version,
            nvrtc: (major, minor),
            // SAFETY: returns a number.
            cublaslt: unsafe { lt_sys::cublasLtGetVersion() },
        };
        let blas = lt::create_handle().map_err(blas("create a handle"))?;
        let (autotune, timer, precompiled) =
            (AutotuneCache::read(&info), LazyTimer::new(), Precompiled::default());
        let (guards, gate) = (Arc::new(Guards::default()), Gate::default());
        Ok(Arc::new(Device {
            context,
            blas,
            info,
            autotune,
            timer,
            warm: AtomicBool::new(false),
            precompiled,
            guards,
            gate,
            lstm_launches: Mutex::default(),
        }))
    }

    /// A stream of its own.
    pub(crate) fn stream(&self) -> Result<Arc<CudaStream>, CudaError> {
        self.context.new_stream().map_err(failed("create a stream"))
    }

    /// A stream of its own, whose blocks go ahead of those of other streams that wait for a multiprocessor.
    pub(crate) fn urgent_stream(&self) -> Result<Arc<CudaStream>, CudaError> {
        self.context.bind_to_thread().map_err(failed("bind the device"))?;
        let stream = || {
            let (_least, greatest) = driver::result::stream::get_priority_range()?;
            self.context.new_stream_with_priority(greatest)
        };
        stream().map_err(failed("create a stream"))
    }

    /// One network is prepared at a time: what is autotuned then must be the same for all of them, and a stream capture
    /// tolerates no synchronisation of the whole device beside it.
    pub(crate) fn preparing(&self) -> Preparing<'_> {
        self.gate.prepare()
    }

    /// Does some work with guards around every buffer that it makes; also says what became of them.
    pub(crate) fn guarded<T>(&self, work: impl FnOnce() -> T) -> (T, GuardReport) {
        self.guards.switch(true);
        let done = work();
        self.guards.switch(false);
        // Buffers of the work are gone, but for the workspace that matmuls are timed with.
        self.verify_timer();
        (done, self.guards.take())
    }

    /// Does some work in which LSTMs that are prepared are launched in one way, whichever is faster.
    pub(crate) fn launching_lstms<T>(&self, launches: LstmLaunches, work: impl FnOnce() -> T) -> T {
        let set = |to| *self.lstm_launches.lock().unwrap_or_else(PoisonError::into_inner) = to;
        set(Some(launches));
        let done = work();
        set(None);
        done
    }

    /// How LSTMs are launched; the faster way if none is given.
    pub(crate) fn lstm_launches(&self) -> Option<LstmLaunches> {
        *self.lstm_launches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until everything given to the device is done.
    pub fn synchronize(&self) -> Result<(), CudaError> {
        self.context.synchronize().map_err(failed("finish its work"))
    }

    /// Bytes of memory that are free.
    pub fn free_memory(&self) -> Result<usize, CudaError> {
        Ok(self.context.mem_get_info().map_err(failed("query the memory"))?.0)
    }
}

/// Calls the driver where it and the libraries are there.
fn with_libraries<T>(work: impl FnOnce() -> Result<T, CudaError>) -> Result<T, CudaError> {
    let missing = |what: &str| CudaError::Unavailable(what.to_string());
    // SAFETY: looks for a library by name.
    let has_driver = unsafe { driver::sys::is_culib_present() };
    // SAFETY: as above.
    let has_blas = unsafe { cudarc::cublaslt::sys::is_culib_present() };
    // SAFETY: as above.
    let has_nvrtc = unsafe { nvrtc::sys::is_culib_present() };
    if !has_driver {
        return Err(missing("the driver's library libcuda.so was not found"));
    }
    if !has_blas {
        return Err(missing("libcublasLt.so was not found (it comes with the CUDA toolkit)"));
    }
    if !has_nvrtc {
        return Err(missing("libnvrtc.so was not found (it comes with the CUDA toolkit)"));
    }
    // A library without one of the functions makes the binding panic.
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|_| Err(missing("the driver or a CUDA library is too old")))
}

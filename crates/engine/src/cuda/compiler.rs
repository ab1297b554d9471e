//! Kernels: sources are compiled by NVRTC for the shapes in use, and the cubins are cached on disk.

use std::collections::{HashMap, HashSet};
use std::ffi::CString;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread;

use cudarc::driver::sys::CUfunction_attribute as FunctionAttribute;
use cudarc::driver::{CudaFunction, CudaModule};
use cudarc::nvrtc::{Ptx, result as nvrtc, sys};

use super::Precision;
use super::device::{Device, DeviceInfo};
use super::error::{CudaError, driver};
use super::usage::{self, KernelUsage};
use crate::hash::stable_id;
use crate::model::checkpoint::write_whole;

/// Compiled kernels.
pub(crate) struct Kernels {
    module: Arc<CudaModule>,
}

impl Kernels {
    /// A kernel by name, which may use `shared` bytes of dynamic shared memory.
    pub(crate) fn get(&self, name: &'static str, shared: usize) -> Result<CudaFunction, CudaError> {
        let function = self.module.load_function(name).map_err(driver("find a kernel"))?;
        if shared > 0 {
            let attribute = FunctionAttribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            function.set_attribute(attribute, shared as i32).map_err(driver("reserve shared memory"))?;
        }
        Ok(function)
    }
}

/// Constants a source is compiled with.
pub(crate) type Defines<'a> = &'a [(&'a str, usize)];

/// What kernels are compiled from: one text, and a name for the cubin cache and for error messages.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct KernelSource {
    name: &'static str,
    text: String,
}

impl KernelSource {
    /// Files one after the other, with `#define`s before them.
    pub(crate) fn new(name: &'static str, precision: Precision, defines: Defines, texts: &[&str]) -> Self {
        let mut text = format!("#define PRECISION {}\n", precision as usize);
        for (key, value) in defines {
            text += &format!("#define {key} {value}\n");
        }
        for part in texts {
            text += part;
            text += "\n";
        }
        Self { name, text }
    }

    /// A name for people.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Compiles for a device, which need not be there: what its kernels take of a multiprocessor.
    pub fn usage(&self, device: &DeviceInfo) -> Result<Vec<KernelUsage>, CudaError> {
        let (_, log) = compile_text(self.name, &self.text, &device.architecture(), &["--ptxas-options=-v"])?;
        Ok(usage::parse(&log))
    }

    /// The kernel `sample` of a [`Feed::Kernel`](crate::trainer::Feed::Kernel).
    pub fn sampler(precision: Precision, text: &str) -> Self {
        Self::new("sample", precision, &[], &[text])
    }
}

/// Cubins compiled before their first use, by source.
pub(crate) type Precompiled = Mutex<HashMap<KernelSource, Vec<u8>>>;

/// Bytes of stack for a thread that compiles: as much as a main thread usually has.
const STACK: usize = 8 << 20;

impl Device {
    /// Compiles a source, or takes the cubin from the cache.
    pub(crate) fn compile(&self, source: &KernelSource) -> Result<Kernels, CudaError> {
        let ready = self.precompiled.lock().unwrap_or_else(|e| e.into_inner()).get(source).cloned();
        let cubin = ready.map_or_else(|| self.cubin(source), Ok)?;
        let module = self.context.load_module(Ptx::from_binary(cubin)).map_err(driver("load kernels"))?;
        Ok(Kernels { module })
    }

    /// Compiles sources side by side on all cores, each once; networks that need them later find them ready. What
    /// does not compile is left to its first use, which has someone to tell.
    pub fn precompile(&self, sources: impl IntoIterator<Item = KernelSource>) {
        let unique: HashSet<KernelSource> = sources.into_iter().collect();
        let waiting = Mutex::new(unique.into_iter());
        let next = || waiting.lock().unwrap_or_else(|e| e.into_inner()).next();
        let work = || {
            while let Some(source) = next() {
                if let Ok(cubin) = self.cubin(&source) {
                    self.precompiled.lock().unwrap_or_else(|e| e.into_inner()).insert(source, cubin);
                }
            }
        };
        thread::scope(|scope| {
            for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
                // A thread that does not start leaves its share to the others, or to the first use.
                let _ = thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work);
            }
        });
    }

    fn cubin(&self, KernelSource { name, text }: &KernelSource) -> Result<Vec<u8>, CudaError> {
        let architecture = self.info.architecture();
        let key = stable_id(&format!("{text}\n-arch={architecture} {:?}", self.info.nvrtc));
        let cached = cache_directory().map(|dir| dir.join(format!("{name}-{key:016x}.cubin")));
        if let Some(cubin) = cached.as_ref().and_then(|path| fs::read(path).ok()) {
            return Ok(cubin);
        }
        let (cubin, _) = compile_text(name, text, &architecture, &[])?;
        if let Some(path) = cached {
            // A cache that cannot be written only costs time.
            let _ = path.parent().map(fs::create_dir_all);
            let _ = write_whole(&path, &cubin);
        }
        Ok(cubin)
    }
}

/// A cubin, and what the compiler says about it.
fn compile_text(
    name: &str,
    text: &str,
    architecture: &str,
    more: &[&str],
) -> Result<(Vec<u8>, String), CudaError> {
    let failed = |log: String| CudaError::Compile { name: name.into(), log };
    let source = CString::new(text).map_err(|e| failed(e.to_string()))?;
    let program = nvrtc::create_program(&source, None).map_err(|e| failed(e.to_string()))?;
    let architecture = format!("-arch={architecture}");
    let options = [&[architecture.as_str(), "-std=c++17", "--extra-device-vectorization"], more].concat();
    // SAFETY: the program was just made and is destroyed at the end.
    let compiled = unsafe { nvrtc::compile_program(program, &options) };
    // SAFETY: the program lives; its log is there whether it was compiled or not.
    let log = unsafe { nvrtc::get_program_log(program) }.unwrap_or_default();
    let log: Vec<u8> = log.iter().map(|&c| c as u8).take_while(|&c| c != 0).collect();
    let log = String::from_utf8_lossy(&log).into_owned();
    let cubin = match compiled {
        // SAFETY: the program has just been compiled.
        Ok(()) => unsafe { cubin_of(program) }.map_err(|e| failed(e.to_string())),
        Err(error) => Err(failed(format!("{error}\n{log}"))),
    };
    // SAFETY: made above, destroyed once.
    let _ = unsafe { nvrtc::destroy_program(program) };
    Ok((cubin?, log))
}

/// # Safety
/// `program` must be a compiled program.
unsafe fn cubin_of(program: sys::nvrtcProgram) -> Result<Vec<u8>, nvrtc::NvrtcError> {
    let mut size = 0;
    // SAFETY: the program is compiled, as promised; one number is written.
    unsafe { sys::nvrtcGetCUBINSize(program, &mut size) }.result()?;
    let mut cubin = vec![0u8; size];
    // SAFETY: the buffer has the size that the library has just said.
    unsafe { sys::nvrtcGetCUBIN(program, cubin.as_mut_ptr().cast()) }.result()?;
    Ok(cubin)
}

/// The cubin cache: `$XDG_CACHE_HOME/iclab/kernels`, or below the home directory.
pub fn cache_directory() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")))?;
    Some(base.join("iclab/kernels"))
}

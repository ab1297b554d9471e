//! What kernels take of a multiprocessor, as the compiler says it. No GPU is needed for that, only NVRTC.

use super::device::DeviceInfo;

/// What one kernel takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelUsage {
    /// Its name.
    pub name: String,
    /// Registers of a thread.
    pub registers: usize,
    /// Bytes of static shared memory of a block.
    pub shared_memory: usize,
    /// Bytes of a thread's stack, which lies in slow local memory.
    pub stack: usize,
    /// Bytes of registers that a thread writes to local memory for want of more.
    pub spills: usize,
}

/// Whether NVRTC is there.
pub fn nvrtc_is_present() -> bool {
    // SAFETY: looks for a library by name.
    unsafe { cudarc::nvrtc::sys::is_culib_present() }
}

/// GPUs of each architecture that kernels are compiled for, by what compiling depends on.
pub fn known_devices() -> Vec<DeviceInfo> {
    let device = |name: &str, capability, multiprocessors, shared_kib: usize| DeviceInfo {
        name: name.into(),
        capability,
        multiprocessors,
        memory: 0,
        shared_memory: shared_kib << 10,
        driver: 13000,
        nvrtc: (13, 0),
        cublaslt: 0,
    };
    vec![
        device("A100", (8, 0), 108, 163),
        device("RTX 3090", (8, 6), 82, 99),
        device("RTX 4090", (8, 9), 128, 99),
        device("H200", (9, 0), 132, 227),
        device("B200", (10, 0), 148, 227),
    ]
}

/// Reads what `ptxas -v` prints: for each kernel its name, then its stack and spills, then its registers and shared memory.
pub(crate) fn parse(log: &str) -> Vec<KernelUsage> {
    let mut found: Vec<KernelUsage> = Vec::new();
    for line in log.lines() {
        if let Some((_, rest)) = line.split_once("Compiling entry function '") {
            let name = rest.split('\'').next().unwrap_or_default().to_string();
            found.push(KernelUsage { name, registers: 0, shared_memory: 0, stack: 0, spills: 0 });
        }
        // Functions that are called and not inlined come after the kernel that calls them.
        let Some(kernel) = found.last_mut() else { continue };
        let before =
            |what: &str| -> Option<usize> { line.split_once(what)?.0.split(' ').next_back()?.parse().ok() };
        kernel.stack += before(" bytes stack frame").unwrap_or(0);
        kernel.spills += before(" bytes spill stores").unwrap_or(0);
        kernel.registers += before(" registers").unwrap_or(0);
        kernel.shared_memory += before(" bytes smem").unwrap_or(0);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_compilers_words_are_understood() {
        let log = "ptxas info    : 0 bytes gmem\n\
                   ptxas info    : Compiling entry function 'first' for 'sm_90a'\n\
                   ptxas info    : Function properties for first\n\
                   ptxas         .     16 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads\n\
                   ptxas info    : Used 234 registers, used 1 barriers, 1024 bytes smem\n\
                   ptxas info    : Compiling entry function 'second' for 'sm_90a'\n\
                   ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n\
                   ptxas info    : Used 20 registers, used 0 barriers\n";
        let kernel = |name: &str, [registers, shared_memory, stack, spills]: [usize; 4]| KernelUsage {
            name: name.into(),
            registers,
            shared_memory,
            stack,
            spills,
        };
        assert_eq!(parse(log), [kernel("first", [234, 1024, 16, 8]), kernel("second", [20, 0, 0, 0])]);
    }
}

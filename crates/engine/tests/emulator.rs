//! Kernels on a CUDA device in software (`crates/engine/emulator`), which watches every access; says `skipped` where that cannot be
//! built. `scripts/sanitize kernels` runs all checks of `iclab doctor` on it.

mod emulated;

use std::sync::Arc;

use emulated::{Emulated, emulated};
use engine::cuda::{self, CudaError, Device, Precision, SampleKernel, checks};

#[test]
fn kernels_compute_what_the_reference_does() {
    let device = match emulated("kernels_compute_what_the_reference_does") {
        Emulated::Device(device) => device,
        Emulated::Said(said) => return print!("{said}"),
        Emulated::Skipped => return,
    };
    // Between them all but the samplers' kernels, those of Hopper included; bf16 has variants that the others do not have.
    let names = [
        "causal softmax",
        "the paper's network",
        "LSTM",
        "LSTM in one launch",
        "same bits part by part",
        // An LSTM among them: its diagonals copy weights before they wait, which the update of the step before must not meet.
        "same bits side by side",
        "one query, heads of 24",
        "activations read and patched",
    ];
    let networks =
        checks::suite(Precision::Bf16).into_iter().filter(|check| names.contains(&check.name.as_str()));
    let in_float =
        checks::suite(Precision::Float32).into_iter().filter(|check| check.name == "causal softmax");
    let chosen: Vec<_> = checks::memory().into_iter().chain(networks).chain(in_float).collect();
    assert_eq!(chosen.len(), names.len() + 2);
    device.precompile(chosen.iter().flat_map(|check| check.kernels(&device.info)));
    for check in chosen {
        let outcome = check.run(&device);
        println!("{}: {:?}, guards of {} buffers intact", check.name, outcome.verdict, outcome.guarded);
        assert!(outcome.verdict.is_ok(), "{}", check.name);
    }
}

/// One kernel, and words one of which must be said of it; none where nothing is wrong. It has two blocks of 128 threads and writes tokens,
/// `[2, 8, 16]`, and targets, `[2, 4]`. `counter` is at the end of targets.
struct Fault {
    name: &'static str,
    body: &'static str,
    said: &'static [&'static str],
}

impl Fault {
    /// Its blocks wait for each other.
    fn cooperative(&self) -> bool {
        self.body.contains("_until(counter")
    }
}

/// Of two threads the one or the other comes first.
const RACE: &[&str] = &["has written it without a barrier between", "may still read it"];

const FAULTS: &[Fault] = &[
    Fault {
        name: "nothing",
        body: "__shared__ float s[128]; s[i] = i; __syncthreads(); tokens[128 * blockIdx.x + i] = s[127 - i];",
        said: &[],
    },
    Fault {
        name: "a missing barrier",
        body: "__shared__ float s[128]; s[i] = i; tokens[128 * blockIdx.x + i] = s[127 - i];",
        said: RACE,
    },
    Fault {
        name: "a missing barrier before the next write",
        body: "__shared__ float s[128]; s[i] = i; __syncthreads(); const float x = s[127 - i]; s[i] = x; \
               tokens[128 * blockIdx.x + i] = x;",
        said: RACE,
    },
    Fault {
        name: "a barrier that some do not reach",
        body: "if (i < 32) __syncthreads(); tokens[128 * blockIdx.x + i] = 0;",
        said: &["threads wait for each other for ever; 32 at barrier 0"],
    },
    Fault {
        name: "lanes that part ways",
        body: "if (i % 32 < 16) __syncwarp(); else targets[0] = __shfl_sync(~0u, i, 0);",
        said: &["lanes of a warp part ways"],
    },
    Fault {
        name: "a write beyond a buffer",
        body: "if (i == 0) targets[8] = 0;",
        said: &["4 bytes are written 32 bytes from the start of an allocation of 32"],
    },
    Fault {
        name: "a read before a buffer",
        body: "if (i == 0) targets[0] = tokens[-1];",
        said: &["4 bytes are read 4 bytes before an allocation"],
    },
    Fault {
        name: "a read beyond shared memory",
        body: "__shared__ float s[128]; s[i] = i; __syncthreads(); tokens[128 * blockIdx.x + i] = s[i + 1];",
        said: &["4 bytes are read at 232960 of shared memory, where 0 are dynamic and 512 static"],
    },
    Fault {
        name: "a vector that is not aligned",
        body: "if (i + blockIdx.x == 0) *reinterpret_cast<float4*>(tokens) = *reinterpret_cast<const float4*>(tokens + 1);",
        said: &["which is not aligned"],
    },
    Fault {
        name: "two blocks at one place",
        body: "tokens[i] = blockIdx.x;",
        said: &["of the same launch has written it"],
    },
    Fault {
        name: "a copy that is not waited for",
        body: "__shared__ __align__(16) float s[128]; if (i < 32) cp_async_16(s + 4 * i, tokens + 4 * i, true); __syncthreads(); \
               targets[4 * blockIdx.x] = s[0];",
        said: &["where an asynchronous copy may not have arrived"],
    },
    Fault { name: "no fault in a wgmma", body: "product<true>(tokens);", said: &[] },
    Fault {
        name: "a wgmma without a proxy fence",
        body: "product<false>(tokens);",
        said: &["thread 0 has written it without a proxy fence"],
    },
    Fault {
        name: "no fault in blocks that wait for each other",
        body: "if (blockIdx.x == 0) { tokens[i] = i; advance(counter); } \
               else { wait_until(counter, 1); tokens[128 + i] = tokens[127 - i]; }",
        said: &[],
    },
    Fault {
        name: "a block that tells too early",
        body: "if (blockIdx.x == 0) { advance(counter); tokens[i] = i; } \
               else { wait_until(counter, 1); tokens[128 + i] = tokens[127 - i]; }",
        said: BLOCKS_RACE,
    },
    Fault {
        name: "a block that tells before all of its threads are there",
        body: "if (blockIdx.x == 0) { tokens[i] = i; if (i == 0) release(counter); } \
               else { wait_until(counter, 1); tokens[128 + i] = tokens[127 - i]; }",
        said: BLOCKS_RACE,
    },
    Fault {
        name: "a block whose threads do not wait for the one that does",
        body: "if (blockIdx.x == 0) { tokens[i] = i; advance(counter); } \
               else { if (i == 0) poll_until(counter, 1); tokens[128 + i] = tokens[127 - i]; }",
        said: BLOCKS_RACE,
    },
    Fault {
        name: "blocks that wait for ever",
        body: "wait_until(counter, 3); advance(counter); tokens[i] = 0;",
        said: &["threads wait for each other for ever"],
    },
];

const BLOCKS_RACE: &[&str] = &["of the same launch has written it", "of the same launch has read it"];

/// A product of ones, of which each block writes 128 sums.
const PRODUCT: &str = "
struct Operand { unsigned short values[128 * 64]; };
template <bool FENCE>
__device__ void product(float* tokens) {
    extern __shared__ __align__(1024) unsigned char unused[];
    __shared__ __align__(1024) Operand both;
    for (int at = threadIdx.x; at < 128 * 64; at += 128) both.values[at] = 0x3f80;
    if (FENCE) fence_async_proxy();
    __syncthreads();
    float d[64];
    wgmma_fence();
    const u32 start = shared_address(both.values);
    wgmma_m64n128k16<0>(d, smem_descriptor(start, 0), smem_descriptor(start, 0), 0);
    wgmma_commit();
    wgmma_wait<0>();
    results_are_there(d);
    tokens[128 * blockIdx.x + threadIdx.x] = d[7] + d[63];
}
";

impl Fault {
    fn run(&self, device: &Arc<Device>) -> Result<Vec<f32>, CudaError> {
        let common = include_str!("../src/cuda/kernels/common.cuh");
        let hopper = include_str!("../src/cuda/kernels/hopper.cuh");
        let progress = include_str!("../src/cuda/kernels/progress.cuh");
        // Of Hopper's kernels some pack bf16, which samplers, in float32, do not have.
        let source = format!(
            "{common}\n__device__ u32 pack2(float, float) {{ return 0; }}\n{hopper}\n{progress}\n{PRODUCT}\n\
             extern \"C\" __global__ void sample(float* tokens, float* targets, const void*, const void*) {{\n\
             const int i = threadIdx.x;\nu32* counter = reinterpret_cast<u32*>(targets + 7);\n{}\n}}\n",
            self.body
        );
        let kernel = SampleKernel { source: &source, threads: 128, cooperative: self.cooperative() };
        Ok(cuda::sample_once(device, kernel, [2, 4, 16], 0, 16)?.0)
    }
}

#[test]
fn faults_of_kernels_are_found() {
    let said = match emulated("faults_of_kernels_are_found") {
        Emulated::Said(said) => said,
        Emulated::Skipped => return,
        Emulated::Device(device) => {
            for fault in FAULTS {
                eprintln!("fault: {}", fault.name);
                let found = fault.run(&device);
                assert_eq!(found.is_ok(), fault.said.is_empty(), "{}: {found:?}", fault.name);
                if let Ok(tokens) = found
                    && fault.name.contains("wgmma")
                {
                    assert_eq!(tokens, [32.0; 256]);
                }
            }
            return;
        }
    };
    let parts: Vec<&str> = said.split("fault: ").skip(1).collect();
    assert_eq!(parts.len(), FAULTS.len());
    for (fault, part) in FAULTS.iter().zip(parts) {
        assert!(part.starts_with(fault.name), "{part}");
        let found = fault.said.is_empty() || fault.said.iter().any(|words| part.contains(words));
        assert!(found, "{}: {part}", fault.name);
        assert_eq!(part.contains("emulated GPU:"), !fault.said.is_empty(), "{}: {part}", fault.name);
    }
}

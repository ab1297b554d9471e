//! Attention: one block per head of a prompt.

use super::{Lowering, Parts, Place};
use crate::cpu::ops::{Attention, Mask, Weighting};
use crate::cuda::Precision;
use crate::cuda::compiler::{ATTENTION, ATTENTION_BACKWARD, COMMON, FRAGMENTS, KernelSource};
use crate::cuda::error::CudaError;
use crate::cuda::product::Kind;
use crate::cuda::program::{Argument, Command, Launch, Work};
use crate::model::plan::Mode;

/// Sizes of the attention kernels, as their source computes them.
struct Sizes {
    /// 16 tokens each, one warp each.
    tiles: usize,
    /// Bytes of one staged operand.
    operand: usize,
    /// Bytes of shared memory that the backward kernel has anyway.
    fixed: usize,
}

impl Sizes {
    fn new(op: &Attention, precision: Precision) -> Self {
        let depth = if precision == Precision::Bf16 { 16 } else { 8 };
        let tiles = op.tokens.div_ceil(16);
        let size = op.size.next_multiple_of(depth);
        let operand = 16 * tiles * (size + 8) * precision.bytes();
        let results = if op.size <= 64 { tiles * 16 * (size + 8) * precision.bytes() } else { 16 * tiles };
        Self { tiles, operand, fixed: 4 * (2 * 16 * tiles + 3 * tiles * size) + results }
    }

    fn staged(&self, mode: Mode, block_memory: usize) -> bool {
        match mode {
            Mode::Train => 4 * self.operand + self.fixed <= block_memory,
            Mode::Infer => 3 * self.operand + self.fixed <= block_memory,
        }
    }
}

/// What the kernels for an operation are compiled from, on a device whose blocks may have so many bytes of shared memory.
pub(super) fn source(
    op: &Attention,
    precision: Precision,
    mode: Mode,
    block_memory: usize,
) -> Result<KernelSource, CudaError> {
    let sizes = Sizes::new(op, precision);
    if !op.size.is_multiple_of(8) || sizes.tiles > 32 {
        return Err(CudaError::Unsupported(format!(
            "heads of size {} over {} tokens; accepted: multiples of 8, up to 512 tokens",
            op.size, op.tokens
        )));
    }
    let defines = [
        ("TOKENS", op.tokens),
        ("HEADS", op.heads),
        ("SIZE", op.size),
        ("CAUSAL", usize::from(op.kind.mask == Mask::Causal)),
        ("WEIGHTING", op.kind.weighting as usize),
        ("STAGED", usize::from(sizes.staged(mode, block_memory))),
    ];
    Ok(KernelSource::new(
        "attention",
        precision,
        &defines,
        &[COMMON, FRAGMENTS, ATTENTION, ATTENTION_BACKWARD],
    ))
}

impl Lowering<'_> {
    fn attention_launch(
        &mut self,
        op: &Attention,
        name: &'static str,
        [operands, warps]: [usize; 2],
        arguments: Vec<Argument>,
    ) -> Result<(), CudaError> {
        let sizes = Sizes::new(op, self.precision);
        let staged = sizes.staged(self.graph.mode, self.device.block_memory);
        if self.attention.is_none() {
            let source = source(op, self.precision, self.graph.mode, self.device.block_memory)?;
            self.attention = Some(self.device.compile(&source)?);
        }
        let shared = if staged { operands * sizes.operand } else { 0 };
        let function = self.attention.as_ref().expect("made above").get(name, shared)?;
        let launch = Launch {
            name,
            function,
            blocks: (op.batch * op.heads) as u32,
            threads: (warps * 32) as u32,
            shared: shared as u32,
            arguments,
            early: true,
        };
        self.commands.push(Command { lane: 0, work: Work::Kernel(launch) });
        Ok(())
    }

    /// Where the logarithms of the softmax's sums go; kept under the variable that holds the weights on the CPU.
    fn log_sums(&mut self, op: &Attention) -> Result<u64, CudaError> {
        let (Some(weights), Weighting::Softmax) = (op.weights, op.kind.weighting) else { return Ok(0) };
        if let Some(place) = self.values[weights.0] {
            return Ok(place.at);
        }
        let len = op.batch * op.heads * op.tokens;
        let at = self.float_buffer(len)?;
        self.values[weights.0] = Some(Place { at, kind: Kind::Float, len });
        Ok(at)
    }

    pub(super) fn attention(&mut self, op: &Attention) -> Result<(), CudaError> {
        let out = self.store(op.out, self.half())?;
        let log_sums = self.log_sums(op)?;
        let arguments = vec![out.into(), log_sums.into(), self.value(op.qkv).into()];
        // A warp takes two tiles.
        let warps = op.tokens.div_ceil(16).div_ceil(2);
        self.attention_launch(op, "attention", [3, warps], arguments)
    }

    pub(super) fn attention_backward(&mut self, op: &Attention) -> Result<(), CudaError> {
        let width = op.heads * op.size;
        let dqkv = self.half_buffer(op.batch * op.tokens * 3 * width)?;
        let at = self.float_buffer(op.batch * 3 * width)?;
        let log_sums = self.log_sums(op)?;
        let dout = self.gradient(op.out);
        let pointers = [dqkv, at, dout, self.value(op.out), self.value(op.qkv), log_sums];
        let warps = op.tokens.div_ceil(16);
        let arguments = pointers.map(Into::into).to_vec();
        self.attention_launch(op, "attention_backward", [4, warps], arguments)?;
        self.bias_parts.insert(op.qkv.0, Parts { at, parts: op.batch, stride: 3 * width });
        self.gradients[op.qkv.0] = Some(dqkv);
        Ok(())
    }
}

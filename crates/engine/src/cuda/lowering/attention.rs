//! Attention: one block per head of a prompt.

use super::{Lowering, Partials};
use crate::cuda::Precision;
use crate::cuda::buffer::{Pointer, StorageBuffer};
use crate::cuda::compiler::KernelSource;
use crate::cuda::error::CudaError;
use crate::cuda::graph::{ABSENT, Argument, Launch, MAIN};
use crate::cuda::kernels;
use crate::model::ops::{Attention, Mask, Weighting};
use crate::model::plan::Mode;

/// Bytes of static shared memory that a kernel may have.
const STATIC: usize = 48 << 10;

/// Shared memory of the attention kernels, as their source computes it.
struct SharedMemory {
    /// Tiles of 16 tokens, one warp each.
    tiles: usize,
    /// Bytes of one staged operand: q, k, v or the gradient of the output.
    operand: usize,
    /// Bytes of static shared memory of the backward kernel.
    fixed: usize,
}

impl SharedMemory {
    fn new(op: &Attention, precision: Precision) -> Self {
        let mma_k = if precision == Precision::Bf16 { 16 } else { 8 };
        let tiles = op.tokens.div_ceil(16);
        let size = op.size.next_multiple_of(mma_k);
        let operand = 16 * tiles * (size + 8) * precision.bytes();
        let outputs = if op.size <= 64 { tiles * 16 * (size + 8) * precision.bytes() } else { 16 * tiles };
        Self { tiles, operand, fixed: 4 * (2 * 16 * tiles + 3 * tiles * size) + outputs }
    }

    /// Whether the operands fit into `available` bytes.
    fn staged(&self, mode: Mode, available: usize) -> bool {
        match mode {
            Mode::Train => 4 * self.operand + self.fixed <= available,
            Mode::Infer => 3 * self.operand + self.fixed <= available,
        }
    }
}

/// What the kernels for an operation are compiled from, on a device whose blocks have `available` bytes of shared memory.
pub(super) fn source(
    op: &Attention,
    precision: Precision,
    mode: Mode,
    available: usize,
) -> Result<KernelSource, CudaError> {
    let shared = SharedMemory::new(op, precision);
    if shared.fixed > STATIC {
        return Err(CudaError::Unsupported(format!(
            "heads of size {} over {} tokens in {}, which need {} KiB of static shared memory; accepted: at most {}",
            op.size,
            op.tokens,
            precision.name(),
            shared.fixed.div_ceil(1 << 10),
            STATIC >> 10
        )));
    }
    if !op.size.is_multiple_of(8) || shared.tiles > 32 {
        return Err(CudaError::Unsupported(format!(
            "heads of size {} over {} tokens; accepted: multiples of 8, up to 512 tokens",
            op.size, op.tokens
        )));
    }
    let defines = [
        ("TOKENS", op.tokens),
        ("HEADS", op.heads),
        ("HEAD_DIM", op.size),
        ("CAUSAL", usize::from(op.kind.mask == Mask::Causal)),
        ("WEIGHTING", op.kind.weighting as usize),
        ("STAGED", usize::from(shared.staged(mode, available))),
    ];
    Ok(KernelSource::new("attention", precision, &defines, kernels::ATTENTION))
}

impl Lowering<'_> {
    fn launch_attention(
        &mut self,
        op: &Attention,
        name: &'static str,
        [operands, warps]: [usize; 2],
        arguments: Vec<Argument>,
    ) -> Result<(), CudaError> {
        let available = self.device.info.shared_memory;
        let shared = SharedMemory::new(op, self.precision);
        let staged = shared.staged(self.graph.mode, available);
        if self.attention.is_none() {
            let source = source(op, self.precision, self.graph.mode, available)?;
            self.attention = Some(self.device.compile(&source)?);
        }
        let kernels = self.attention.as_ref().expect("compiled above");
        let grid = [op.batch * op.heads, warps * 32];
        let shared = if staged { operands * shared.operand } else { 0 };
        let launch = Launch::with_shared(kernels, name, grid, shared, arguments)?;
        self.commands.push(launch.pdl(true).on(MAIN));
        Ok(())
    }

    /// Where the softmax's log-sum-exp goes; kept under the variable that holds the weights on the CPU.
    fn log_sum_exp(&mut self, op: &Attention) -> Result<Pointer, CudaError> {
        let (Some(weights), Weighting::Softmax) = (op.weights, op.kind.weighting) else { return Ok(ABSENT) };
        let len = op.batch * op.heads * op.tokens;
        let buffer = match self.values[weights.0] {
            Some(buffer) => buffer.float()?,
            None => self.float_buffer("attention log-sum-exp", len)?,
        };
        self.values[weights.0] = Some(StorageBuffer::Float(buffer));
        Ok(buffer.pointer(len)?)
    }

    pub(super) fn attention(&mut self, op: &Attention) -> Result<(), CudaError> {
        let all = op.batch * op.tokens * op.heads * op.size;
        let out = self.store("attention z", op.out, self.storage())?.pointer(all)?;
        let lse = self.log_sum_exp(op)?;
        let qkv = self.in_storage(op.qkv)?.pointer(3 * all)?;
        let arguments = vec![out.into(), lse.into(), qkv.into()];
        // A warp takes two tiles.
        let warps = op.tokens.div_ceil(16).div_ceil(2);
        self.launch_attention(op, "attention_forward", [3, warps], arguments)
    }

    pub(super) fn attention_backward(&mut self, op: &Attention) -> Result<(), CudaError> {
        let width = op.heads * op.size;
        let all = op.batch * op.tokens * width;
        let dqkv = self.new_gradient("attention dqkv", op.qkv)?;
        let sums = self.float_buffer("attention partials", op.batch * 3 * width)?;
        let pointers = [
            dqkv.pointer(3 * all)?,
            sums.pointer(op.batch * 3 * width)?,
            self.gradient(op.out).pointer(all)?,
            self.in_storage(op.out)?.pointer(all)?,
            self.in_storage(op.qkv)?.pointer(3 * all)?,
            self.log_sum_exp(op)?,
        ];
        let warps = op.tokens.div_ceil(16);
        let arguments = pointers.map(Into::into).to_vec();
        self.launch_attention(op, "attention_backward", [4, warps], arguments)?;
        self.bias_partials.insert(op.qkv.0, Partials::new(sums, 0, [op.batch, 3 * width])?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ops::AttentionKind;
    use crate::model::plan::Var;

    fn attention(size: usize, tokens: usize) -> Attention {
        let kind = AttentionKind { mask: Mask::Causal, weighting: Weighting::Softmax };
        let [qkv, out] = [Var(0), Var(1)];
        Attention { qkv, weights: None, out, kind, batch: 1, tokens, every: 1, heads: 1, size }
    }

    #[test]
    fn what_would_not_compile_is_refused_in_words() {
        let source =
            |size, tokens, precision| source(&attention(size, tokens), precision, Mode::Train, 227 << 10);
        for (size, tokens) in [(32, 82), (32, 202), (256, 82), (64, 202)] {
            assert!(source(size, tokens, Precision::Bf16).is_ok(), "{size} over {tokens}");
        }
        let refused = |size, tokens, precision| source(size, tokens, precision).unwrap_err().to_string();
        let why = refused(64, 400, Precision::Float32);
        assert!(why.contains("heads of size 64 over 400 tokens in float32, which need 135 KiB"), "{why}");
        assert!(refused(12, 82, Precision::Bf16).contains("multiples of 8"));
        assert!(refused(8, 600, Precision::Bf16).contains("up to 512 tokens"));
    }
}

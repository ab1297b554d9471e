//! One cuBLASLt matmul with its fused epilogue.
//!
//! cuBLASLt is column-major, our buffers are row-major: a row-major `[rows, columns]` buffer is its `columns × rows`
//! matrix. So out = x · w of ours is outᵀ = wᵀ · xᵀ there: its A is w, its B is x.

use std::ffi::c_void;
use std::mem::{MaybeUninit, size_of};
use std::ptr::from_ref;
use std::sync::Arc;

use cudarc::cublaslt::result::{self as lt, CublasError};
use cudarc::cublaslt::sys::{
    self, cublasLtEpilogue_t as Epilogue, cublasLtMatmulAlgo_t as Algorithm,
    cublasLtMatmulDescAttributes_t as Attribute, cublasStatus_t as Status, cudaDataType as Type,
};
use cudarc::driver::CudaStream;

use super::Precision;
use super::algorithm::is_trusted;
use super::buffer::{DType, DeviceBuffer, Pointer, StorageBuffer};
use super::device::Device;
use super::error::{CudaError, blas};
use super::matrix::DeviceMatrix;

/// The library's name of a type.
fn cuda_type(dtype: DType) -> Type {
    match dtype {
        DType::Float => Type::CUDA_R_32F,
        DType::Bf16 => Type::CUDA_R_16BF,
    }
}

/// The epilogue of a matmul out = x · y.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) enum Fused {
    #[default]
    Nothing,
    /// out += bias (a row).
    Bias(StorageBuffer),
    /// pre = x · y + bias; out = gelu(pre).
    Gelu { bias: StorageBuffer, pre: StorageBuffer },
}

/// out = alpha · x · y + beta · c, for a batch of matrices.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms {
    /// Of x · y.
    pub alpha: f32,
    /// A matrix like `out`, and its beta.
    pub c: Option<(StorageBuffer, f32)>,
    /// Matmuls of one shape; of every operand the matrices are equally far apart.
    pub batch: usize,
}

impl Terms {
    /// x · y, plus a matrix where given.
    pub(crate) fn plus(c: Option<StorageBuffer>) -> Self {
        Self { alpha: 1.0, c: c.map(|c| (c, 1.0)), batch: 1 }
    }
}

/// A matmul ready to run: out = alpha · x · y + beta · c.
pub(crate) struct Matmul {
    /// What it is, for profiles.
    pub label: String,
    /// By which the autotune cache knows it.
    key: String,
    device: Arc<Device>,
    description: sys::cublasLtMatmulDesc_t,
    layouts: [sys::cublasLtMatrixLayout_t; 3],
    algorithm: Algorithm,
    /// y, x, c, out: A, B, C and D of cuBLASLt.
    operands: [Pointer; 4],
    /// alpha and beta.
    scales: [f32; 2],
}

// SAFETY: descriptors are plain memory of the library, used by one thread at a time (`&mut` or the owner's lock).
unsafe impl Send for Matmul {}

impl Drop for Matmul {
    fn drop(&mut self) {
        // SAFETY: made by `new`, destroyed once.
        let _ = unsafe { lt::destroy_matmul_desc(self.description) };
        for layout in self.layouts {
            // SAFETY: as above.
            let _ = unsafe { lt::destroy_matrix_layout(layout) };
        }
    }
}

/// Describes `batch` matrices, equally far apart.
fn set_batch(layout: sys::cublasLtMatrixLayout_t, batch: usize, m: &DeviceMatrix) -> Result<(), CublasError> {
    use sys::cublasLtMatrixLayoutAttribute_t as Attribute;
    let (batch, offset) = (batch as i32, m.step() as i64);
    let attribute = Attribute::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT;
    // SAFETY: the layout lives; the attribute is set with the type its documentation names.
    unsafe { lt::set_matrix_layout_attribute(layout, attribute, from_ref(&batch).cast(), size_of::<i32>()) }?;
    let attribute = Attribute::CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET;
    // SAFETY: as above.
    unsafe { lt::set_matrix_layout_attribute(layout, attribute, from_ref(&offset).cast(), size_of::<i64>()) }
}

/// Bytes of cuBLASLt's workspace, one per stream.
pub(crate) const WORKSPACE: usize = 32 << 20;

impl Matmul {
    /// Plans a matmul with the scales and epilogue given, whose operands must lie within their buffers. `None`: the library
    /// does not offer it.
    pub(crate) fn new(
        device: &Arc<Device>,
        precision: Precision,
        out: DeviceMatrix,
        [x, y]: [DeviceMatrix; 2],
        Terms { alpha, c, batch }: Terms,
        fused: Fused,
    ) -> Result<Option<Matmul>, CudaError> {
        let (rows, inner) = x.shape();
        let (inner_too, columns) = y.shape();
        assert_eq!((inner, (rows, columns)), (inner_too, out.shape()), "shapes of a matmul");
        let c_at = match c {
            Some((buffer, _)) => {
                DeviceMatrix { buffer: buffer.of(out.buffer.dtype())?, ..out }.pointer(batch)?
            }
            None => out.pointer(batch)?,
        };
        let operands = [y.pointer(batch)?, x.pointer(batch)?, c_at, out.pointer(batch)?];
        let compute = match precision {
            Precision::Tf32 => sys::cublasComputeType_t::CUBLAS_COMPUTE_32F_FAST_TF32,
            _ => sys::cublasComputeType_t::CUBLAS_COMPUTE_32F,
        };
        let description =
            lt::create_matmul_desc(compute, Type::CUDA_R_32F).map_err(blas("describe a matmul"))?;
        let layout = |m: &DeviceMatrix| {
            let layout = lt::create_matrix_layout(
                cuda_type(m.buffer.dtype()),
                m.columns as u64,
                m.rows as u64,
                m.stride as i64,
            );
            layout
                .and_then(|layout| set_batch(layout, batch, m).map(|()| layout))
                .map_err(blas("describe a matrix"))
        };
        let layouts = [layout(&y)?, layout(&x)?, layout(&out)?];
        let epilogue = format!("{fused:?}");
        let epilogue = epilogue.split(['(', ' ']).next().unwrap_or_default();
        let mut matmul = Matmul {
            label: format!(
                "{rows}x{inner}x{columns} {epilogue}{}{}",
                if c.is_some() { " + residual" } else { "" },
                if batch > 1 { format!(" x{batch}") } else { String::new() }
            ),
            key: String::new(),
            device: device.clone(),
            description,
            layouts,
            // SAFETY: plain numbers; filled in by `tune`.
            algorithm: unsafe { std::mem::zeroed() },
            operands,
            scales: [alpha, c.map_or(0.0, |(_, beta)| beta)],
        };
        matmul.set(Attribute::CUBLASLT_MATMUL_DESC_TRANSA, i32::from(y.transposed))?;
        matmul.set(Attribute::CUBLASLT_MATMUL_DESC_TRANSB, i32::from(x.transposed))?;
        matmul.fuse(fused, out)?;
        let dtypes = [x, y, out].map(|matrix| matrix.buffer.dtype());
        let transposed = [x.transposed, y.transposed];
        matmul.key = format!(
            "{} {} {dtypes:?} {transposed:?} {:?}",
            matmul.label,
            precision.name(),
            matmul.alignments()
        );
        match matmul.tune() {
            Ok(()) => Ok(Some(matmul)),
            Err(CudaError::Blas {
                source: CublasError(Status::CUBLAS_STATUS_NOT_SUPPORTED | Status::CUBLAS_STATUS_INVALID_VALUE),
                ..
            }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn set<T>(&self, attribute: Attribute, value: T) -> Result<(), CudaError> {
        // SAFETY: the description lives; every attribute is set with the type its documentation names.
        unsafe {
            lt::set_matmul_desc_attribute(
                self.description,
                attribute,
                from_ref(&value).cast(),
                size_of::<T>(),
            )
        }
        .map_err(blas("describe a matmul"))
    }

    fn fuse(&self, fused: Fused, out: DeviceMatrix) -> Result<(), CudaError> {
        let dtype = out.buffer.dtype();
        let bias_of = |bias: StorageBuffer| bias.of(dtype)?.pointer(out.columns);
        let epilogue = match fused {
            Fused::Nothing => Epilogue::CUBLASLT_EPILOGUE_DEFAULT,
            Fused::Bias(bias) => {
                self.set(Attribute::CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, cuda_type(dtype))?;
                self.set(Attribute::CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias_of(bias)?)?;
                Epilogue::CUBLASLT_EPILOGUE_BIAS
            }
            Fused::Gelu { bias, pre } => {
                let pre = DeviceMatrix { buffer: pre.of(dtype)?, ..out };
                self.set(Attribute::CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, cuda_type(dtype))?;
                self.set(Attribute::CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias_of(bias)?)?;
                self.set(Attribute::CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, pre.pointer(1)?)?;
                self.set(Attribute::CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, out.stride as i64)?;
                Epilogue::CUBLASLT_EPILOGUE_GELU_AUX_BIAS
            }
        };
        self.set(Attribute::CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue)
    }

    /// The fastest of the library's suggestions, by timing; it is kept in the autotune cache, so that the next run
    /// computes the same bits.
    fn tune(&mut self) -> Result<(), CudaError> {
        // Kept by an earlier version it may be one that is not used any more.
        let known = self.device.autotune.get(&self.key).map(|data| Algorithm { data });
        if let Some(known) = known.filter(is_trusted) {
            self.algorithm = known;
            return Ok(());
        }
        let Some(&fastest) = self.ranked()?.first() else {
            let source = CublasError(Status::CUBLAS_STATUS_NOT_SUPPORTED);
            return Err(CudaError::Blas { action: "choose an algorithm", source });
        };
        self.algorithm = fastest;
        self.device.autotune.insert(&self.key, fastest.data);
        Ok(())
    }

    /// The library's suggestions that run, the fastest first, each timed alone on the device.
    pub(super) fn ranked(&self) -> Result<Vec<Algorithm>, CudaError> {
        let suggestions = self.suggestions().map_err(blas("choose an algorithm"))?;
        self.device.rank(self, &suggestions)
    }

    /// By which the autotune cache knows it.
    pub(super) fn key(&self) -> &str {
        &self.key
    }

    pub(super) fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    pub(super) fn set_algorithm(&mut self, algorithm: Algorithm) {
        self.algorithm = algorithm;
    }

    /// Algorithms that the library suggests, the most promising first.
    fn suggestions(&self) -> Result<Vec<Algorithm>, CublasError> {
        use sys::cublasLtMatmulPreferenceAttributes_t as Preference;
        const MOST: usize = 24;
        let preference = Preferred::new()?;
        preference.set(Preference::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, WORKSPACE)?;
        let alignments = [
            Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
            Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
            Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
            Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
        ];
        for (attribute, alignment) in alignments.into_iter().zip(self.alignments()) {
            preference.set(attribute, alignment)?;
        }
        let [a, b, out] = self.layouts;
        let mut found = [const { MaybeUninit::<sys::cublasLtMatmulHeuristicResult_t>::uninit() }; MOST];
        let mut count = 0;
        // SAFETY: all descriptors live; `found` has room for the results asked for.
        let status = unsafe {
            sys::cublasLtMatmulAlgoGetHeuristic(
                self.device.blas,
                self.description,
                a,
                b,
                out,
                out,
                preference.0,
                MOST as i32,
                found.as_mut_ptr().cast(),
                &mut count,
            )
        };
        status.result()?;
        // SAFETY: the library has written the first `count` results.
        let found = found[..count as usize].iter().map(|result| unsafe { result.assume_init_ref() });
        let usable = found.filter(|result| result.state == Status::CUBLAS_STATUS_SUCCESS);
        Ok(usable.map(|result| result.algo).filter(is_trusted).collect())
    }

    /// Of y, x, c and out: bytes that each pointer is a multiple of, up to 256.
    fn alignments(&self) -> [u32; 4] {
        self.operands.map(|pointer| 1 << pointer.trailing_zeros().min(8))
    }

    /// Enqueues the matmul on a stream.
    pub(crate) fn enqueue(&self, stream: &CudaStream, workspace: DeviceBuffer<u8>) -> Result<(), CudaError> {
        self.enqueue_by(&self.algorithm, stream, workspace)
    }

    /// The same by an algorithm of its own.
    pub(super) fn enqueue_by(
        &self,
        algorithm: &Algorithm,
        stream: &CudaStream,
        workspace: DeviceBuffer<u8>,
    ) -> Result<(), CudaError> {
        let workspace = workspace.pointer(WORKSPACE)?;
        let [alpha, beta] = &self.scales;
        let [y, x, c, out] = self.operands;
        let [a, b, layout] = self.layouts;
        // SAFETY: `new` has checked the buffers against the sizes described; they live as long as the commands.
        unsafe {
            lt::matmul(
                self.device.blas,
                self.description,
                from_ref(alpha).cast(),
                from_ref(beta).cast(),
                y as *const c_void,
                a,
                x as *const c_void,
                b,
                c as *const c_void,
                layout,
                out as *mut c_void,
                layout,
                algorithm,
                workspace as *mut c_void,
                WORKSPACE,
                stream.cu_stream().cast(),
            )
        }
        .map_err(blas("multiply"))
    }
}

/// What an algorithm must keep to.
struct Preferred(sys::cublasLtMatmulPreference_t);

impl Preferred {
    fn new() -> Result<Preferred, CublasError> {
        lt::create_matmul_pref().map(Preferred)
    }

    fn set<T>(
        &self,
        attribute: sys::cublasLtMatmulPreferenceAttributes_t,
        value: T,
    ) -> Result<(), CublasError> {
        // SAFETY: the preference lives; every attribute is set with the type its documentation names.
        unsafe { lt::set_matmul_pref_attribute(self.0, attribute, from_ref(&value).cast(), size_of::<T>()) }
    }
}

impl Drop for Preferred {
    fn drop(&mut self) {
        // SAFETY: made by `new`, destroyed once.
        let _ = unsafe { lt::destroy_matmul_pref(self.0) };
    }
}

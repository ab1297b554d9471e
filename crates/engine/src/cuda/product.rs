//! One cuBLASLt product, with what is fused behind it.
//!
//! cuBLASLt counts columns first, our buffers rows first: a row-major `[rows, columns]` buffer is its `columns × rows`
//! matrix. So the product out = x · w of ours is wᵀ-major there: left is w, right is x.

use std::ffi::c_void;
use std::mem::{MaybeUninit, size_of};
use std::ptr::from_ref;
use std::sync::Arc;

use cudarc::cublaslt::result::{self as lt, CublasError};
use cudarc::cublaslt::sys::{
    self, cublasLtEpilogue_t as Tail, cublasLtMatmulDescAttributes_t as Attribute, cublasStatus_t as Status,
    cudaDataType as Type,
};
use cudarc::driver::CudaStream;

use super::Precision;
use super::device::{Device, Pointer};
use super::error::{CudaError, blas};

/// How a buffer's numbers are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Float,
    Bf16,
}

impl Kind {
    /// How activations are stored at a precision.
    pub(crate) fn half(precision: Precision) -> Self {
        if precision == Precision::Bf16 { Kind::Bf16 } else { Kind::Float }
    }

    fn cuda(self) -> Type {
        match self {
            Kind::Float => Type::CUDA_R_32F,
            Kind::Bf16 => Type::CUDA_R_16BF,
        }
    }
}

/// A row-major matrix in device memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Matrix {
    pub at: Pointer,
    pub kind: Kind,
    pub rows: usize,
    pub columns: usize,
    /// Values between the starts of two rows.
    pub stride: usize,
    pub transposed: bool,
}

impl Matrix {
    pub(crate) fn new(at: Pointer, kind: Kind, rows: usize, columns: usize) -> Self {
        Self { at, kind, rows, columns, stride: columns, transposed: false }
    }

    /// The transposed view.
    pub(crate) fn t(self) -> Self {
        Self { transposed: !self.transposed, ..self }
    }

    /// Rows and columns of the view.
    fn shape(&self) -> (usize, usize) {
        if self.transposed { (self.columns, self.rows) } else { (self.rows, self.columns) }
    }
}

/// What follows a product out = x · y.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) enum Fused {
    #[default]
    Nothing,
    /// out += bias (a row).
    Bias(Pointer),
    /// before = x · y + bias; out = gelu(before).
    Gelu { bias: Pointer, before: Pointer },
}

/// Factors of a product and of what is added to it, and how many such products lie one after the other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms {
    /// Of x · y.
    pub factor: f32,
    /// A matrix like `out`, and its factor.
    pub added: Option<(Pointer, f32)>,
    /// Products of one shape, every operand dense and stacked.
    pub count: usize,
}

impl Terms {
    /// x · y, plus a matrix where given.
    pub(crate) fn plus(added: Option<Pointer>) -> Self {
        Self { factor: 1.0, added: added.map(|added| (added, 1.0)), count: 1 }
    }
}

/// A product ready to run: out = factor · x · y (+ its factor · added).
pub(crate) struct Product {
    /// What it is, for profiles.
    pub label: String,
    device: Arc<Device>,
    description: sys::cublasLtMatmulDesc_t,
    layouts: [sys::cublasLtMatrixLayout_t; 3],
    algorithm: sys::cublasLtMatmulAlgo_t,
    /// y, x, added, out, in cuBLASLt's order.
    operands: [Pointer; 4],
    /// Factors of x · y and of what is added.
    factors: [f32; 2],
}

// SAFETY: descriptors are plain memory of the library, used by one thread at a time (`&mut` or the owner's lock).
unsafe impl Send for Product {}

impl Drop for Product {
    fn drop(&mut self) {
        // SAFETY: made by `new`, destroyed once.
        unsafe {
            let _ = lt::destroy_matmul_desc(self.description);
            for layout in self.layouts {
                let _ = lt::destroy_matrix_layout(layout);
            }
        }
    }
}

/// Describes `count` matrices one after the other.
fn stack(layout: sys::cublasLtMatrixLayout_t, count: usize, m: &Matrix) -> Result<(), CublasError> {
    use sys::cublasLtMatrixLayoutAttribute_t as Attribute;
    let (count, apart) = (count as i32, (m.rows * m.stride) as i64);
    // SAFETY: the layout lives; both attributes are set with the types their documentation names.
    unsafe {
        let attribute = Attribute::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT;
        lt::set_matrix_layout_attribute(layout, attribute, from_ref(&count).cast(), size_of::<i32>())?;
        let attribute = Attribute::CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET;
        lt::set_matrix_layout_attribute(layout, attribute, from_ref(&apart).cast(), size_of::<i64>())
    }
}

/// Scratch space per lane that cuBLASLt may use, in bytes.
pub(crate) const WORKSPACE: usize = 32 << 20;

impl Product {
    /// Plans out = x · y with factors and sums as `terms` say. `None`: the library has no such product.
    pub(crate) fn new(
        device: &Arc<Device>,
        precision: Precision,
        out: Matrix,
        [x, y]: [Matrix; 2],
        Terms { factor, added, count }: Terms,
        fused: Fused,
    ) -> Result<Option<Product>, CudaError> {
        let (rows, inner) = x.shape();
        let (inner_too, columns) = y.shape();
        assert_eq!((inner, (rows, columns)), (inner_too, out.shape()), "shapes of a product");
        let compute = match precision {
            Precision::Tf32 => sys::cublasComputeType_t::CUBLAS_COMPUTE_32F_FAST_TF32,
            _ => sys::cublasComputeType_t::CUBLAS_COMPUTE_32F,
        };
        let description =
            lt::create_matmul_desc(compute, Type::CUDA_R_32F).map_err(blas("describe a product"))?;
        let layout = |m: &Matrix| {
            let layout =
                lt::create_matrix_layout(m.kind.cuda(), m.columns as u64, m.rows as u64, m.stride as i64);
            layout
                .and_then(|layout| stack(layout, count, m).map(|()| layout))
                .map_err(blas("describe a matrix"))
        };
        let layouts = [layout(&y)?, layout(&x)?, layout(&out)?];
        let tail = format!("{fused:?}");
        let tail = tail.split(['(', ' ']).next().unwrap_or_default();
        let mut product = Product {
            label: format!(
                "{rows}x{inner}x{columns} {tail}{}{}",
                if added.is_some() { " + residual" } else { "" },
                if count > 1 { format!(" x{count}") } else { String::new() }
            ),
            device: device.clone(),
            description,
            layouts,
            // SAFETY: plain numbers; filled in by `choose`.
            algorithm: unsafe { std::mem::zeroed() },
            operands: [y.at, x.at, added.map_or(out.at, |(added, _)| added), out.at],
            factors: [factor, added.map_or(0.0, |(_, factor)| factor)],
        };
        product.set(Attribute::CUBLASLT_MATMUL_DESC_TRANSA, i32::from(y.transposed))?;
        product.set(Attribute::CUBLASLT_MATMUL_DESC_TRANSB, i32::from(x.transposed))?;
        product.fuse(fused, out)?;
        let kinds = [x.kind, y.kind, out.kind];
        let turns = [x.transposed, y.transposed];
        let key =
            format!("{} {} {kinds:?} {turns:?} {:?}", product.label, precision.name(), product.alignments());
        match product.choose(&key) {
            Ok(()) => Ok(Some(product)),
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
        .map_err(blas("describe a product"))
    }

    fn fuse(&self, fused: Fused, out: Matrix) -> Result<(), CudaError> {
        let tail = match fused {
            Fused::Nothing => Tail::CUBLASLT_EPILOGUE_DEFAULT,
            Fused::Bias(pointer) => {
                self.set(Attribute::CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, out.kind.cuda())?;
                self.set(Attribute::CUBLASLT_MATMUL_DESC_BIAS_POINTER, pointer)?;
                Tail::CUBLASLT_EPILOGUE_BIAS
            }
            Fused::Gelu { bias, before } => {
                self.set(Attribute::CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, out.kind.cuda())?;
                self.set(Attribute::CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias)?;
                self.set(Attribute::CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, before)?;
                self.set(Attribute::CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, out.stride as i64)?;
                Tail::CUBLASLT_EPILOGUE_GELU_AUX_BIAS
            }
        };
        self.set(Attribute::CUBLASLT_MATMUL_DESC_EPILOGUE, tail)
    }

    /// The fastest of the library's suggestions, found by trying them; the choice is kept, so that the next run
    /// computes the same bits.
    fn choose(&mut self, key: &str) -> Result<(), CudaError> {
        if let Some(algorithm) = self.device.choices.get(key) {
            self.algorithm = sys::cublasLtMatmulAlgo_t { data: algorithm };
            return Ok(());
        }
        let suggestions = self.suggestions().map_err(blas("choose an algorithm"))?;
        let mut best = (f32::INFINITY, None);
        for algorithm in suggestions {
            self.algorithm = algorithm;
            // What the library suggests it may still refuse.
            if let Ok(time) = self.device.time_product(self)
                && time < best.0
            {
                best = (time, Some(algorithm));
            }
        }
        let Some(algorithm) = best.1 else {
            let source = CublasError(Status::CUBLAS_STATUS_NOT_SUPPORTED);
            return Err(CudaError::Blas { action: "choose an algorithm", source });
        };
        self.algorithm = algorithm;
        self.device.choices.keep(key, algorithm.data);
        Ok(())
    }

    /// Algorithms that the library suggests, the most promising first.
    fn suggestions(&self) -> Result<Vec<sys::cublasLtMatmulAlgo_t>, CublasError> {
        use sys::cublasLtMatmulPreferenceAttributes_t as Preference;
        const MOST: usize = 16;
        let preference = lt::create_matmul_pref()?;
        let [left, right, out] = self.layouts;
        let mut found = [const { MaybeUninit::<sys::cublasLtMatmulHeuristicResult_t>::uninit() }; MOST];
        let mut count = 0;
        // SAFETY: all descriptors live; `found` has room for the results asked for.
        let status = unsafe {
            let bytes = WORKSPACE;
            let workspace = Preference::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
            lt::set_matmul_pref_attribute(
                preference,
                workspace,
                from_ref(&bytes).cast(),
                size_of::<usize>(),
            )?;
            let alignments = [
                Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
                Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
                Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
            ];
            for (attribute, alignment) in alignments.into_iter().zip(self.alignments()) {
                let size = size_of::<u32>();
                lt::set_matmul_pref_attribute(preference, attribute, from_ref(&alignment).cast(), size)?;
            }
            let status = sys::cublasLtMatmulAlgoGetHeuristic(
                self.device.blas,
                self.description,
                left,
                right,
                out,
                out,
                preference,
                MOST as i32,
                found[0].as_mut_ptr(),
                &mut count,
            );
            let _ = lt::destroy_matmul_pref(preference);
            status
        };
        status.result()?;
        // SAFETY: the library has written the first `count` results.
        let found = found[..count as usize].iter().map(|result| unsafe { result.assume_init_ref() });
        let usable = found.filter(|result| result.state == Status::CUBLAS_STATUS_SUCCESS);
        Ok(usable.map(|result| result.algo).collect())
    }

    /// Of y, x, added and out: bytes that each pointer is a multiple of, up to 256.
    fn alignments(&self) -> [u32; 4] {
        self.operands.map(|pointer| 1 << pointer.trailing_zeros().min(8))
    }

    /// Gives the product to a stream.
    pub(crate) fn issue(&self, stream: &CudaStream, workspace: Pointer) -> Result<(), CudaError> {
        let [alpha, beta] = &self.factors;
        let [y, x, added, out] = self.operands;
        let [left, right, layout] = self.layouts;
        // SAFETY: the pointers are buffers of the sizes described, which live as long as the program.
        unsafe {
            lt::matmul(
                self.device.blas,
                self.description,
                from_ref(alpha).cast(),
                from_ref(beta).cast(),
                y as *const c_void,
                left,
                x as *const c_void,
                right,
                added as *const c_void,
                layout,
                out as *mut c_void,
                layout,
                &self.algorithm,
                workspace as *mut c_void,
                WORKSPACE,
                stream.cu_stream().cast(),
            )
        }
        .map_err(blas("multiply"))
    }
}

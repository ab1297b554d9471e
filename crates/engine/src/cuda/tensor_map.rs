//! Matrices in device memory as Hopper's bulk tensor copy engine sees them.

use std::ffi::c_void;

use cudarc::driver::sys::{self, CUtensorMap};

use super::buffer::{DType, StorageBuffer};
use super::error::{CudaError, driver};

/// A description of a matrix in bf16, which a kernel takes as `const __grid_constant__ TensorMap`.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub(crate) struct TensorMap(CUtensorMap);

/// Columns of a box: a row of it is 128 bytes, which the engine swizzles.
const BOX_COLUMNS: u32 = 64;

impl TensorMap {
    /// A matrix `[rows, columns]`, copied in boxes of `box_rows` rows and 64 columns; what lies beyond it is 0.
    pub(crate) fn new(
        matrix: StorageBuffer,
        [rows, columns]: [usize; 2],
        box_rows: usize,
    ) -> Result<TensorMap, CudaError> {
        let address = matrix.of(DType::Bf16)?.pointer(rows * columns)?;
        let mut map = CUtensorMap { opaque: [0; 16] };
        let sizes = [columns as u64, rows as u64];
        let (stride, boxes, steps) = ([2 * columns as u64], [BOX_COLUMNS, box_rows as u32], [1, 1]);
        // SAFETY: all arrays have the length of the rank, 2; strides have one less. The address is not read here, and a
        // copy reads the matrix alone, which lies in its buffer.
        unsafe {
            sys::cuTensorMapEncodeTiled(
                &mut map,
                sys::CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
                2,
                address as *mut c_void,
                sizes.as_ptr(),
                stride.as_ptr(),
                boxes.as_ptr(),
                steps.as_ptr(),
                sys::CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
                sys::CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_128B,
                sys::CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                sys::CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
            )
        }
        .result()
        .map_err(driver("describe a matrix"))?;
        Ok(TensorMap(map))
    }
}

//! Algorithms of cuBLASLt, and which of them are never used.

use cudarc::cublaslt::sys::{
    self, cublasLtClusterShape_t as Cluster, cublasLtMatmulAlgo_t as Algorithm,
    cublasLtMatmulAlgoConfigAttributes_t as Attribute,
};

/// Whether an algorithm may be used.
///
/// Those with thread block clusters of 2 × 4 end in launch failures on an H200 (cuBLASLt 13.0, driver 580), after some hundred
/// steps, when they add a residual in float32: 29 of 51 trainings of 200 steps with such a matmul among algorithms drawn at random,
/// 1 of 70 without. The library suggests faster ones before them, so that they are chosen only where others use the device meanwhile.
pub(super) fn is_trusted(algorithm: &Algorithm) -> bool {
    cluster(algorithm) != Cluster::CUBLASLT_CLUSTER_SHAPE_2x4x1 as u16
}

/// The number of its cluster shape; 0 where the library does not say.
fn cluster(algorithm: &Algorithm) -> u16 {
    let (mut shape, mut written) = (0_u16, 0);
    // SAFETY: the algorithm lives; a cluster shape has two bytes, and as many are said to be there.
    let status = unsafe {
        sys::cublasLtMatmulAlgoConfigGetAttribute(
            algorithm,
            Attribute::CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID,
            (&raw mut shape).cast(),
            size_of::<u16>(),
            &mut written,
        )
    };
    if status == sys::cublasStatus_t::CUBLAS_STATUS_SUCCESS { shape } else { 0 }
}

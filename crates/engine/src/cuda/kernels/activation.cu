// GELU and ReLU where the matmul cannot apply them, and their backward pass with the bias gradient; follows gelu.cuh.

__device__ __forceinline__ float activation(float z, int kind) {
    if (kind == 1) return fmaxf(z, 0.0f);
    return 0.5f * z * (1.0f + tanh_of(GELU_SCALE * (z + GELU_CUBIC * z * z * z)));
}

__device__ __forceinline__ float activation_derivative(float z, int kind) {
    if (kind == 1) return z > 0.0f ? 1.0f : 0.0f;
    const float t = tanh_of(GELU_SCALE * (z + GELU_CUBIC * z * z * z));
    return 0.5f * (1.0f + t) + 0.5f * z * (1.0f - t * t) * GELU_SCALE * (1.0f + 3.0f * GELU_CUBIC * z * z);
}

// kind 0: GELU; 1: ReLU.
extern "C" __global__ void activate(storage_t* out, const storage_t* pre, u64 count, int kind) {
    pdl_wait();
    const u64 stride = (u64)VEC * gridDim.x * blockDim.x;
    for (u64 i = VEC * ((u64)blockIdx.x * blockDim.x + threadIdx.x); i < count; i += stride) {
        Vec v = load_vec(pre + i);
#pragma unroll
        for (int k = 0; k < VEC; ++k) v.x[k] = activation(v.x[k], kind);
        store_vec(out + i, v);
    }
}

// d *= activation'(pre), in place, and partials[block, c] = Σ over the block's rows of the result: the gradient of the
// bias that was added before the activation. kind 2: no activation, only the sums. The block's threads are as many rows of
// threads as fit over the columns.
extern "C" __global__ void __launch_bounds__(256)
    activate_backward(storage_t* d, float* partials, const storage_t* pre, int rows, int columns, int rows_per_block,
                      int kind) {
    pdl_wait();
    __shared__ float4 sums[256 * VEC / 4];
    const int across = columns / VEC, down = max(1, (int)blockDim.x / across);
    const int first = blockIdx.x * rows_per_block + (int)threadIdx.x / across;
    const int end = min(rows, (int)(blockIdx.x + 1) * rows_per_block);
    // With more columns than threads, threads walk over them; then there is one row of threads.
    for (int c = VEC * (down > 1 ? threadIdx.x % across : threadIdx.x); c < columns; c += VEC * blockDim.x) {
        Vec sum;
#pragma unroll
        for (int k = 0; k < VEC; ++k) sum.x[k] = 0;
        if (down == 1 || (int)threadIdx.x < across * down) {
#pragma unroll 4
            for (int row = down > 1 ? first : blockIdx.x * rows_per_block; row < end; row += down) {
                const u64 at = (u64)row * columns + c;
                Vec g = load_vec(d + at);
                if (kind < 2) {
                    const Vec z = load_vec(pre + at);
#pragma unroll
                    for (int k = 0; k < VEC; ++k) g.x[k] *= activation_derivative(z.x[k], kind);
                    store_vec(d + at, g);
                }
#pragma unroll
                for (int k = 0; k < VEC; ++k) sum.x[k] += g.x[k];
            }
        }
        if (down > 1) {
#pragma unroll
            for (int k = 0; k < VEC / 4; ++k)
                sums[k * 256 + threadIdx.x] = make_float4(sum.x[4 * k], sum.x[4 * k + 1], sum.x[4 * k + 2], sum.x[4 * k + 3]);
            __syncthreads();
            if ((int)threadIdx.x >= across) return;
            for (int other = 1; other < down; ++other)
#pragma unroll
                for (int k = 0; k < VEC; ++k) sum.x[k] += (&sums[k / 4 * 256 + threadIdx.x + other * across].x)[k % 4];
        }
#pragma unroll
        for (int k = 0; k < VEC; k += 4)
            store4(partials + (u64)blockIdx.x * columns + c + k,
                   make_float4(sum.x[k], sum.x[k + 1], sum.x[k + 2], sum.x[k + 3]));
        if (down > 1) return;
    }
}

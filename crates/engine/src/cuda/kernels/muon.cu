// Muon: momentum of every matrix as a stack for the batched Newton–Schulz products, and the update from their result.
// Follows adam.cu in the same program.

// A block of a weight matrix: where it lies in the flat buffers, and where in the stack (dense there).
struct MatrixBlock {
    u64 flat, stacked;
    int rows, columns, stride;
    float scale;
};

// Thread blocks that share one matrix block, each a slice of it.
#define BLOCKS_PER_MATRIX 16

#define FOR_EACH_VECTOR(block, i)                                                         \
    const MatrixBlock block = table[blockIdx.x / BLOCKS_PER_MATRIX];                      \
    const int slice = blockIdx.x % BLOCKS_PER_MATRIX, count = block.rows * block.columns; \
    for (int i = 4 * (slice * THREADS + threadIdx.x); i < count; i += 4 * BLOCKS_PER_MATRIX * THREADS)

__device__ __forceinline__ u64 flat_index(const MatrixBlock& block, int i) {
    return block.flat + (u64)(i / block.columns) * block.stride + i % block.columns;
}

// stacked = Nesterov momentum; squares[slice] = the slice's sum of squares
extern "C" __global__ void __launch_bounds__(THREADS)
    muon_momentum(const MatrixBlock* table, float* mean, storage_t* stacked, float* squares, const float* grads,
                  const float2* results, const Progress* progress, float clip, float momentum) {
    if (!is_pending(progress)) return;
    const float factor = clip_factor(clip, pending_norm(progress, results));
    float sum = 0;
    FOR_EACH_VECTOR(block, i) {
        const u64 at = flat_index(block, i);
        float4 m4 = load4(mean + at), g4 = load4(grads + at), u4;
        float *m = &m4.x, *g = &g4.x, *u = &u4.x;
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            const float d = g[k] * factor;
            m[k] += (1.0f - momentum) * (d - m[k]);
            u[k] = (1.0f - momentum) * d + momentum * m[k];
            sum += u[k] * u[k];
        }
        store4(mean + at, m4);
        store4(stacked + block.stacked + i, u4);
    }
    __shared__ float warp_sums[THREADS / WARP];
    sum = warp_sum(sum);
    if (threadIdx.x % WARP == 0) warp_sums[threadIdx.x / WARP] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < THREADS / WARP; ++w) sum += warp_sums[w];
        squares[blockIdx.x] = sum;
    }
}

// Each block of the stack divided by its norm.
extern "C" __global__ void __launch_bounds__(THREADS)
    muon_normalise(const MatrixBlock* table, storage_t* stacked, const float* squares, float epsilon) {
    float sum = 0;
    for (int s = 0; s < BLOCKS_PER_MATRIX; ++s) sum += squares[blockIdx.x / BLOCKS_PER_MATRIX * BLOCKS_PER_MATRIX + s];
    const float factor = 1.0f / (sqrtf(sum) + epsilon);
    FOR_EACH_VECTOR(block, i) {
        storage_t* at = stacked + block.stacked + i;
        const float4 v = load4(at);
        store4(at, make_float4(v.x * factor, v.y * factor, v.z * factor, v.w * factor));
    }
}

// params −= rate · scale · stacked
extern "C" __global__ void __launch_bounds__(THREADS)
    muon_update(const MatrixBlock* table, float* params, storage_t* rounded, const storage_t* stacked, const ScheduleRow* rows,
                const Progress* progress) {
    if (!is_pending(progress)) return;
    const float plain_rate = pending_row(progress, rows).plain_rate;
    FOR_EACH_VECTOR(block, i) {
        const u64 at = flat_index(block, i);
        const float rate = plain_rate * block.scale;
        const float4 p = load4(params + at), u = load4(stacked + block.stacked + i);
        const float4 moved = make_float4(p.x - rate * u.x, p.y - rate * u.y, p.z - rate * u.z, p.w - rate * u.w);
        store4(params + at, moved);
        if (rounded) store4(rounded + at, moved);
    }
}

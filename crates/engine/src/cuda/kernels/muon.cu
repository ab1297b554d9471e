// Muon: momentum of every matrix as a stack for the batched Newton–Schulz products, and the update from their result.
// Follows adam.cu in the same program.

// A block of a weight matrix: where it lies in the flat buffers, and where in the stack (dense there).
struct Block {
    u64 flat, stacked;
    int rows, columns, stride;
    float scale;
};

// Thread blocks that share one matrix block.
#define SHARES 16

#define FOR_EACH_GROUP(block, i)                                                                   \
    const Block block = table[blockIdx.x / SHARES];                                                \
    const int share = blockIdx.x % SHARES, count = block.rows * block.columns;                     \
    for (int i = 4 * (share * NORM_THREADS + threadIdx.x); i < count; i += 4 * SHARES * NORM_THREADS)

__device__ __forceinline__ u64 flat_place(const Block& block, int i) {
    return block.flat + (u64)(i / block.columns) * block.stride + i % block.columns;
}

// stacked = Nesterov's look ahead; squares[share] = the share's sum of squares
extern "C" __global__ void __launch_bounds__(NORM_THREADS)
    muon_momentum(const Block* table, float* mean, half_t* stacked, float* squares, const float* grads, const double* parts,
                  int part_count, const float* loss, const Progress* progress, float clip, float momentum) {
    const float norm = norm_of(parts, part_count);
    if (progress->halted || !finite(norm) || !finite(*loss)) return;
    const float factor = clip > 0 ? fminf(clip / (norm + 1e-6f), 1.0f) : 1.0f;
    float sum = 0;
    FOR_EACH_GROUP(block, i) {
        const u64 at = flat_place(block, i);
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
    __shared__ float lanes[NORM_THREADS / WARP];
    sum = warp_sum(sum);
    if (threadIdx.x % WARP == 0) lanes[threadIdx.x / WARP] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < NORM_THREADS / WARP; ++w) sum += lanes[w];
        squares[blockIdx.x] = sum;
    }
}

// Each block of the stack divided by its norm.
extern "C" __global__ void __launch_bounds__(NORM_THREADS)
    muon_normalise(const Block* table, half_t* stacked, const float* squares, float epsilon) {
    float sum = 0;
    for (int s = 0; s < SHARES; ++s) sum += squares[blockIdx.x / SHARES * SHARES + s];
    const float factor = 1.0f / (sqrtf(sum) + epsilon);
    FOR_EACH_GROUP(block, i) {
        half_t* at = stacked + block.stacked + i;
        const float4 v = load4(at);
        store4(at, make_float4(v.x * factor, v.y * factor, v.z * factor, v.w * factor));
    }
}

// params −= rate · scale · stacked
extern "C" __global__ void __launch_bounds__(NORM_THREADS)
    muon_update(const Block* table, float* params, half_t* rounded, const half_t* stacked, const double* parts, int part_count,
                const float* loss, const StepRow* rows, const Progress* progress) {
    const float norm = norm_of(parts, part_count);
    if (progress->halted || !finite(norm) || !finite(*loss)) return;
    const float plain = rows[progress->step - progress->first].plain;
    FOR_EACH_GROUP(block, i) {
        const u64 at = flat_place(block, i);
        const float rate = plain * block.scale;
        const float4 p = load4(params + at), u = load4(stacked + block.stacked + i);
        const float4 moved = make_float4(p.x - rate * u.x, p.y - rate * u.y, p.z - rate * u.z, p.w - rate * u.w);
        store4(params + at, moved);
        if (rounded) store4(rounded + at, moved);
    }
}

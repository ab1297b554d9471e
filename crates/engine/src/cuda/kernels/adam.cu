// Clipping by the global norm and Adam, with the schedule in a table: nothing of a step needs the host.

// One step of the schedule: the rate with Adam's bias correction of the mean in it, the bias correction of the root, and the
// rate as it is.
struct ScheduleRow {
    float rate, root_correction;
    int dims;
    float plain_rate;
};

// A chunk of at most 4 × THREADS values of the flat buffers.
struct Chunk {
    u64 first;
    u64 count;
};

// Where training stands; `halted` is set when a loss or gradient was not finite, and nothing moves any more.
struct Progress {
    u64 step, first, halted;
};

#define THREADS 256
// Vectors of four that a thread loads at once, and whose squares it adds in float.
#define VECTORS_AT_ONCE 12

// The sum over the block's threads, by a fixed tree.
__device__ __forceinline__ double block_sum(double value) {
    __shared__ double sums[THREADS];
    sums[threadIdx.x] = value;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
        __syncthreads();
    }
    return sums[0];
}

// norm_partials[block] = Σ grads² over the block's slice. There are two blocks to a multiprocessor, which ptxas is to know: it
// would save registers for more.
extern "C" __global__ void __launch_bounds__(THREADS, 2)
    grad_norm_partials(double* norm_partials, const float* grads, u64 count) {
    const u64 slice = (count + 4ull * gridDim.x - 1) / (4ull * gridDim.x) * 4;
    const u64 first = slice * blockIdx.x, end = min(count, first + slice);
    double total = 0;
    // The buffer is rounded up to whole vectors with zeros (`whole_vectors` of the host).
    for (u64 i = first + 4 * threadIdx.x; i < end; i += VECTORS_AT_ONCE * 4 * THREADS) {
        float4 g[VECTORS_AT_ONCE];
#pragma unroll
        for (int n = 0; n < VECTORS_AT_ONCE; ++n) {
            const u64 at = i + n * 4 * THREADS;
            g[n] = at < end ? load4(grads + at) : make_float4(0, 0, 0, 0);
        }
        float sum = 0;
#pragma unroll
        for (int n = 0; n < VECTORS_AT_ONCE; ++n)
            sum += (g[n].x * g[n].x + g[n].y * g[n].y) + (g[n].z * g[n].z + g[n].w * g[n].w);
        total += sum;
    }
    total = block_sum(total);
    if (threadIdx.x == 0) norm_partials[blockIdx.x] = total;
}

// The gradient norm.
__device__ __forceinline__ float grad_norm(const double* norm_partials, int count) {
    double sum = 0;
    for (int i = threadIdx.x; i < count; i += THREADS) sum += norm_partials[i];
    return (float)sqrt(block_sum(sum));
}

__device__ __forceinline__ bool finite(float x) { return fabsf(x) <= 3.4e38f; }

// Whether the step before has left gradients: parameters move by them at the start of the next step, or after the last of a table.
__device__ __forceinline__ bool is_pending(const Progress* progress) {
    return !progress->halted && progress->step > progress->first;
}

// The row of the schedule for them, and their norm.
__device__ __forceinline__ const ScheduleRow& pending_row(const Progress* progress, const ScheduleRow* rows) {
    return rows[progress->step - 1 - progress->first];
}

__device__ __forceinline__ float pending_norm(const Progress* progress, const float2* results) {
    return results[progress->step - 1 - progress->first].y;
}

// What gradients of this norm are multiplied with; clip 0: nothing is clipped.
__device__ __forceinline__ float clip_factor(float clip, float norm) {
    return clip > 0 ? fminf(clip / (norm + 1e-6f), 1.0f) : 1.0f;
}

// Of values that nobody reads soon: they leave the caches first. Loads stay where they are written.
__device__ __forceinline__ float4 load4_once(const float* p) {
    float4 v;
    asm volatile("ld.global.cs.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(p));
    return v;
}
__device__ __forceinline__ void store4_once(float* p, float4 v) { __stcs(reinterpret_cast<float4*>(p), v); }

// One Adam step of a chunk for each block; `rounded` receives the weights as the matmuls read them.
extern "C" __global__ void __launch_bounds__(THREADS)
    adam(const Chunk* chunks, float* params, storage_t* rounded, float* mean, float* square, const float* grads,
         const float2* results, const ScheduleRow* rows, const Progress* progress, float clip, float beta1, float beta2,
         float epsilon) {
    const bool pending = is_pending(progress);
    const Chunk chunk = chunks[blockIdx.x];
    if (4 * threadIdx.x >= chunk.count) return;
    // Loaded before it is known whether anything moves: one wait for memory in place of two. The buffers are rounded up to whole
    // vectors; their spare values stay 0.
    const u64 i = chunk.first + 4 * threadIdx.x;
    float4 p4 = load4_once(params + i), m4 = load4_once(mean + i), v4 = load4_once(square + i), g4 = load4_once(grads + i);
    if (!pending) return;
    float *p = &p4.x, *m = &m4.x, *v = &v4.x, *g = &g4.x;
    const ScheduleRow row = pending_row(progress, rows);
    const float factor = clip_factor(clip, pending_norm(progress, results));
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        const float d = g[k] * factor;
        m[k] += (1.0f - beta1) * (d - m[k]);
        v[k] = beta2 * v[k] + (1.0f - beta2) * d * d;
        p[k] -= row.rate * m[k] / (sqrtf(v[k]) * row.root_correction + epsilon);
    }
    store4_once(params + i, p4);
    store4_once(mean + i, m4);
    store4_once(square + i, v4);
    if (rounded) store4(rounded + i, p4);
}

// Records loss and norm of the step and moves on to the next, or halts: then nothing moves any more.
extern "C" __global__ void __launch_bounds__(THREADS)
    advance(Progress* progress, float2* results, const float* loss, const double* norm_partials, int partial_count) {
    pdl_wait();
    const float norm = grad_norm(norm_partials, partial_count);
    if (threadIdx.x != 0 || progress->halted) return;
    results[progress->step - progress->first] = make_float2(*loss, norm);
    if (finite(norm) && finite(*loss)) progress->step += 1;
    else progress->halted = 1;
}

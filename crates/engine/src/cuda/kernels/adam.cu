// Clipping by the global norm and Adam, with the schedule in a table: nothing of a step needs the host.

// One step of the schedule: the rate with Adam's correction of the mean in it, the correction of the root, and the rate
// as it is.
struct StepRow {
    float rate, root;
    int dims;
    float plain;
};

// Values of the flat buffers that Adam moves: a piece of at most 4 × NORM_THREADS.
struct Piece {
    u64 first;
    u64 count;
};

// Where training stands; `halted` is set when a loss or gradient was not finite, and nothing moves any more.
struct Progress {
    u64 step, first, halted;
};

#define NORM_THREADS 256
// Groups of four that a thread loads at once, and whose squares it adds in float.
#define NORM_TOGETHER 12

// parts[block] = Σ grads² over the block's share. There are two blocks to a multiprocessor, which ptxas is to know: it
// would save registers for more.
extern "C" __global__ void __launch_bounds__(NORM_THREADS, 2) norm_parts(double* parts, const float* grads, u64 count) {
    __shared__ double lanes[NORM_THREADS];
    const u64 share = (count + 4ull * gridDim.x - 1) / (4ull * gridDim.x) * 4;
    const u64 first = share * blockIdx.x, end = min(count, first + share);
    double total = 0;
    // The buffer ends with zeros to spare, so that the last group is whole.
    for (u64 i = first + 4 * threadIdx.x; i < end; i += NORM_TOGETHER * 4 * NORM_THREADS) {
        float4 g[NORM_TOGETHER];
#pragma unroll
        for (int n = 0; n < NORM_TOGETHER; ++n) {
            const u64 at = i + n * 4 * NORM_THREADS;
            g[n] = at < end ? load4(grads + at) : make_float4(0, 0, 0, 0);
        }
        float sum = 0;
#pragma unroll
        for (int n = 0; n < NORM_TOGETHER; ++n)
            sum += (g[n].x * g[n].x + g[n].y * g[n].y) + (g[n].z * g[n].z + g[n].w * g[n].w);
        total += sum;
    }
    lanes[threadIdx.x] = total;
    __syncthreads();
    for (int half = NORM_THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) lanes[threadIdx.x] += lanes[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) parts[blockIdx.x] = lanes[0];
}

// The same number in every block: a fixed tree over the parts.
__device__ __forceinline__ float norm_of(const double* parts, int count) {
    __shared__ double lanes[NORM_THREADS];
    double sum = 0;
    for (int i = threadIdx.x; i < count; i += NORM_THREADS) sum += parts[i];
    lanes[threadIdx.x] = sum;
    __syncthreads();
    for (int half = NORM_THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) lanes[threadIdx.x] += lanes[threadIdx.x + half];
        __syncthreads();
    }
    return (float)sqrt(lanes[0]);
}

__device__ __forceinline__ bool finite(float x) { return fabsf(x) <= 3.4e38f; }

// One Adam step; `rounded` receives the weights as the products read them.
extern "C" __global__ void __launch_bounds__(NORM_THREADS)
    adam(const Piece* pieces, u64 piece_count, float* params, half_t* rounded, float* mean, float* square, const float* grads,
         const double* parts, int part_count, const float* loss, const StepRow* rows, const Progress* progress, float clip,
         float beta1, float beta2, float epsilon) {
    const float norm = norm_of(parts, part_count);
    if (progress->halted || !finite(norm) || !finite(*loss)) return;
    const StepRow row = rows[progress->step - progress->first];
    const float factor = clip > 0 ? fminf(clip / (norm + 1e-6f), 1.0f) : 1.0f;
    for (u64 n = blockIdx.x; n < piece_count; n += gridDim.x) {
        const Piece piece = pieces[n];
        if (4 * threadIdx.x >= piece.count) continue;
        // The buffers end with spare values, so that the last group is whole.
        const u64 i = piece.first + 4 * threadIdx.x;
        float4 p4 = load4(params + i), m4 = load4(mean + i), v4 = load4(square + i), g4 = load4(grads + i);
        float *p = &p4.x, *m = &m4.x, *v = &v4.x, *g = &g4.x;
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            const float d = g[k] * factor;
            m[k] += (1.0f - beta1) * (d - m[k]);
            v[k] = beta2 * v[k] + (1.0f - beta2) * d * d;
            p[k] -= row.rate * m[k] / (sqrtf(v[k]) * row.root + epsilon);
        }
        store4(params + i, p4);
        store4(mean + i, m4);
        store4(square + i, v4);
        if (rounded) store4(rounded + i, p4);
    }
}

// Notes loss and norm of the step and moves on to the next, or halts.
extern "C" __global__ void __launch_bounds__(NORM_THREADS)
    advance(Progress* progress, float2* results, const float* loss, const double* parts, int part_count) {
    const float norm = norm_of(parts, part_count);
    if (threadIdx.x != 0 || progress->halted) return;
    results[progress->step - progress->first] = make_float2(*loss, norm);
    if (finite(norm) && finite(*loss)) progress->step += 1;
    else progress->halted = 1;
}

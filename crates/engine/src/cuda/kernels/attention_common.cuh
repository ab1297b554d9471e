// What attention_forward.cu and attention_backward.cu share. A block handles one head of one prompt, a warp 16 tokens.
// Prompts are short, so that queries, keys and values fit into shared memory, and nothing of size tokens × tokens is ever
// stored: the backward pass recomputes the weights.
//
// Defined by the program: TOKENS, HEADS, HEAD_DIM (a multiple of 8), CAUSAL, WEIGHTING (0 softmax, 1 ReLU / n,
// 2 linear / n), STAGED (whether the operands fit into shared memory; else fragments are loaded from global
// memory, with zeros beyond the last token and the head's last column).

#define TILES ((TOKENS + 15) / 16)
#define TOKENS_PADDED (16 * TILES)
#define WIDTH (HEADS * HEAD_DIM)
#define HEAD_DIM_PADDED (((HEAD_DIM + MMA_K - 1) / MMA_K) * MMA_K)
// Columns of a result that a warp accumulates in registers at a time.
#define ACC_COLUMNS (HEAD_DIM_PADDED < 64 ? HEAD_DIM_PADDED : 64)
#define K_STEPS (HEAD_DIM_PADDED / MMA_K)

#if STAGED
#define STRIDE_QKV (HEAD_DIM_PADDED + 8)
#define STRIDE_OUT (HEAD_DIM_PADDED + 8)
#else
#define STRIDE_QKV (3 * WIDTH)
#define STRIDE_OUT WIDTH
#endif

// exp(x) = 2^(x · LOG2_E)
#define LOG2_E 1.4426950408889634f

// 2^x by the special function unit: 2 ulp, as exact as what it is applied to.
__device__ __forceinline__ float exp2_approx(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

#define INF __int_as_float(0x7f800000)

#define FORWARD_CHUNK 4

#define FORWARD_THREADS ((TILES + 1) / 2 * WARP)
#define BACKWARD_THREADS (TILES * WARP)

// Enough blocks per multiprocessor that a batch of 64 with 8 heads runs at once, and as many threads of the forward pass.
#if TILES <= 6 && PRECISION == BF16 && HEAD_DIM <= 32
#define FORWARD_BLOCKS 8
#define BACKWARD_BLOCKS 4
#elif TILES <= 13 && PRECISION == BF16 && HEAD_DIM <= 32
#define FORWARD_BLOCKS 4
#define BACKWARD_BLOCKS 2
#else
#define FORWARD_BLOCKS 1
#define BACKWARD_BLOCKS 1
#endif

// The index of this warp, by a shuffle: so the compiler knows that it is uniform over the warp.
__device__ __forceinline__ int warp_index() { return __shfl_sync(FULL_MASK, threadIdx.x / WARP, 0); }

// Starts to copy one head's rows into shared memory at `next`, which moves on; zeros around them. By THREADS threads.
template <int THREADS>
__device__ __forceinline__ const storage_t* stage(storage_t*& next, const storage_t* from, int stride) {
#if STAGED
    storage_t* to = next;
    constexpr int ACROSS = HEAD_DIM_PADDED / VEC;
    const auto copy = [&](int row, int column) {
        const bool inside = row < TOKENS && column < HEAD_DIM;
        cp_async_16(to + row * STRIDE_QKV + column, from + (u64)row * stride + column, inside);
    };
    if constexpr (THREADS % ACROSS == 0) {
        // Every thread stays in its column.
        constexpr int DOWN = THREADS / ACROSS;
        const int row = threadIdx.x / ACROSS, column = VEC * (threadIdx.x % ACROSS);
#pragma unroll 8
        for (int down = 0; down < TOKENS_PADDED; down += DOWN)
            if (TOKENS_PADDED % DOWN == 0 || row + down < TOKENS_PADDED) copy(row + down, column);
    } else {
        for (int i = threadIdx.x; i < TOKENS_PADDED * ACROSS; i += THREADS) copy(i / ACROSS, VEC * (i % ACROSS));
    }
    next += TOKENS_PADDED * STRIDE_QKV;
    return to;
#else
    return from;
#endif
}

// Waits for every copy this block started.
__device__ __forceinline__ void wait_staged() {
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();
}

// Outputs go through shared memory, to be written in whole rows; wide heads leave no room for that.
#define OUTPUT_STAGED (HEAD_DIM <= 64)
#define OUTPUT_STRIDE (ACC_COLUMNS + 8)
#define OUTPUT_VECTORS (OUTPUT_STAGED ? 16 * OUTPUT_STRIDE * (int)sizeof(storage_t) / 16 : 1)

// Whether a column belongs to the head: the last accumulators of a wide head may reach beyond it.
__device__ __forceinline__ bool in_head(int column) { return HEAD_DIM % ACC_COLUMNS == 0 || column < HEAD_DIM; }

// Writes a warp's 16 rows of ACC_COLUMNS columns from its accumulators; `scratch` is this warp's alone.
__device__ __forceinline__ void store_rows(storage_t* to, int stride, storage_t* scratch, const float (*d)[4], float low_scale,
                                           float high_scale, int first, int column) {
    const int lane = threadIdx.x % WARP, g = lane / 4, c = lane % 4;
    if (!OUTPUT_STAGED) {
        const bool low = first + g < TOKENS, high = first + g + 8 < TOKENS;
        storage_t* row = to + (u64)(first + g) * stride + column + 2 * c;
#pragma unroll
        for (int n = 0; n < ACC_COLUMNS / 8; ++n) {
            if (!in_head(column + 8 * n)) continue;
            if (low) store2(row + 8 * n, d[n][0] * low_scale, d[n][1] * low_scale);
            if (high) store2(row + 8 * stride + 8 * n, d[n][2] * high_scale, d[n][3] * high_scale);
        }
        return;
    }
#pragma unroll
    for (int n = 0; n < ACC_COLUMNS / 8; ++n) {
        store2(scratch + g * OUTPUT_STRIDE + 8 * n + 2 * c, d[n][0] * low_scale, d[n][1] * low_scale);
        store2(scratch + (g + 8) * OUTPUT_STRIDE + 8 * n + 2 * c, d[n][2] * high_scale, d[n][3] * high_scale);
    }
    __syncwarp();
#pragma unroll
    for (int i = lane; i < 16 * ACC_COLUMNS / VEC; i += WARP) {
        const int row = i / (ACC_COLUMNS / VEC), at = i % (ACC_COLUMNS / VEC) * VEC;
        if (first + row < TOKENS && column + at < HEAD_DIM)
            *reinterpret_cast<uint4*>(to + (u64)(first + row) * stride + column + at) =
                *reinterpret_cast<const uint4*>(scratch + row * OUTPUT_STRIDE + at);
    }
    __syncwarp();
}

__device__ __forceinline__ bool visible(int query, int key) {
    return key < TOKENS && query < TOKENS && (!CAUSAL || key <= query);
}

// Whether some query from `query` on, of 16, does not see some key from `key` on, of `keys`. Rows beyond the last token
// are zeros where operands are staged, and need no mask but among the keys of a softmax.
__device__ __forceinline__ bool needs_mask(int query, int key, int keys, bool sums_keys) {
    return !STAGED || (CAUSAL && key + keys - 1 > query) || (sums_keys && !CAUSAL && key + keys > TOKENS);
}

// How many keys a query sees.
__device__ __forceinline__ float visible_keys(int query) { return CAUSAL ? query + 1 : TOKENS; }

__device__ __forceinline__ float attention_scale() { return rsqrtf((float)HEAD_DIM); }

__device__ __forceinline__ void zero(float (&x)[4]) { x[0] = x[1] = x[2] = x[3] = 0; }

// Whether a warp's own rows stay in registers as A fragments while it walks over the others: where they are few values.
#define OWN_IN_REGISTERS (PRECISION == BF16 && K_STEPS <= 2)

template <int N>
__device__ __forceinline__ void load_own(FragmentA (&rows)[N], const storage_t* p, int stride, int tokens) {
#if OWN_IN_REGISTERS
#pragma unroll
    for (int n = 0; n < N; ++n) rows[n] = load_a(p + n * MMA_K, stride, tokens, HEAD_DIM - n * MMA_K);
#endif
}

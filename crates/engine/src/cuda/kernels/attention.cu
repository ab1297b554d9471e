// Attention of one head of one prompt per block, one warp per 16 tokens. Prompts are short, so that queries, keys and
// values fit into shared memory, and nothing of size tokens × tokens is ever stored: the backward pass computes
// the weights again.
//
// Defined by the program: TOKENS, HEADS, SIZE (of a head, a multiple of 8), CAUSAL, WEIGHTING (0 softmax, 1 ReLU / n,
// 2 linear / n), STAGED (whether the operands fit into shared memory; else products read them from global memory, whose
// buffers end with 16 spare rows).

#define TILES ((TOKENS + 15) / 16)
#define PADDED (16 * TILES)
#define WIDTH_ALL (HEADS * SIZE)
#define SIZE_PADDED (((SIZE + DEPTH - 1) / DEPTH) * DEPTH)
// Columns of a result that a warp keeps in registers at a time.
#define CHUNK (SIZE_PADDED < 64 ? SIZE_PADDED : 64)
#define KS (SIZE_PADDED / DEPTH)

#if STAGED
#define STRIDE_QKV (SIZE_PADDED + 8)
#define STRIDE_OUT (SIZE_PADDED + 8)
#else
#define STRIDE_QKV (3 * WIDTH_ALL)
#define STRIDE_OUT WIDTH_ALL
#endif

// exp(x) = 2^(x · LOG2_E)
#define LOG2_E 1.4426950408889634f

// 2^x by the special function unit: 2 units in the last place, as exact as what it is applied to.
__device__ __forceinline__ float power_of_two(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

#define INFINITE __int_as_float(0x7f800000)

#define FORWARD_THREADS ((TILES + 1) / 2 * WARP)
#define BACKWARD_THREADS (TILES * WARP)

// Enough blocks per multiprocessor that a batch of 64 with 8 heads runs at once, and as many threads of the forward pass.
#if TILES <= 6 && PRECISION == BF16 && SIZE <= 32
#define FORWARD_BLOCKS 8
#define BACKWARD_BLOCKS 4
#else
#define FORWARD_BLOCKS 1
#define BACKWARD_BLOCKS 1
#endif

// The number of this warp: the same in all its lanes, and the compiler is to know it.
__device__ __forceinline__ int warp_number() { return __shfl_sync(ALL_LANES, threadIdx.x / WARP, 0); }

// Copies one head's rows into shared memory, zeros around them, without waiting for them. By THREADS threads.
template <int THREADS>
__device__ __forceinline__ const half_t* stage(half_t*& place, const half_t* from, int stride) {
#if STAGED
    half_t* to = place;
    constexpr int ACROSS = SIZE_PADDED / GROUP;
    const auto copy = [&](int row, int column) {
        const bool inside = row < TOKENS && column < SIZE;
        copy16(to + row * STRIDE_QKV + column, from + (u64)row * stride + column, inside);
    };
    if constexpr (THREADS % ACROSS == 0) {
        // Every thread stays in its column.
        constexpr int DOWN = THREADS / ACROSS;
        const int row = threadIdx.x / ACROSS, column = GROUP * (threadIdx.x % ACROSS);
#pragma unroll 8
        for (int down = 0; down < PADDED; down += DOWN)
            if (PADDED % DOWN == 0 || row + down < PADDED) copy(row + down, column);
    } else {
        for (int i = threadIdx.x; i < PADDED * ACROSS; i += THREADS) copy(i / ACROSS, GROUP * (i % ACROSS));
    }
    place += PADDED * STRIDE_QKV;
    return to;
#else
    return from;
#endif
}

// Waits for everything this block staged.
__device__ __forceinline__ void await_staged() {
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();
}

// Rows of results in shared memory, from where they are written whole; wide heads leave no room for them.
#define RESULTS_STAGED (SIZE <= 64)
#define RESULT_STRIDE (CHUNK + 8)
#define RESULT_SIZE (RESULTS_STAGED ? 16 * RESULT_STRIDE * (int)sizeof(half_t) / 16 : 1)

// Writes a warp's 16 rows of CHUNK columns; `place` is this warp's alone. Lane values as the products leave them.
__device__ __forceinline__ void store_rows(half_t* to, int stride, half_t* place, const float (*d)[4], float low_scale,
                                           float high_scale, int first, int column) {
    const int lane = threadIdx.x % WARP, g = lane / 4, c = lane % 4;
    if (!RESULTS_STAGED) {
        const bool low = first + g < TOKENS, high = first + g + 8 < TOKENS;
        half_t* row = to + (u64)(first + g) * stride + column + 2 * c;
#pragma unroll
        for (int n = 0; n < CHUNK / 8; ++n) {
            if (low) store2(row + 8 * n, d[n][0] * low_scale, d[n][1] * low_scale);
            if (high) store2(row + 8 * stride + 8 * n, d[n][2] * high_scale, d[n][3] * high_scale);
        }
        return;
    }
#pragma unroll
    for (int n = 0; n < CHUNK / 8; ++n) {
        store2(place + g * RESULT_STRIDE + 8 * n + 2 * c, d[n][0] * low_scale, d[n][1] * low_scale);
        store2(place + (g + 8) * RESULT_STRIDE + 8 * n + 2 * c, d[n][2] * high_scale, d[n][3] * high_scale);
    }
    __syncwarp();
#pragma unroll
    for (int i = lane; i < 16 * CHUNK / GROUP; i += WARP) {
        const int row = i / (CHUNK / GROUP), at = i % (CHUNK / GROUP) * GROUP;
        if (first + row < TOKENS && column + at < SIZE)
            *reinterpret_cast<uint4*>(to + (u64)(first + row) * stride + column + at) =
                *reinterpret_cast<const uint4*>(place + row * RESULT_STRIDE + at);
    }
    __syncwarp();
}

__device__ __forceinline__ bool sees(int query, int key) {
    return key < TOKENS && query < TOKENS && (!CAUSAL || key <= query);
}

// Whether some query from `query` on, of 16, does not see some key from `key` on, of `keys`. Rows beyond the last token
// are zeros where operands are staged, and need no mask but among the keys of a softmax.
__device__ __forceinline__ bool needs_mask(int query, int key, int keys, bool sums_keys) {
    return !STAGED || (CAUSAL && key + keys - 1 > query) || (sums_keys && !CAUSAL && key + keys > TOKENS);
}

// Tokens that a query sees.
__device__ __forceinline__ float seen(int query) { return CAUSAL ? query + 1 : TOKENS; }

__device__ __forceinline__ float root_of_size() { return rsqrtf((float)SIZE); }

__device__ __forceinline__ void clear(float (&x)[4]) { x[0] = x[1] = x[2] = x[3] = 0; }

// Whether a warp's own rows stay in registers while it walks over the others: where they are few values.
#define KEPT (PRECISION == BF16 && KS <= 2)

template <int N>
__device__ __forceinline__ void keep_rows(Left (&rows)[N], const half_t* p, int stride) {
#if KEPT
#pragma unroll
    for (int n = 0; n < N; ++n) rows[n] = left(p + n * DEPTH, stride);
#endif
}

// Tiles of keys of which some query from `first` on sees something.
#define FOR_TILES(t) _Pragma("unroll") for (int t = 0; t < TILES; ++t) if (!CAUSAL || 16 * t <= first)

// The 16 queries from `first` on.
__device__ __forceinline__ void attend(half_t* to, float* log_sums, const half_t* q, const half_t* k, const half_t* v, half_t* place,
                                       int first) {
    const int lane = threadIdx.x % WARP, g = lane / 4, c = lane % 4;
    // Two rows per lane: g and g + 8. The factors scale a row's result at the end.
    float s[TILES][2][4], largest[2] = {-INFINITE, -INFINITE}, factor[2];
    Left own[KEPT ? KS : 1];
    keep_rows(own, q + first * STRIDE_QKV, STRIDE_QKV);
    FOR_TILES(t) {
        clear(s[t][0]);
        clear(s[t][1]);
#pragma unroll 4
        for (int depth = 0; depth < SIZE_PADDED; depth += DEPTH) {
            const Left a = KEPT ? own[depth / DEPTH] : left(q + first * STRIDE_QKV + depth, STRIDE_QKV);
            Right two[2];
            rights_of_rows(two, k + 16 * t * STRIDE_QKV + depth, STRIDE_QKV);
            multiply(s[t][0], a, two[0]);
            multiply(s[t][1], a, two[1]);
        }
        // What a row does not see: -∞ for a softmax, else 0.
        if (needs_mask(first, 16 * t, 16, true)) {
#pragma unroll
            for (int i = 0; i < 8; ++i)
                if (!sees(first + g + 8 * (i / 2 % 2), 16 * t + 8 * (i / 4) + 2 * c + i % 2))
                    s[t][i / 4][i % 4] = WEIGHTING == 0 ? -INFINITE : 0.0f;
        }
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            float& value = s[t][i / 4][i % 4];
            if (WEIGHTING == 0) largest[i / 2 % 2] = fmaxf(largest[i / 2 % 2], value);
            if (WEIGHTING == 1) value = fmaxf(value, 0.0f);
        }
    }

    const float scale = root_of_size();
#if WEIGHTING == 0
    float sum[2] = {0, 0}, shift[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        largest[half] = fmaxf(largest[half], __shfl_xor_sync(ALL_LANES, largest[half], 1));
        largest[half] = fmaxf(largest[half], __shfl_xor_sync(ALL_LANES, largest[half], 2));
        // A row beyond the last token may see nothing.
        shift[half] = largest[half] == -INFINITE ? 0.0f : largest[half] * (scale * LOG2_E);
    }
    FOR_TILES(t) {
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            float& value = s[t][i / 4][i % 4];
            value = power_of_two(fmaf(value, scale * LOG2_E, -shift[i / 2 % 2]));
            sum[i / 2 % 2] += value;
        }
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        sum[half] += __shfl_xor_sync(ALL_LANES, sum[half], 1);
        sum[half] += __shfl_xor_sync(ALL_LANES, sum[half], 2);
        factor[half] = __fdividef(1.0f, sum[half]);
        const int row = first + g + 8 * half;
        if (log_sums && c == 0 && row < TOKENS) log_sums[row] = shift[half] + __log2f(sum[half]);
    }
#else
    factor[0] = scale / seen(first + g);
    factor[1] = scale / seen(first + g + 8);
#endif

    for (int column = 0; column < SIZE_PADDED; column += CHUNK) {
        float o[CHUNK / 8][4];
#pragma unroll
        for (int n = 0; n < CHUNK / 8; ++n) clear(o[n]);
        FOR_TILES(t) {
#pragma unroll
            for (int j = 0; j < 2; j += RESULTS_DEEP) {
                const Left a = left_of(s[t] + j);
#pragma unroll
                for (int n = 0; n < CHUNK / 8; n += 2) {
                    const int at = column + 8 * n;
                    if (at < SIZE) {
                        Right two[2];
                        rights(two, v + (16 * t + 8 * j) * STRIDE_QKV + at, STRIDE_QKV);
                        multiply(o[n], a, two[0]);
                        if (n + 1 < CHUNK / 8) multiply(o[n + 1], a, two[1]);
                    }
                }
            }
        }
        store_rows(to, WIDTH_ALL, place, o, factor[0], factor[1], first, column);
    }
}

// out[t] = Σ_s weight(q_t·k_s) v_s; log_sums[t] = log2 Σ_s exp(score), for the backward pass. A warp takes a tile from the
// beginning and one from the end of the prompt: under a causal mask every warp has the same work.
extern "C" __global__ void __launch_bounds__(FORWARD_THREADS, FORWARD_BLOCKS)
    attention(half_t* out, float* log_sums, const half_t* qkv) {
    await_previous();
    extern __shared__ uint4 shared[];
    __shared__ uint4 results[(TILES + 1) / 2][RESULT_SIZE];
    half_t* place = reinterpret_cast<half_t*>(shared);
    const int prompt = blockIdx.x / HEADS, head = blockIdx.x % HEADS;
    const half_t* from = qkv + (u64)prompt * TOKENS * 3 * WIDTH_ALL + head * SIZE;
    const half_t* q = stage<FORWARD_THREADS>(place, from, 3 * WIDTH_ALL);
    const half_t* k = stage<FORWARD_THREADS>(place, from + WIDTH_ALL, 3 * WIDTH_ALL);
    const half_t* v = stage<FORWARD_THREADS>(place, from + 2 * WIDTH_ALL, 3 * WIDTH_ALL);
    await_staged();
    half_t* to = out + (u64)prompt * TOKENS * WIDTH_ALL + head * SIZE;
    if (log_sums) log_sums += (u64)blockIdx.x * TOKENS;
    const int warp = warp_number();
    for (int tile = warp;; tile = TILES - 1 - warp) {
        attend(to, log_sums, q, k, v, reinterpret_cast<half_t*>(results[warp]), 16 * tile);
        if (tile >= TILES - 1 - warp) break;
    }
}

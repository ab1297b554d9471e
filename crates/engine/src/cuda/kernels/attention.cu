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

// Enough blocks per multiprocessor that a batch of 64 with 8 heads runs at once.
#if TILES <= 6 && PRECISION == BF16 && SIZE <= 32
#define BLOCKS_AT_ONCE 4
#else
#define BLOCKS_AT_ONCE 1
#endif

// Copies one head's rows into shared memory, zeros around them.
__device__ __forceinline__ const half_t* stage(half_t*& place, const half_t* from, int stride) {
#if STAGED
    half_t* to = place;
    const int groups = SIZE_PADDED / 8;
    for (int i = threadIdx.x; i < PADDED * groups; i += blockDim.x) {
        const int row = i / groups, column = 8 * (i % groups);
        const half_t* source = from + (u64)row * stride + column;
        uint4* target = reinterpret_cast<uint4*>(to + row * STRIDE_QKV + column);
        const bool inside = row < TOKENS && column < SIZE;
#pragma unroll
        for (int part = 0; part < (int)sizeof(half_t) / 2; ++part)
            target[part] = inside ? reinterpret_cast<const uint4*>(source)[part] : make_uint4(0, 0, 0, 0);
    }
    place += PADDED * STRIDE_QKV;
    return to;
#else
    return from;
#endif
}

__device__ __forceinline__ bool sees(int query, int key) {
    return key < TOKENS && query < TOKENS && (!CAUSAL || key <= query);
}

// Tokens that a query sees.
__device__ __forceinline__ float seen(int query) { return CAUSAL ? query + 1 : TOKENS; }

__device__ __forceinline__ float root_of_size() { return rsqrtf((float)SIZE); }

// out[t] = Σ_s weight(q_t·k_s) v_s; log_sums[t] = log2 Σ_s exp(score), for the backward pass.
extern "C" __global__ void __launch_bounds__(TILES* WARP) attention(half_t* out, float* log_sums, const half_t* qkv) {
    extern __shared__ uint4 shared[];
    half_t* place = reinterpret_cast<half_t*>(shared);
    const int prompt = blockIdx.x / HEADS, head = blockIdx.x % HEADS;
    const half_t* from = qkv + (u64)prompt * TOKENS * 3 * WIDTH_ALL + head * SIZE;
    const half_t* q = stage(place, from, 3 * WIDTH_ALL);
    const half_t* k = stage(place, from + WIDTH_ALL, 3 * WIDTH_ALL);
    const half_t* v = stage(place, from + 2 * WIDTH_ALL, 3 * WIDTH_ALL);
    __syncthreads();
    const int lane = threadIdx.x % WARP, g = lane / 4, c = lane % 4;
    const int first = 16 * (threadIdx.x / WARP);
    const int last_key = CAUSAL ? first + 15 : PADDED - 1;

    float s[2 * TILES][4];
#pragma unroll
    for (int j = 0; j < 2 * TILES; ++j) s[j][0] = s[j][1] = s[j][2] = s[j][3] = 0;
#pragma unroll 4
    for (int depth = 0; depth < SIZE_PADDED; depth += DEPTH) {
        const Left a = left(q + first * STRIDE_QKV + depth, STRIDE_QKV);
#pragma unroll
        for (int j = 0; j < 2 * TILES; ++j)
            if (8 * j <= last_key) multiply(s[j], a, right_of_rows(k + 8 * j * STRIDE_QKV + depth, STRIDE_QKV));
    }

    // Two rows per lane: g and g + 8. The factors scale a row's result at the end.
    float factor[2] = {1, 1};
    const float scale = root_of_size();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int row = first + g + 8 * half;
#if WEIGHTING == 0
        float largest = -3.0e38f;
#pragma unroll
        for (int j = 0; j < 2 * TILES; ++j)
#pragma unroll
            for (int i = 0; i < 2; ++i)
                if (sees(row, 8 * j + 2 * c + i)) largest = fmaxf(largest, s[j][2 * half + i]);
        largest = fmaxf(largest, __shfl_xor_sync(ALL_LANES, largest, 1));
        largest = fmaxf(largest, __shfl_xor_sync(ALL_LANES, largest, 2));
        float sum = 0;
#pragma unroll
        for (int j = 0; j < 2 * TILES; ++j)
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                float& value = s[j][2 * half + i];
                value = sees(row, 8 * j + 2 * c + i) ? power_of_two((value - largest) * (scale * LOG2_E)) : 0.0f;
                sum += value;
            }
        sum += __shfl_xor_sync(ALL_LANES, sum, 1);
        sum += __shfl_xor_sync(ALL_LANES, sum, 2);
        factor[half] = 1.0f / sum;
        if (log_sums && c == 0 && row < TOKENS)
            log_sums[(u64)blockIdx.x * TOKENS + row] = largest * (scale * LOG2_E) + log2f(sum);
#else
        factor[half] = scale / seen(row);
#pragma unroll
        for (int j = 0; j < 2 * TILES; ++j)
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                float& value = s[j][2 * half + i];
                const bool zero = !sees(row, 8 * j + 2 * c + i) || (WEIGHTING == 1 && value < 0);
                if (zero) value = 0;
            }
#endif
    }

    half_t* to = out + (u64)prompt * TOKENS * WIDTH_ALL + head * SIZE;
    for (int column = 0; column < SIZE_PADDED; column += CHUNK) {
        float o[CHUNK / 8][4];
#pragma unroll
        for (int n = 0; n < CHUNK / 8; ++n) o[n][0] = o[n][1] = o[n][2] = o[n][3] = 0;
#pragma unroll
        for (int j = 0; j < 2 * TILES; j += RESULTS_DEEP)
            if (8 * j <= last_key) {
                const Left a = left_of(s + j);
#pragma unroll
                for (int n = 0; n < CHUNK / 8; ++n)
                    if (column + 8 * n < SIZE)
                        multiply(o[n], a, right(v + 8 * j * STRIDE_QKV + column + 8 * n, STRIDE_QKV));
            }
#pragma unroll
        for (int n = 0; n < CHUNK / 8; ++n)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int row = first + g + 8 * half, at = column + 8 * n + 2 * c;
                if (row < TOKENS && at < SIZE)
                    store2(to + (u64)row * WIDTH_ALL + at, o[n][2 * half] * factor[half], o[n][2 * half + 1] * factor[half]);
            }
    }
}

// The weight of one score, and what turns the weight's gradient into the score's: ds = (dp − delta) · slope.
__device__ __forceinline__ void weigh(float score, int query, int key, float log_sum, float& weight, float& slope) {
    weight = slope = 0;
    if (!sees(query, key)) return;
    const float scale = root_of_size();
#if WEIGHTING == 0
    weight = power_of_two(score * (scale * LOG2_E) - log_sum);
    slope = weight * scale;
#else
    if (WEIGHTING == 1 && score <= 0) return;
    slope = scale / seen(query);
    weight = score * slope;
#endif
}

// Writes a warp's 16 rows of a gradient and adds their sum to column_sums[SIZE_PADDED] of this warp.
__device__ __forceinline__ void store_gradient(half_t* to, float* column_sums, const float (*d)[4], int first, int column) {
    const int lane = threadIdx.x % WARP, g = lane / 4, c = lane % 4;
#pragma unroll
    for (int n = 0; n < CHUNK / 8; ++n) {
        const int at = column + 8 * n + 2 * c;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int row = first + g + 8 * half;
            if (row < TOKENS && at < SIZE) store2(to + (u64)row * 3 * WIDTH_ALL + at, d[n][2 * half], d[n][2 * half + 1]);
        }
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            float sum = d[n][i] + d[n][2 + i];
#pragma unroll
            for (int offset = 4; offset < WARP; offset *= 2) sum += __shfl_xor_sync(ALL_LANES, sum, offset);
            if (g == 0) column_sums[at + i] = sum;
        }
    }
}

// dqkv from dout, and bias_parts[prompt, 3·width] = Σ_t dqkv. A warp first owns 16 keys and gathers dk and dv from all
// queries that see them, then 16 queries and gathers dq: under a causal mask every warp has the same work in all.
extern "C" __global__ void __launch_bounds__(TILES* WARP, BLOCKS_AT_ONCE)
    attention_backward(half_t* dqkv, float* bias_parts, const half_t* dout, const half_t* out, const half_t* qkv,
                       const float* log_sums) {
    extern __shared__ uint4 shared[];
    __shared__ float log_sum[PADDED], delta[PADDED];
    __shared__ float column_sums[TILES][3][SIZE_PADDED];
    half_t* place = reinterpret_cast<half_t*>(shared);
    const int prompt = blockIdx.x / HEADS, head = blockIdx.x % HEADS;
    const u64 row0 = (u64)prompt * TOKENS;
    const half_t* from = qkv + row0 * 3 * WIDTH_ALL + head * SIZE;
    const half_t* q = stage(place, from, 3 * WIDTH_ALL);
    const half_t* k = stage(place, from + WIDTH_ALL, 3 * WIDTH_ALL);
    const half_t* v = stage(place, from + 2 * WIDTH_ALL, 3 * WIDTH_ALL);
    const half_t* d = stage(place, dout + row0 * WIDTH_ALL + head * SIZE, WIDTH_ALL);
    const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, c = lane % 4, g = lane / 4;

    // delta_t = Σ_s weight · dweight = out_t · dout_t; two lanes per token.
    const int token = 16 * warp + lane / 2;
    float sum = 0;
#if WEIGHTING == 0
    if (token < TOKENS) {
        const u64 at = (row0 + token) * WIDTH_ALL + head * SIZE + (lane % 2) * (SIZE / 2);
#pragma unroll 4
        for (int i = 0; i < SIZE / 2; i += 4) {
            const float4 a = load4(out + at + i), b = load4(dout + at + i);
            sum += (a.x * b.x + a.y * b.y) + (a.z * b.z + a.w * b.w);
        }
    }
    sum += __shfl_xor_sync(ALL_LANES, sum, 1);
#endif
    if (lane % 2 == 0) {
        delta[token] = sum;
        log_sum[token] = WEIGHTING == 0 && token < TOKENS ? log_sums[(u64)blockIdx.x * TOKENS + token] : 0.0f;
    }
    __syncthreads();
    const int first = 16 * warp;
    half_t* to = dqkv + row0 * 3 * WIDTH_ALL + head * SIZE;

    for (int column = 0; column < SIZE_PADDED; column += CHUNK) {
        float dk[CHUNK / 8][4], dv[CHUNK / 8][4];
#pragma unroll
        for (int n = 0; n < CHUNK / 8; ++n)
#pragma unroll
            for (int i = 0; i < 4; ++i) dk[n][i] = dv[n][i] = 0;
        for (int query = CAUSAL ? first : 0; query < PADDED; query += 16) {
            // Transposed: rows are keys, columns queries.
            float p[2][4], dp[2][4];
#pragma unroll
            for (int n = 0; n < 2; ++n)
#pragma unroll
                for (int i = 0; i < 4; ++i) p[n][i] = dp[n][i] = 0;
#pragma unroll 4
            for (int depth = 0; depth < SIZE_PADDED; depth += DEPTH) {
                const Left a = left(k + first * STRIDE_QKV + depth, STRIDE_QKV);
                const Left b = left(v + first * STRIDE_QKV + depth, STRIDE_QKV);
#pragma unroll
                for (int n = 0; n < 2; ++n) {
                    multiply(p[n], a, right_of_rows(q + (query + 8 * n) * STRIDE_QKV + depth, STRIDE_QKV));
                    multiply(dp[n], b, right_of_rows(d + (query + 8 * n) * STRIDE_OUT + depth, STRIDE_OUT));
                }
            }
#pragma unroll
            for (int n = 0; n < 2; ++n)
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    const int t = query + 8 * n + 2 * c + i % 2, s = first + g + 8 * (i / 2);
                    float slope;
                    weigh(p[n][i], t, s, log_sum[t], p[n][i], slope);
                    dp[n][i] = slope == 0 ? 0.0f : (dp[n][i] - delta[t]) * slope;
                }
#pragma unroll
            for (int j = 0; j < 2; j += RESULTS_DEEP) {
                const Left a = left_of(p + j), b = left_of(dp + j);
#pragma unroll
                for (int n = 0; n < CHUNK / 8; ++n)
                    if (column + 8 * n < SIZE) {
                        const int at = column + 8 * n;
                        multiply(dv[n], a, right(d + (query + 8 * j) * STRIDE_OUT + at, STRIDE_OUT));
                        multiply(dk[n], b, right(q + (query + 8 * j) * STRIDE_QKV + at, STRIDE_QKV));
                    }
            }
        }
        store_gradient(to + WIDTH_ALL, column_sums[warp][1], dk, first, column);
        store_gradient(to + 2 * WIDTH_ALL, column_sums[warp][2], dv, first, column);

        float dq[CHUNK / 8][4];
#pragma unroll
        for (int n = 0; n < CHUNK / 8; ++n)
#pragma unroll
            for (int i = 0; i < 4; ++i) dq[n][i] = 0;
        for (int key = 0; key <= (CAUSAL ? first : PADDED - 1); key += 16) {
            float p[2][4], dp[2][4];
#pragma unroll
            for (int n = 0; n < 2; ++n)
#pragma unroll
                for (int i = 0; i < 4; ++i) p[n][i] = dp[n][i] = 0;
#pragma unroll 4
            for (int depth = 0; depth < SIZE_PADDED; depth += DEPTH) {
                const Left a = left(q + first * STRIDE_QKV + depth, STRIDE_QKV);
                const Left b = left(d + first * STRIDE_OUT + depth, STRIDE_OUT);
#pragma unroll
                for (int n = 0; n < 2; ++n) {
                    multiply(p[n], a, right_of_rows(k + (key + 8 * n) * STRIDE_QKV + depth, STRIDE_QKV));
                    multiply(dp[n], b, right_of_rows(v + (key + 8 * n) * STRIDE_QKV + depth, STRIDE_QKV));
                }
            }
#pragma unroll
            for (int n = 0; n < 2; ++n)
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    const int s = key + 8 * n + 2 * c + i % 2, t = first + g + 8 * (i / 2);
                    float weight, slope;
                    weigh(p[n][i], t, s, log_sum[t], weight, slope);
                    dp[n][i] = slope == 0 ? 0.0f : (dp[n][i] - delta[t]) * slope;
                }
#pragma unroll
            for (int j = 0; j < 2; j += RESULTS_DEEP) {
                const Left a = left_of(dp + j);
#pragma unroll
                for (int n = 0; n < CHUNK / 8; ++n)
                    if (column + 8 * n < SIZE)
                        multiply(dq[n], a, right(k + (key + 8 * j) * STRIDE_QKV + column + 8 * n, STRIDE_QKV));
            }
        }
        store_gradient(to, column_sums[warp][0], dq, first, column);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < 3 * SIZE; i += blockDim.x) {
        const int which = i / SIZE, at = i % SIZE;
        float sum = 0;
        for (int tile = 0; tile < TILES; ++tile) sum += column_sums[tile][which][at];
        bias_parts[(u64)prompt * 3 * WIDTH_ALL + which * WIDTH_ALL + head * SIZE + at] = sum;
    }
}

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

// Enough blocks per multiprocessor that a batch of 64 with 8 heads runs at once.
#if TILES <= 6 && PRECISION == BF16 && SIZE <= 32
#define BLOCKS_AT_ONCE 4
#else
#define BLOCKS_AT_ONCE 1
#endif

// Copies one head's rows into shared memory, zeros around them, without waiting for them.
__device__ __forceinline__ const half_t* stage(half_t*& place, const half_t* from, int stride) {
#if STAGED
    half_t* to = place;
    const int group = 16 / (int)sizeof(half_t), groups = SIZE_PADDED / group;
    for (int i = threadIdx.x; i < PADDED * groups; i += blockDim.x) {
        const int row = i / groups, column = group * (i % groups);
        const bool inside = row < TOKENS && column < SIZE;
        copy16(to + row * STRIDE_QKV + column, inside ? from + (u64)row * stride + column : from, inside);
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

// The 16 queries from `first` on.
__device__ __forceinline__ void attend(half_t* to, float* log_sums, const half_t* q, const half_t* k, const half_t* v, half_t* place,
                                       int first) {
    const int lane = threadIdx.x % WARP, g = lane / 4, c = lane % 4;
    const int last_key = CAUSAL ? first + 15 : PADDED - 1;
    float s[2 * TILES][4];
#pragma unroll
    for (int j = 0; j < 2 * TILES; ++j) clear(s[j]);
#pragma unroll 4
    for (int depth = 0; depth < SIZE_PADDED; depth += DEPTH) {
        const Left a = left(q + first * STRIDE_QKV + depth, STRIDE_QKV);
#pragma unroll
        for (int j = 0; j < 2 * TILES; ++j)
            if (8 * j <= last_key) multiply(s[j], a, right_of_rows(k + 8 * j * STRIDE_QKV + depth, STRIDE_QKV));
    }
    // What a row does not see: -∞ for a softmax, else 0.
#pragma unroll
    for (int j = 0; j < 2 * TILES; ++j)
        if (8 * j <= last_key && needs_mask(first, 8 * j, 8, true)) {
#pragma unroll
            for (int i = 0; i < 4; ++i)
                if (!sees(first + g + 8 * (i / 2), 8 * j + 2 * c + i % 2)) s[j][i] = WEIGHTING == 0 ? -INFINITE : 0.0f;
        }

    // Two rows per lane: g and g + 8. The factors scale a row's result at the end.
    const float scale = root_of_size();
    float factor[2];
#if WEIGHTING == 0
    float largest[2] = {-INFINITE, -INFINITE}, sum[2] = {0, 0}, shift[2];
#pragma unroll
    for (int j = 0; j < 2 * TILES; ++j)
        if (8 * j <= last_key) {
#pragma unroll
            for (int half = 0; half < 2; ++half)
                largest[half] = fmaxf(largest[half], fmaxf(s[j][2 * half], s[j][2 * half + 1]));
        }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        largest[half] = fmaxf(largest[half], __shfl_xor_sync(ALL_LANES, largest[half], 1));
        largest[half] = fmaxf(largest[half], __shfl_xor_sync(ALL_LANES, largest[half], 2));
        // A row beyond the last token may see nothing.
        shift[half] = largest[half] == -INFINITE ? 0.0f : largest[half] * (scale * LOG2_E);
    }
#pragma unroll
    for (int j = 0; j < 2 * TILES; ++j)
        if (8 * j <= last_key) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                s[j][i] = power_of_two(fmaf(s[j][i], scale * LOG2_E, -shift[i / 2]));
                sum[i / 2] += s[j][i];
            }
        }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        sum[half] += __shfl_xor_sync(ALL_LANES, sum[half], 1);
        sum[half] += __shfl_xor_sync(ALL_LANES, sum[half], 2);
        factor[half] = 1.0f / sum[half];
        const int row = first + g + 8 * half;
        if (log_sums && c == 0 && row < TOKENS) log_sums[row] = shift[half] + log2f(sum[half]);
    }
#else
    factor[0] = scale / seen(first + g);
    factor[1] = scale / seen(first + g + 8);
#if WEIGHTING == 1
#pragma unroll
    for (int j = 0; j < 2 * TILES; ++j)
#pragma unroll
        for (int i = 0; i < 4; ++i) s[j][i] = fmaxf(s[j][i], 0.0f);
#endif
#endif

    for (int column = 0; column < SIZE_PADDED; column += CHUNK) {
        float o[CHUNK / 8][4];
#pragma unroll
        for (int n = 0; n < CHUNK / 8; ++n) clear(o[n]);
#pragma unroll
        for (int j = 0; j < 2 * TILES; j += RESULTS_DEEP)
            if (8 * j <= last_key) {
                const Left a = left_of(s + j);
#pragma unroll
                for (int n = 0; n < CHUNK / 8; ++n)
                    if (column + 8 * n < SIZE)
                        multiply(o[n], a, right(v + 8 * j * STRIDE_QKV + column + 8 * n, STRIDE_QKV));
            }
        store_rows(to, WIDTH_ALL, place, o, factor[0], factor[1], first, column);
    }
}

// out[t] = Σ_s weight(q_t·k_s) v_s; log_sums[t] = log2 Σ_s exp(score), for the backward pass. A warp takes a tile from the
// beginning and one from the end of the prompt: under a causal mask every warp has the same work.
extern "C" __global__ void __launch_bounds__((TILES + 1) / 2 * WARP)
    attention(half_t* out, float* log_sums, const half_t* qkv) {
    await_previous();
    extern __shared__ uint4 shared[];
    __shared__ uint4 results[(TILES + 1) / 2][RESULT_SIZE];
    half_t* place = reinterpret_cast<half_t*>(shared);
    const int prompt = blockIdx.x / HEADS, head = blockIdx.x % HEADS;
    const half_t* from = qkv + (u64)prompt * TOKENS * 3 * WIDTH_ALL + head * SIZE;
    const half_t* q = stage(place, from, 3 * WIDTH_ALL);
    const half_t* k = stage(place, from + WIDTH_ALL, 3 * WIDTH_ALL);
    const half_t* v = stage(place, from + 2 * WIDTH_ALL, 3 * WIDTH_ALL);
    await_staged();
    half_t* to = out + (u64)prompt * TOKENS * WIDTH_ALL + head * SIZE;
    if (log_sums) log_sums += (u64)blockIdx.x * TOKENS;
    const int warp = threadIdx.x / WARP;
    for (int tile = warp;; tile = TILES - 1 - warp) {
        attend(to, log_sums, q, k, v, reinterpret_cast<half_t*>(results[warp]), 16 * tile);
        if (tile >= TILES - 1 - warp) break;
    }
}

// Turns scores into weights and gradients of weights into gradients of scores, but for the factor 1/√size, for
// 16 × 16 pairs. With `keys_first` rows are keys and columns queries, else rows are queries; stat[i] = (log sum, delta)
// of the query that value i belongs to.
__device__ __forceinline__ void weigh(float (&p)[4], float (&dp)[4], const float2 (&stat)[4], bool masked, bool keys_first,
                                      int row, int column) {
    const float scale = root_of_size();
    const int lane = threadIdx.x % WARP, g = lane / 4, c = lane % 4;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const int r = row + g + 8 * (i / 2), s = column + 2 * c + i % 2;
        const int query = keys_first ? s : r, key = keys_first ? r : s;
#if WEIGHTING == 0
        p[i] = power_of_two(fmaf(p[i], scale * LOG2_E, -stat[i].x));
        dp[i] = p[i] * (dp[i] - stat[i].y);
#else
        const float share = 1.0f / seen(query);
        const bool positive = WEIGHTING != 1 || p[i] > 0;
        p[i] = positive ? p[i] * scale * share : 0.0f;
        dp[i] = positive ? dp[i] * share : 0.0f;
#endif
        if (masked && !sees(query, key)) p[i] = dp[i] = 0;
    }
}

// Writes a warp's 16 rows of a gradient, scaled, and their sum to column_sums[SIZE_PADDED] of this warp.
__device__ __forceinline__ void store_gradient(half_t* to, half_t* place, float* column_sums, const float (*d)[4], float scale,
                                               int first, int column) {
    const int lane = threadIdx.x % WARP, g = lane / 4, c = lane % 4;
    const bool low = first + g < TOKENS, high = first + g + 8 < TOKENS;
    store_rows(to, 3 * WIDTH_ALL, place, d, scale, scale, first, column);
#pragma unroll
    for (int n = 0; n < CHUNK / 8; ++n)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            float sum = (low ? d[n][i] : 0.0f) + (high ? d[n][2 + i] : 0.0f);
#pragma unroll
            for (int offset = 4; offset < WARP; offset *= 2) sum += __shfl_xor_sync(ALL_LANES, sum, offset);
            if (g == 0) column_sums[column + 8 * n + 2 * c + i] = sum * scale;
        }
}

// Whether a warp's own rows stay in registers while it walks over the others: where they are few values.
#define KEPT (PRECISION == BF16 && KS <= 2)

template <int N>
__device__ __forceinline__ void keep_rows(Left (&rows)[N], const half_t* p, int stride) {
#if KEPT
#pragma unroll
    for (int n = 0; n < N; ++n) rows[n] = left(p + n * DEPTH, stride);
#endif
}

// dqkv from dout, and bias_parts[prompt, 3·width] = Σ_t dqkv. A warp first owns 16 keys and gathers dk and dv from all
// queries that see them, then 16 queries and gathers dq: under a causal mask every warp has the same work in all.
extern "C" __global__ void __launch_bounds__(TILES* WARP, BLOCKS_AT_ONCE)
    attention_backward(half_t* dqkv, float* bias_parts, const half_t* dout, const half_t* out, const half_t* qkv,
                       const float* log_sums) {
    await_previous();
    extern __shared__ uint4 shared[];
    __shared__ float4 stats_of_two[PADDED / 2];
    __shared__ float column_sums[TILES][3][SIZE_PADDED];
    __shared__ uint4 results[TILES][RESULT_SIZE];
    // (log sum, delta) of every token, where delta_t = Σ_s weight · dweight = out_t · dout_t.
    float2* stats = reinterpret_cast<float2*>(stats_of_two);
    half_t* place = reinterpret_cast<half_t*>(shared);
    const int prompt = blockIdx.x / HEADS, head = blockIdx.x % HEADS;
    const u64 row0 = (u64)prompt * TOKENS;
    const half_t* from = qkv + row0 * 3 * WIDTH_ALL + head * SIZE;
    const half_t* q = stage(place, from, 3 * WIDTH_ALL);
    const half_t* k = stage(place, from + WIDTH_ALL, 3 * WIDTH_ALL);
    const half_t* v = stage(place, from + 2 * WIDTH_ALL, 3 * WIDTH_ALL);
    const half_t* d = stage(place, dout + row0 * WIDTH_ALL + head * SIZE, WIDTH_ALL);
    const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, c = lane % 4, g = lane / 4;
    const float scale = root_of_size();

    // Four lanes per token, eight tokens at a time.
#pragma unroll
    for (int token = 16 * warp + lane / 4; token < 16 * warp + 16; token += 8) {
        float sum = 0, log_sum = 0;
#if WEIGHTING == 0
        if (token < TOKENS) {
            log_sum = log_sums[(u64)blockIdx.x * TOKENS + token];
            const u64 at = (row0 + token) * WIDTH_ALL + head * SIZE;
#pragma unroll 4
            for (int i = GROUP * c; i < SIZE; i += 4 * GROUP) {
                const Group a = load_group(out + at + i), b = load_group(dout + at + i);
#pragma unroll
                for (int e = 0; e < GROUP; ++e) sum += a.x[e] * b.x[e];
            }
        }
        sum += __shfl_xor_sync(ALL_LANES, sum, 1);
        sum += __shfl_xor_sync(ALL_LANES, sum, 2);
#endif
        if (c == 0) stats[token] = make_float2(log_sum, sum);
    }
    await_staged();
    const int first = 16 * warp;
    half_t* result = reinterpret_cast<half_t*>(results[warp]);
    half_t* to = dqkv + row0 * 3 * WIDTH_ALL + head * SIZE;

    for (int column = 0; column < SIZE_PADDED; column += CHUNK) {
        float dk[CHUNK / 8][4], dv[CHUNK / 8][4];
#pragma unroll
        for (int n = 0; n < CHUNK / 8; ++n) {
            clear(dk[n]);
            clear(dv[n]);
        }
        Left own[2][KEPT ? KS : 1];
        keep_rows(own[0], k + first * STRIDE_QKV, STRIDE_QKV);
        keep_rows(own[1], v + first * STRIDE_QKV, STRIDE_QKV);
        for (int query = CAUSAL ? first : 0; query < PADDED; query += 16) {
            // Transposed: rows are keys, columns queries.
            float p[2][4], dp[2][4];
#pragma unroll
            for (int n = 0; n < 2; ++n) {
                clear(p[n]);
                clear(dp[n]);
            }
#pragma unroll 4
            for (int depth = 0; depth < SIZE_PADDED; depth += DEPTH) {
                const Left a = KEPT ? own[0][depth / DEPTH] : left(k + first * STRIDE_QKV + depth, STRIDE_QKV);
                const Left b = KEPT ? own[1][depth / DEPTH] : left(v + first * STRIDE_QKV + depth, STRIDE_QKV);
#pragma unroll
                for (int n = 0; n < 2; ++n) {
                    multiply(p[n], a, right_of_rows(q + (query + 8 * n) * STRIDE_QKV + depth, STRIDE_QKV));
                    multiply(dp[n], b, right_of_rows(d + (query + 8 * n) * STRIDE_OUT + depth, STRIDE_OUT));
                }
            }
            const bool masked = needs_mask(query, first, 16, false);
#pragma unroll
            for (int n = 0; n < 2; ++n) {
                const float4 two = stats_of_two[query / 2 + 4 * n + c];
                const float2 even = make_float2(two.x, two.y), odd = make_float2(two.z, two.w);
                const float2 stat[4] = {even, odd, even, odd};
                weigh(p[n], dp[n], stat, masked, true, first, query + 8 * n);
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
        store_gradient(to + WIDTH_ALL, result, column_sums[warp][1], dk, scale, first, column);
        store_gradient(to + 2 * WIDTH_ALL, result, column_sums[warp][2], dv, 1.0f, first, column);

        float dq[CHUNK / 8][4];
#pragma unroll
        for (int n = 0; n < CHUNK / 8; ++n) clear(dq[n]);
        const float2 low = stats[first + g], high = stats[first + g + 8];
        const float2 stat[4] = {low, low, high, high};
        keep_rows(own[0], q + first * STRIDE_QKV, STRIDE_QKV);
        keep_rows(own[1], d + first * STRIDE_OUT, STRIDE_OUT);
        for (int key = 0; key <= (CAUSAL ? first : PADDED - 1); key += 16) {
            float p[2][4], dp[2][4];
#pragma unroll
            for (int n = 0; n < 2; ++n) {
                clear(p[n]);
                clear(dp[n]);
            }
#pragma unroll 4
            for (int depth = 0; depth < SIZE_PADDED; depth += DEPTH) {
                const Left a = KEPT ? own[0][depth / DEPTH] : left(q + first * STRIDE_QKV + depth, STRIDE_QKV);
                const Left b = KEPT ? own[1][depth / DEPTH] : left(d + first * STRIDE_OUT + depth, STRIDE_OUT);
#pragma unroll
                for (int n = 0; n < 2; ++n) {
                    multiply(p[n], a, right_of_rows(k + (key + 8 * n) * STRIDE_QKV + depth, STRIDE_QKV));
                    multiply(dp[n], b, right_of_rows(v + (key + 8 * n) * STRIDE_QKV + depth, STRIDE_QKV));
                }
            }
            const bool masked = needs_mask(first, key, 16, false);
#pragma unroll
            for (int n = 0; n < 2; ++n) weigh(p[n], dp[n], stat, masked, false, first, key + 8 * n);
#pragma unroll
            for (int j = 0; j < 2; j += RESULTS_DEEP) {
                const Left a = left_of(dp + j);
#pragma unroll
                for (int n = 0; n < CHUNK / 8; ++n)
                    if (column + 8 * n < SIZE)
                        multiply(dq[n], a, right(k + (key + 8 * j) * STRIDE_QKV + column + 8 * n, STRIDE_QKV));
            }
        }
        store_gradient(to, result, column_sums[warp][0], dq, scale, first, column);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < 3 * SIZE; i += blockDim.x) {
        const int which = i / SIZE, at = i % SIZE;
        float sum = 0;
        for (int tile = 0; tile < TILES; ++tile) sum += column_sums[tile][which][at];
        bias_parts[(u64)prompt * 3 * WIDTH_ALL + which * WIDTH_ALL + head * SIZE + at] = sum;
    }
}

// The gradient of attention; follows attention.cu.

// The query that value i of a result belongs to, 16 × 8 pairs from (row, column) on. With KEYS_FIRST rows are keys and columns
// queries, else rows are queries; with the other of the two it is the key.
template <bool KEYS_FIRST>
__device__ __forceinline__ int query_of(int row, int column, int i) {
    const int lane = threadIdx.x % WARP;
    return KEYS_FIRST ? column + 2 * (lane % 4) + i % 2 : row + lane / 4 + 8 * (i / 2);
}

// Rows of queries, keys, values or gradients, from the first that counts on.
struct Rows {
    const half_t* first;
    int stride;
};

// 16 × 16 scores p = a · x and gradients of weights dp = b · y. `kept` holds a and b where they fit in registers.
__device__ __forceinline__ void scores(float (&p)[2][4], float (&dp)[2][4], const Left (&kept)[2][KEPT ? KS : 1], Rows a, Rows b, Rows x,
                                       Rows y) {
#pragma unroll
    for (int n = 0; n < 2; ++n) {
        clear(p[n]);
        clear(dp[n]);
    }
#pragma unroll 4
    for (int depth = 0; depth < SIZE_PADDED; depth += DEPTH) {
        const Left of_a = KEPT ? kept[0][depth / DEPTH] : left(a.first + depth, a.stride);
        const Left of_b = KEPT ? kept[1][depth / DEPTH] : left(b.first + depth, b.stride);
        Right two[2];
        rights_of_rows(two, x.first + depth, x.stride);
        multiply(p[0], of_a, two[0]);
        multiply(p[1], of_a, two[1]);
        rights_of_rows(two, y.first + depth, y.stride);
        multiply(dp[0], of_b, two[0]);
        multiply(dp[1], of_b, two[1]);
    }
}

// Turns scores into weights and gradients of weights into gradients of scores, but for the factor 1/√size, for
// 16 × 8 pairs. stat[i] = (log sum, delta) of the query that value i belongs to.
template <bool KEYS_FIRST>
__device__ __forceinline__ void weigh(float (&p)[4], float (&dp)[4], const float2 (&stat)[4], int row, int column) {
    const float scale = root_of_size();
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#if WEIGHTING == 0
        p[i] = power_of_two(fmaf(p[i], scale * LOG2_E, -stat[i].x));
        dp[i] = p[i] * (dp[i] - stat[i].y);
#else
        const float share = 1.0f / seen(query_of<KEYS_FIRST>(row, column, i));
        const bool positive = WEIGHTING != 1 || p[i] > 0;
        p[i] = positive ? p[i] * scale * share : 0.0f;
        dp[i] = positive ? dp[i] * share : 0.0f;
#endif
    }
}

// Clears what a query does not see.
template <bool KEYS_FIRST>
__device__ __forceinline__ void hide(float (&p)[4], float (&dp)[4], int row, int column) {
#pragma unroll
    for (int i = 0; i < 4; ++i)
        if (!sees(query_of<KEYS_FIRST>(row, column, i), query_of<!KEYS_FIRST>(row, column, i))) p[i] = dp[i] = 0;
}

// Writes a warp's 16 rows of a gradient, scaled, and their sum to column_sums[SIZE_PADDED] of this warp.
__device__ __forceinline__ void store_gradient(half_t* to, half_t* place, float* column_sums, float (*d)[4], float scale, int first,
                                               int column) {
    const int lane = threadIdx.x % WARP, g = lane / 4, c = lane % 4;
    // Under a causal mask, rows beyond the last token are zeros already.
    if (!CAUSAL || !STAGED) {
#pragma unroll
        for (int n = 0; n < CHUNK / 8; ++n) {
            if (first + g >= TOKENS) d[n][0] = d[n][1] = 0;
            if (first + g + 8 >= TOKENS) d[n][2] = d[n][3] = 0;
        }
    }
    store_rows(to, 3 * WIDTH_ALL, place, d, scale, scale, first, column);
    if constexpr (RESULTS_STAGED) {
        // A product with ones adds up the rows as they were stored.
#pragma unroll
        for (int n = 0; n < CHUNK / 8; n += 2) {
            float sums[2][4];
            clear(sums[0]);
            clear(sums[1]);
#pragma unroll
            for (int depth = 0; depth < 16; depth += DEPTH) {
                Right b[2];
                rights(b, place + depth * RESULT_STRIDE + 8 * n, RESULT_STRIDE);
                multiply(sums[0], ones(), b[0]);
                multiply(sums[1], ones(), b[1]);
            }
#pragma unroll
            for (int m = 0; m < 2; ++m)
                if (g == 0 && n + m < CHUNK / 8)
                    *reinterpret_cast<float2*>(column_sums + column + 8 * (n + m) + 2 * c) = make_float2(sums[m][0], sums[m][1]);
        }
        __syncwarp();
    } else {
#pragma unroll
        for (int n = 0; n < CHUNK / 8; ++n)
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                float sum = d[n][i] + d[n][2 + i];
#pragma unroll
                for (int offset = 4; offset < WARP; offset *= 2) sum += __shfl_xor_sync(ALL_LANES, sum, offset);
                if (g == 0) column_sums[column + 8 * n + 2 * c + i] = sum * scale;
            }
    }
}

// dqkv from dout, and bias_parts[prompt, 3·width] = Σ_t dqkv. A warp first owns 16 keys and gathers dk and dv from all
// queries that see them, then 16 queries and gathers dq: under a causal mask every warp has the same work in all.
extern "C" __global__ void __launch_bounds__(BACKWARD_THREADS, BACKWARD_BLOCKS)
    attention_backward(half_t* dqkv, float* bias_parts, const half_t* dout, const half_t* out, const half_t* qkv,
                       const float* log_sums) {
    await_previous();
    extern __shared__ uint4 shared[];
    __shared__ float4 stats_of_two[PADDED / 2];
    __shared__ __align__(8) float column_sums[TILES][3][SIZE_PADDED];
    __shared__ uint4 results[TILES][RESULT_SIZE];
    // (log sum, delta) of every token, where delta_t = Σ_s weight · dweight = out_t · dout_t.
    float2* stats = reinterpret_cast<float2*>(stats_of_two);
    half_t* place = reinterpret_cast<half_t*>(shared);
    // The last prompt first: the product that reads these gradients begins with the first, and finds it in the cache.
    const int block = gridDim.x - 1 - blockIdx.x, prompt = block / HEADS, head = block % HEADS;
    const u64 row0 = (u64)prompt * TOKENS;
    const half_t* from = qkv + row0 * 3 * WIDTH_ALL + head * SIZE;
    const half_t* q = stage<BACKWARD_THREADS>(place, from, 3 * WIDTH_ALL);
    const half_t* k = stage<BACKWARD_THREADS>(place, from + WIDTH_ALL, 3 * WIDTH_ALL);
    const half_t* v = stage<BACKWARD_THREADS>(place, from + 2 * WIDTH_ALL, 3 * WIDTH_ALL);
    const half_t* d = stage<BACKWARD_THREADS>(place, dout + row0 * WIDTH_ALL + head * SIZE, WIDTH_ALL);
    const int warp = warp_number(), lane = threadIdx.x % WARP, c = lane % 4, g = lane / 4;
    const float scale = root_of_size();

    // Four lanes per token, eight tokens at a time. Beyond the last token the last is read, and nothing kept of it.
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int token = 16 * warp + 8 * half + g;
        float sum = 0, log_sum = 0;
#if WEIGHTING == 0
        const int inside = min(token, TOKENS - 1);
        log_sum = log_sums[(u64)block * TOKENS + inside];
        const u64 at = (row0 + inside) * WIDTH_ALL + head * SIZE;
#pragma unroll
        for (int i = 0; i < SIZE; i += 4 * GROUP)
            if (i + GROUP * c < SIZE) {
                const Group a = load_group(out + at + i + GROUP * c), b = load_group(dout + at + i + GROUP * c);
#pragma unroll
                for (int e = 0; e < GROUP; ++e) sum += a.x[e] * b.x[e];
            }
        sum += __shfl_xor_sync(ALL_LANES, sum, 1);
        sum += __shfl_xor_sync(ALL_LANES, sum, 2);
#endif
        if (c == 0) stats[token] = token < TOKENS ? make_float2(log_sum, sum) : make_float2(0, 0);
    }
    await_staged();
    const int first = 16 * warp;
    const Rows own_q = {q + first * STRIDE_QKV, STRIDE_QKV}, own_k = {k + first * STRIDE_QKV, STRIDE_QKV};
    const Rows own_v = {v + first * STRIDE_QKV, STRIDE_QKV}, own_d = {d + first * STRIDE_OUT, STRIDE_OUT};
    half_t* result = reinterpret_cast<half_t*>(results[warp]);
    half_t* to = dqkv + row0 * 3 * WIDTH_ALL + head * SIZE;

    for (int column = 0; column < SIZE_PADDED; column += CHUNK) {
        float dk[CHUNK / 8][4], dv[CHUNK / 8][4];
#pragma unroll
        for (int n = 0; n < CHUNK / 8; ++n) {
            clear(dk[n]);
            clear(dv[n]);
        }
        Left kept[2][KEPT ? KS : 1];
        keep_rows(kept[0], own_k.first, own_k.stride);
        keep_rows(kept[1], own_v.first, own_v.stride);
        for (int query = CAUSAL ? first : 0; query < PADDED; query += 16) {
            // Transposed: rows are keys, columns queries.
            float p[2][4], dp[2][4];
            scores(p, dp, kept, own_k, own_v, {q + query * STRIDE_QKV, STRIDE_QKV}, {d + query * STRIDE_OUT, STRIDE_OUT});
#pragma unroll
            for (int n = 0; n < 2; ++n) {
                const float4 two = stats_of_two[query / 2 + 4 * n + c];
                const float2 even = make_float2(two.x, two.y), odd = make_float2(two.z, two.w);
                const float2 stat[4] = {even, odd, even, odd};
                weigh<true>(p[n], dp[n], stat, first, query + 8 * n);
            }
            if (needs_mask(query, first, 16, false)) {
                hide<true>(p[0], dp[0], first, query);
                hide<true>(p[1], dp[1], first, query + 8);
            }
#pragma unroll
            for (int j = 0; j < 2; j += RESULTS_DEEP) {
                const Left a = left_of(p + j), b = left_of(dp + j);
#pragma unroll
                for (int n = 0; n < CHUNK / 8; n += 2) {
                    const int at = column + 8 * n;
                    if (at < SIZE) {
                        Right two[2];
                        rights(two, d + (query + 8 * j) * STRIDE_OUT + at, STRIDE_OUT);
                        multiply(dv[n], a, two[0]);
                        if (n + 1 < CHUNK / 8) multiply(dv[n + 1], a, two[1]);
                        rights(two, q + (query + 8 * j) * STRIDE_QKV + at, STRIDE_QKV);
                        multiply(dk[n], b, two[0]);
                        if (n + 1 < CHUNK / 8) multiply(dk[n + 1], b, two[1]);
                    }
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
        keep_rows(kept[0], own_q.first, own_q.stride);
        keep_rows(kept[1], own_d.first, own_d.stride);
        for (int key = 0; key <= (CAUSAL ? first : PADDED - 1); key += 16) {
            float p[2][4], dp[2][4];
            scores(p, dp, kept, own_q, own_d, {k + key * STRIDE_QKV, STRIDE_QKV}, {v + key * STRIDE_QKV, STRIDE_QKV});
#pragma unroll
            for (int n = 0; n < 2; ++n) weigh<false>(p[n], dp[n], stat, first, key + 8 * n);
            if (needs_mask(first, key, 16, false)) {
                hide<false>(p[0], dp[0], first, key);
                hide<false>(p[1], dp[1], first, key + 8);
            }
#pragma unroll
            for (int j = 0; j < 2; j += RESULTS_DEEP) {
                const Left a = left_of(dp + j);
#pragma unroll
                for (int n = 0; n < CHUNK / 8; n += 2) {
                    const int at = column + 8 * n;
                    if (at < SIZE) {
                        Right two[2];
                        rights(two, k + (key + 8 * j) * STRIDE_QKV + at, STRIDE_QKV);
                        multiply(dq[n], a, two[0]);
                        if (n + 1 < CHUNK / 8) multiply(dq[n + 1], a, two[1]);
                    }
                }
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

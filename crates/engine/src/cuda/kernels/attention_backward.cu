// Attention, backward: the gradients of queries, keys and values; follows attention_common.cuh.

// The query that value i of an accumulator belongs to, 16 × 8 pairs from (row, column) on. With KEYS_FIRST rows are keys and columns
// queries, else rows are queries; with the other of the two it is the key.
template <bool KEYS_FIRST>
__device__ __forceinline__ int query_of(int row, int column, int i) {
    const int lane = threadIdx.x % WARP;
    return KEYS_FIRST ? column + 2 * (lane % 4) + i % 2 : row + lane / 4 + 8 * (i / 2);
}

// Rows of queries, keys, values or gradients, from the first that counts on; `tokens` are left from there.
struct Rows {
    const storage_t* first;
    int stride, tokens;
};

// 16 × 16 scores p = a · x and gradients of weights dp = b · y. `own` holds a and b where they fit in registers.
__device__ __forceinline__ void scores(float (&p)[2][4], float (&dp)[2][4],
                                       const FragmentA (&own)[2][OWN_IN_REGISTERS ? K_STEPS : 1], Rows a, Rows b,
                                       Rows x, Rows y) {
#pragma unroll
    for (int n = 0; n < 2; ++n) {
        zero(p[n]);
        zero(dp[n]);
    }
#pragma unroll 4
    for (int k0 = 0; k0 < HEAD_DIM_PADDED; k0 += MMA_K) {
        const FragmentA of_a = OWN_IN_REGISTERS ? own[0][k0 / MMA_K] : load_a(a.first + k0, a.stride, a.tokens, HEAD_DIM - k0);
        const FragmentA of_b = OWN_IN_REGISTERS ? own[1][k0 / MMA_K] : load_a(b.first + k0, b.stride, b.tokens, HEAD_DIM - k0);
        FragmentB two[2];
        load_b_nk_x2(two, x.first + k0, x.stride, x.tokens, HEAD_DIM - k0);
        mma(p[0], of_a, two[0]);
        mma(p[1], of_a, two[1]);
        load_b_nk_x2(two, y.first + k0, y.stride, y.tokens, HEAD_DIM - k0);
        mma(dp[0], of_b, two[0]);
        mma(dp[1], of_b, two[1]);
    }
}

// Turns scores into weights and gradients of weights into gradients of scores, but for the factor 1/√HEAD_DIM, for
// 16 × 8 pairs. stat[i] = (log-sum-exp, delta) of the query that value i belongs to.
template <bool KEYS_FIRST>
__device__ __forceinline__ void weights_and_dscores(float (&p)[4], float (&dp)[4], const float2 (&stat)[4], int row, int column) {
    const float scale = attention_scale();
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#if WEIGHTING == 0
        p[i] = exp2_approx(fmaf(p[i], scale * LOG2_E, -stat[i].x));
        dp[i] = p[i] * (dp[i] - stat[i].y);
#else
        const float share = 1.0f / visible_keys(query_of<KEYS_FIRST>(row, column, i));
        const bool positive = WEIGHTING != 1 || p[i] > 0;
        p[i] = positive ? p[i] * scale * share : 0.0f;
        dp[i] = positive ? dp[i] * share : 0.0f;
#endif
    }
}

// Zeros what a query does not see.
template <bool KEYS_FIRST>
__device__ __forceinline__ void mask_out(float (&p)[4], float (&dp)[4], int row, int column) {
#pragma unroll
    for (int i = 0; i < 4; ++i)
        if (!visible(query_of<KEYS_FIRST>(row, column, i), query_of<!KEYS_FIRST>(row, column, i))) p[i] = dp[i] = 0;
}

// Writes a warp's 16 rows of a gradient, scaled, and their sum to column_sums[HEAD_DIM_PADDED] of this warp.
__device__ __forceinline__ void store_gradient(storage_t* to, storage_t* scratch, float* column_sums, float (*d)[4],
                                               float scale, int first, int column) {
    const int lane = threadIdx.x % WARP, g = lane / 4, c = lane % 4;
    // Under a causal mask, rows beyond the last token are zeros already.
    if (!CAUSAL || !STAGED) {
#pragma unroll
        for (int n = 0; n < ACC_COLUMNS / 8; ++n) {
            if (first + g >= TOKENS) d[n][0] = d[n][1] = 0;
            if (first + g + 8 >= TOKENS) d[n][2] = d[n][3] = 0;
        }
    }
    store_rows(to, 3 * WIDTH, scratch, d, scale, scale, first, column);
    if constexpr (OUTPUT_STAGED) {
        // A product with ones adds up the rows as they were stored.
#pragma unroll
        for (int n = 0; n < ACC_COLUMNS / 8; n += 2) {
            float sums[2][4];
            zero(sums[0]);
            zero(sums[1]);
#pragma unroll
            for (int k0 = 0; k0 < 16; k0 += MMA_K) {
                FragmentB b[2];
                load_b_kn_x2(b, scratch + k0 * OUTPUT_STRIDE + 8 * n, OUTPUT_STRIDE);
                mma(sums[0], a_of_ones(), b[0]);
                mma(sums[1], a_of_ones(), b[1]);
            }
#pragma unroll
            for (int m = 0; m < 2; ++m)
                if (g == 0 && n + m < ACC_COLUMNS / 8)
                    *reinterpret_cast<float2*>(column_sums + column + 8 * (n + m) + 2 * c) = make_float2(sums[m][0], sums[m][1]);
        }
        __syncwarp();
    } else {
#pragma unroll
        for (int n = 0; n < ACC_COLUMNS / 8; ++n) {
            if (!in_head(column + 8 * n)) continue;
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                float sum = d[n][i] + d[n][2 + i];
#pragma unroll
                for (int offset = 4; offset < WARP; offset *= 2) sum += __shfl_xor_sync(FULL_MASK, sum, offset);
                if (g == 0) column_sums[column + 8 * n + 2 * c + i] = sum * scale;
            }
        }
    }
}

// dqkv from dout, and bias_partials[prompt, 3·width] = Σ_t dqkv. A warp first owns 16 keys and gathers dk and dv from all
// queries that see them, then 16 queries and gathers dq: under a causal mask every warp has the same work in all.
extern "C" __global__ void __launch_bounds__(BACKWARD_THREADS, BACKWARD_BLOCKS)
    attention_backward(storage_t* dqkv, float* bias_partials, const storage_t* dout, const storage_t* out, const storage_t* qkv,
                       const float* lse) {
    pdl_wait();
    extern __shared__ uint4 shared[];
    __shared__ float4 stats_of_two[TOKENS_PADDED / 2];
    __shared__ __align__(8) float column_sums[TILES][3][HEAD_DIM_PADDED];
    __shared__ uint4 outputs[TILES][OUTPUT_VECTORS];
    // (log-sum-exp, delta) of every token, where delta_t = Σ_s weight · dweight = out_t · dout_t.
    float2* stats = reinterpret_cast<float2*>(stats_of_two);
    storage_t* next = reinterpret_cast<storage_t*>(shared);
    // The last prompt first: the matmul that reads these gradients begins with the first, and finds it in L2.
    const int block = gridDim.x - 1 - blockIdx.x, prompt = block / HEADS, head = block % HEADS;
    const u64 row0 = (u64)prompt * TOKENS;
    const storage_t* from = qkv + row0 * 3 * WIDTH + head * HEAD_DIM;
    const storage_t* q = stage<BACKWARD_THREADS>(next, from, 3 * WIDTH);
    const storage_t* k = stage<BACKWARD_THREADS>(next, from + WIDTH, 3 * WIDTH);
    const storage_t* v = stage<BACKWARD_THREADS>(next, from + 2 * WIDTH, 3 * WIDTH);
    const storage_t* d = stage<BACKWARD_THREADS>(next, dout + row0 * WIDTH + head * HEAD_DIM, WIDTH);
    const int warp = warp_index(), lane = threadIdx.x % WARP, c = lane % 4, g = lane / 4;
    const float scale = attention_scale();

    // Four lanes per token, eight tokens at a time. Beyond the last token the last is read, and discarded.
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int token = 16 * warp + 8 * half + g;
        float sum = 0, lse_t = 0;
#if WEIGHTING == 0
        const int inside = min(token, TOKENS - 1);
        lse_t = lse[(u64)block * TOKENS + inside];
        const u64 at = (row0 + inside) * WIDTH + head * HEAD_DIM;
#pragma unroll
        for (int i = 0; i < HEAD_DIM; i += 4 * VEC)
            if (i + VEC * c < HEAD_DIM) {
                const Vec a = load_vec(out + at + i + VEC * c), b = load_vec(dout + at + i + VEC * c);
#pragma unroll
                for (int e = 0; e < VEC; ++e) sum += a.x[e] * b.x[e];
            }
        sum += __shfl_xor_sync(FULL_MASK, sum, 1);
        sum += __shfl_xor_sync(FULL_MASK, sum, 2);
#endif
        if (c == 0) stats[token] = token < TOKENS ? make_float2(lse_t, sum) : make_float2(0, 0);
    }
    wait_staged();
    const int first = 16 * warp;
    const auto rows_of = [](const storage_t* operand, int from) {
        return Rows{operand + from * STRIDE_QKV, STRIDE_QKV, TOKENS - from};
    };
    const auto rows_of_d = [=](int from) { return Rows{d + from * STRIDE_OUT, STRIDE_OUT, TOKENS - from}; };
    const Rows own_q = rows_of(q, first), own_k = rows_of(k, first), own_v = rows_of(v, first), own_d = rows_of_d(first);
    storage_t* scratch = reinterpret_cast<storage_t*>(outputs[warp]);
    storage_t* to = dqkv + row0 * 3 * WIDTH + head * HEAD_DIM;

    for (int column = 0; column < HEAD_DIM_PADDED; column += ACC_COLUMNS) {
        float dk[ACC_COLUMNS / 8][4], dv[ACC_COLUMNS / 8][4];
#pragma unroll
        for (int n = 0; n < ACC_COLUMNS / 8; ++n) {
            zero(dk[n]);
            zero(dv[n]);
        }
        FragmentA own[2][OWN_IN_REGISTERS ? K_STEPS : 1];
        load_own(own[0], own_k.first, own_k.stride, own_k.tokens);
        load_own(own[1], own_v.first, own_v.stride, own_v.tokens);
        for (int query = CAUSAL ? first : 0; query < TOKENS_PADDED; query += 16) {
            // Transposed: rows are keys, columns queries.
            float p[2][4], dp[2][4];
            scores(p, dp, own, own_k, own_v, rows_of(q, query), rows_of_d(query));
#pragma unroll
            for (int n = 0; n < 2; ++n) {
                const float4 two = stats_of_two[query / 2 + 4 * n + c];
                const float2 even = make_float2(two.x, two.y), odd = make_float2(two.z, two.w);
                const float2 stat[4] = {even, odd, even, odd};
                weights_and_dscores<true>(p[n], dp[n], stat, first, query + 8 * n);
            }
            if (needs_mask(query, first, 16, false)) {
                mask_out<true>(p[0], dp[0], first, query);
                mask_out<true>(p[1], dp[1], first, query + 8);
            }
#pragma unroll
            for (int j = 0; j < 2; j += ACCUMULATORS_PER_A) {
                const FragmentA a = a_from_accumulators(p + j), b = a_from_accumulators(dp + j);
#pragma unroll
                for (int n = 0; n < ACC_COLUMNS / 8; n += 2) {
                    const int at = column + 8 * n;
                    if (at < HEAD_DIM) {
                        FragmentB two[2];
                        const int left = TOKENS - query - 8 * j;
                        load_b_kn_x2(two, d + (query + 8 * j) * STRIDE_OUT + at, STRIDE_OUT, left, HEAD_DIM - at);
                        mma(dv[n], a, two[0]);
                        if (n + 1 < ACC_COLUMNS / 8) mma(dv[n + 1], a, two[1]);
                        load_b_kn_x2(two, q + (query + 8 * j) * STRIDE_QKV + at, STRIDE_QKV, left, HEAD_DIM - at);
                        mma(dk[n], b, two[0]);
                        if (n + 1 < ACC_COLUMNS / 8) mma(dk[n + 1], b, two[1]);
                    }
                }
            }
        }
        store_gradient(to + WIDTH, scratch, column_sums[warp][1], dk, scale, first, column);
        store_gradient(to + 2 * WIDTH, scratch, column_sums[warp][2], dv, 1.0f, first, column);

        float dq[ACC_COLUMNS / 8][4];
#pragma unroll
        for (int n = 0; n < ACC_COLUMNS / 8; ++n) zero(dq[n]);
        const float2 low = stats[first + g], high = stats[first + g + 8];
        const float2 stat[4] = {low, low, high, high};
        load_own(own[0], own_q.first, own_q.stride, own_q.tokens);
        load_own(own[1], own_d.first, own_d.stride, own_d.tokens);
        for (int key = 0; key <= (CAUSAL ? first : TOKENS_PADDED - 1); key += 16) {
            float p[2][4], dp[2][4];
            scores(p, dp, own, own_q, own_d, rows_of(k, key), rows_of(v, key));
#pragma unroll
            for (int n = 0; n < 2; ++n) weights_and_dscores<false>(p[n], dp[n], stat, first, key + 8 * n);
            if (needs_mask(first, key, 16, false)) {
                mask_out<false>(p[0], dp[0], first, key);
                mask_out<false>(p[1], dp[1], first, key + 8);
            }
#pragma unroll
            for (int j = 0; j < 2; j += ACCUMULATORS_PER_A) {
                const FragmentA a = a_from_accumulators(dp + j);
#pragma unroll
                for (int n = 0; n < ACC_COLUMNS / 8; n += 2) {
                    const int at = column + 8 * n;
                    if (at < HEAD_DIM) {
                        FragmentB two[2];
                        const int left = TOKENS - key - 8 * j;
                        load_b_kn_x2(two, k + (key + 8 * j) * STRIDE_QKV + at, STRIDE_QKV, left, HEAD_DIM - at);
                        mma(dq[n], a, two[0]);
                        if (n + 1 < ACC_COLUMNS / 8) mma(dq[n + 1], a, two[1]);
                    }
                }
            }
        }
        store_gradient(to, scratch, column_sums[warp][0], dq, scale, first, column);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < 3 * HEAD_DIM; i += blockDim.x) {
        const int which = i / HEAD_DIM, at = i % HEAD_DIM;
        float sum = 0;
        for (int tile = 0; tile < TILES; ++tile) sum += column_sums[tile][which][at];
        bias_partials[(u64)prompt * 3 * WIDTH + which * WIDTH + head * HEAD_DIM + at] = sum;
    }
}

// Attention, forward: scores, weights and out of one head of one prompt per block; follows attention_common.cuh.

// Tiles of keys whose scores a warp has in registers at once; all of them where they are few, or a head is too wide to be summed up in
// one go. Else the softmax is taken as it comes: what was summed up is scaled anew whenever a row's maximum grows.
#define CHUNK (TILES > 6 && HEAD_DIM_PADDED <= ACC_COLUMNS ? FORWARD_CHUNK : TILES)

// Tiles `from + t` of a chunk of which some query from `first` on sees something.
#define FOR_TILES(t)                                   \
    _Pragma("unroll") for (int t = 0; t < CHUNK; ++t) \
        if ((TILES % CHUNK == 0 || from + t < TILES) && (!CAUSAL || 16 * (from + t) <= first))

// The 16 queries from `first` on. `scratch` is this warp's alone once its queries are read.
__device__ __forceinline__ void attend(storage_t* to, float* lse, const storage_t* q, const storage_t* k,
                                       const storage_t* v, storage_t* scratch, int first) {
    const int lane = threadIdx.x % WARP, g = lane / 4, c = lane % 4;
    const float scale = attention_scale();
    // Two rows per lane: g and g + 8. `row_scale` is applied to the result at the end.
    float s[CHUNK][2][4], row_scale[2], o[ACC_COLUMNS / 8][4];
    float row_max[2] = {-INF, -INF}, sum[2] = {0, 0}, shift[2] = {0, 0};
    FragmentA own[OWN_IN_REGISTERS ? K_STEPS : 1];
    load_own(own, q + first * STRIDE_QKV, STRIDE_QKV, TOKENS - first);
    const auto clear_sums = [&]() {
#pragma unroll
        for (int n = 0; n < ACC_COLUMNS / 8; ++n) zero(o[n]);
    };
    const auto add_values = [&](int from, int column) {
        FOR_TILES(t) {
#pragma unroll
            for (int j = 0; j < 2; j += ACCUMULATORS_PER_A) {
                const FragmentA a = a_from_accumulators(s[t] + j);
#pragma unroll
                for (int n = 0; n < ACC_COLUMNS / 8; n += 2) {
                    const int at = column + 8 * n;
                    if (at < HEAD_DIM) {
                        FragmentB two[2];
                        const int key = 16 * (from + t) + 8 * j;
                        load_b_kn_x2(two, v + key * STRIDE_QKV + at, STRIDE_QKV, TOKENS - key, HEAD_DIM - at);
                        mma(o[n], a, two[0]);
                        if (n + 1 < ACC_COLUMNS / 8) mma(o[n + 1], a, two[1]);
                    }
                }
            }
        }
    };

    clear_sums();
#pragma unroll 1
    for (int from = 0; from < TILES && (!CAUSAL || 16 * from <= first); from += CHUNK) {
        FOR_TILES(t) {
            zero(s[t][0]);
            zero(s[t][1]);
            const int key = 16 * (from + t);
#pragma unroll 4
            for (int k0 = 0; k0 < HEAD_DIM_PADDED; k0 += MMA_K) {
                const FragmentA a = OWN_IN_REGISTERS ? own[k0 / MMA_K]
                                                     : load_a(q + first * STRIDE_QKV + k0, STRIDE_QKV, TOKENS - first, HEAD_DIM - k0);
                FragmentB two[2];
                load_b_nk_x2(two, k + key * STRIDE_QKV + k0, STRIDE_QKV, TOKENS - key, HEAD_DIM - k0);
                mma(s[t][0], a, two[0]);
                mma(s[t][1], a, two[1]);
            }
            // What a row does not see: -∞ for a softmax, else 0.
            if (needs_mask(first, key, 16, true)) {
#pragma unroll
                for (int i = 0; i < 8; ++i)
                    if (!visible(first + g + 8 * (i / 2 % 2), key + 8 * (i / 4) + 2 * c + i % 2))
                        s[t][i / 4][i % 4] = WEIGHTING == 0 ? -INF : 0.0f;
            }
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                float& value = s[t][i / 4][i % 4];
                if (WEIGHTING == 0) row_max[i / 2 % 2] = fmaxf(row_max[i / 2 % 2], value);
                if (WEIGHTING == 1) value = fmaxf(value, 0.0f);
            }
        }
#if WEIGHTING == 0
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            row_max[half] = fmaxf(row_max[half], __shfl_xor_sync(FULL_MASK, row_max[half], 1));
            row_max[half] = fmaxf(row_max[half], __shfl_xor_sync(FULL_MASK, row_max[half], 2));
            const float before = shift[half];
            // A row beyond the last token may see nothing.
            shift[half] = row_max[half] == -INF ? 0.0f : row_max[half] * (scale * LOG2_E);
            if (CHUNK < TILES && from > 0) {
                const float shrink = exp2_approx(before - shift[half]);
                sum[half] *= shrink;
#pragma unroll
                for (int n = 0; n < ACC_COLUMNS / 8; ++n) {
                    o[n][2 * half] *= shrink;
                    o[n][2 * half + 1] *= shrink;
                }
            }
        }
        FOR_TILES(t) {
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                float& value = s[t][i / 4][i % 4];
                value = exp2_approx(fmaf(value, scale * LOG2_E, -shift[i / 2 % 2]));
                sum[i / 2 % 2] += value;
            }
        }
#endif
        if (CHUNK < TILES) add_values(from, 0);
    }

#if WEIGHTING == 0
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        sum[half] += __shfl_xor_sync(FULL_MASK, sum[half], 1);
        sum[half] += __shfl_xor_sync(FULL_MASK, sum[half], 2);
        row_scale[half] = __fdividef(1.0f, sum[half]);
        const int row = first + g + 8 * half;
        if (lse && c == 0 && row < TOKENS) lse[row] = shift[half] + __log2f(sum[half]);
    }
#else
    row_scale[0] = scale / visible_keys(first + g);
    row_scale[1] = scale / visible_keys(first + g + 8);
#endif

    __syncwarp();
    if (CHUNK < TILES) return store_rows(to, WIDTH, scratch, o, row_scale[0], row_scale[1], first, 0);
    for (int column = 0; column < HEAD_DIM_PADDED; column += ACC_COLUMNS) {
        clear_sums();
        add_values(0, column);
        store_rows(to, WIDTH, scratch, o, row_scale[0], row_scale[1], first, column);
    }
}

// out[t] = Σ_s weight(q_t·k_s) v_s; lse[t] = log2 Σ_s exp(score), the log-sum-exp that the backward pass reads. A warp takes a tile from the
// beginning and one from the end of the prompt: under a causal mask every warp has the same work.
extern "C" __global__ void __launch_bounds__(FORWARD_THREADS, FORWARD_BLOCKS)
    attention_forward(storage_t* out, float* lse, const storage_t* qkv) {
    pdl_wait();
    extern __shared__ uint4 shared[];
#if !STAGED
    __shared__ uint4 outputs[(TILES + 1) / 2][OUTPUT_VECTORS];
#endif
    storage_t* next = reinterpret_cast<storage_t*>(shared);
    const int prompt = blockIdx.x / HEADS, head = blockIdx.x % HEADS;
    const storage_t* from = qkv + (u64)prompt * TOKENS * 3 * WIDTH + head * HEAD_DIM;
    const storage_t* q = stage<FORWARD_THREADS>(next, from, 3 * WIDTH);
    const storage_t* k = stage<FORWARD_THREADS>(next, from + WIDTH, 3 * WIDTH);
    const storage_t* v = stage<FORWARD_THREADS>(next, from + 2 * WIDTH, 3 * WIDTH);
    wait_staged();
    storage_t* to = out + (u64)prompt * TOKENS * WIDTH + head * HEAD_DIM;
    if (lse) lse += (u64)blockIdx.x * TOKENS;
    const int warp = warp_index();
    for (int tile = warp;; tile = TILES - 1 - warp) {
#if STAGED
        // Queries are read by their own warp alone, whose outputs take their place.
        storage_t* scratch = const_cast<storage_t*>(q) + 16 * tile * STRIDE_QKV;
#else
        storage_t* scratch = reinterpret_cast<storage_t*>(outputs[warp]);
#endif
        attend(to, lse, q, k, v, scratch, 16 * tile);
        if (tile >= TILES - 1 - warp) break;
    }
}

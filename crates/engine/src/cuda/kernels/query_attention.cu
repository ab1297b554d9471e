// Attention of single query tokens after a shared prefix: each sees the first tokens of its prompt, as the KV cache has them, and
// itself, no other query.
//
// Defined by the program: HEADS, HEAD_DIM (a multiple of 8), WEIGHTING (0 softmax, 1 ReLU, 2 linear).

#define WIDTH (HEADS * HEAD_DIM)
#define ROW (3 * WIDTH)
#define WARPS 4
// Queries of a warp: every key and value that it loads serves all of them.
#define QUERIES 4

__device__ __forceinline__ float warp_max(float x) {
#pragma unroll
    for (int offset = WARP / 2; offset > 0; offset /= 2) x = fmaxf(x, __shfl_xor_sync(FULL_MASK, x, offset));
    return x;
}

// q·k of a query with its own key.
__device__ __forceinline__ float own_score(const storage_t* query) {
    float sum = 0;
#pragma unroll
    for (int d = 0; d < HEAD_DIM; d += VEC) {
        const Vec q = load_vec(query + d), k = load_vec(query + WIDTH + d);
#pragma unroll
        for (int j = 0; j < VEC; ++j) sum += q.x[j] * k.x[j];
    }
    return sum;
}

// Turns scores of `keys` keys into weights, but for a factor that is returned: every lane has it.
__device__ __forceinline__ float weigh(float* scores, int keys) {
    const float scale = 1.0f / sqrtf((float)HEAD_DIM);
#if WEIGHTING == 0
    float high = scores[0], sum = 0;
    for (int key = threadIdx.x % WARP; key < keys; key += WARP) high = fmaxf(high, scores[key]);
    high = warp_max(high);
    // Every lane has read the first score, which one of them overwrites.
    __syncwarp();
    for (int key = threadIdx.x % WARP; key < keys; key += WARP) {
        const float weight = expf((scores[key] - high) * scale);
        scores[key] = weight;
        sum += weight;
    }
    return 1.0f / warp_sum(sum);
#else
#if WEIGHTING == 1
    for (int key = threadIdx.x % WARP; key < keys; key += WARP) scores[key] = fmaxf(scores[key], 0.0f);
#endif
    return scale / keys;
#endif
}

// out[b, q] of one head = Σ_s weight(q·k_s) v_s over the first *prefix_tokens of the `tokens` tokens of prompt b, and the query itself.
// qkv is [batch, queries, ROW], prefix [batch, tokens, ROW]. A warp takes QUERIES queries of one head; its scores lie in shared memory,
// [QUERIES, tokens + 1].
extern "C" __global__ void __launch_bounds__(WARPS* WARP)
    query_attention(storage_t* out, const storage_t* qkv, const storage_t* prefix, const int* prefix_tokens, int queries,
                    int tokens) {
    pdl_wait();
    extern __shared__ float shared[];
    const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    const int groups = (queries + WARPS * QUERIES - 1) / (WARPS * QUERIES);
    const int group = blockIdx.x % groups, head = blockIdx.x / groups % HEADS, prompt = blockIdx.x / groups / HEADS;
    const int first = (group * WARPS + warp) * QUERIES, count = min(QUERIES, queries - first);
    if (count <= 0) return;
    const int seen = *prefix_tokens, pitch = tokens + 1;
    const storage_t* cache = prefix + (u64)prompt * tokens * ROW + head * HEAD_DIM;
    const u64 row = (u64)prompt * queries + first;
    // Where there are fewer queries the last one is computed several times, and written once.
    const storage_t* query[QUERIES];
#pragma unroll
    for (int i = 0; i < QUERIES; ++i) query[i] = qkv + (row + min(i, count - 1)) * ROW + head * HEAD_DIM;

    float* scores = shared + warp * QUERIES * pitch;
    for (int key = lane; key < seen; key += WARP) {
        const storage_t* k = cache + (u64)key * ROW + WIDTH;
        float sums[QUERIES] = {};
#pragma unroll 4
        for (int d = 0; d < HEAD_DIM; d += VEC) {
            const Vec of_key = load_vec(k + d);
#pragma unroll
            for (int i = 0; i < QUERIES; ++i) {
                const Vec q = load_vec(query[i] + d);
#pragma unroll
                for (int j = 0; j < VEC; ++j) sums[i] += q.x[j] * of_key.x[j];
            }
        }
#pragma unroll
        for (int i = 0; i < QUERIES; ++i) scores[i * pitch + key] = sums[i];
    }
#pragma unroll
    for (int i = 0; i < QUERIES; ++i)
        if (lane == i) scores[i * pitch + seen] = own_score(query[i]);
    __syncwarp();

    float factor[QUERIES];
#pragma unroll
    for (int i = 0; i < QUERIES; ++i) factor[i] = weigh(scores + i * pitch, seen + 1);
    __syncwarp();

    for (int d = lane; d < HEAD_DIM; d += WARP) {
        float sums[QUERIES];
#pragma unroll
        for (int i = 0; i < QUERIES; ++i) sums[i] = scores[i * pitch + seen] * to_float(query[i][2 * WIDTH + d]);
#pragma unroll 4
        for (int key = 0; key < seen; ++key) {
            const float v = to_float(cache[(u64)key * ROW + 2 * WIDTH + d]);
#pragma unroll
            for (int i = 0; i < QUERIES; ++i) sums[i] += scores[i * pitch + key] * v;
        }
#pragma unroll
        for (int i = 0; i < QUERIES; ++i)
            if (i < count) out[(row + i) * WIDTH + head * HEAD_DIM + d] = to_storage(sums[i] * factor[i]);
    }
}

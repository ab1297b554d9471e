// The read-in of tokens into the residual stream, with positions, and its backward pass. Defined by the program: WIDTH, FEATURES.

// Rows of tokens that are staged in shared memory together: all of a block's where they are few numbers.
#define TOKEN_ROWS (FEATURES <= 32 ? 96 : 16)

__device__ __forceinline__ void stage_tokens(float (&to)[TOKEN_ROWS][FEATURES], const float* tokens, int first, int end) {
    __syncthreads();
    for (int i = threadIdx.x; i < TOKEN_ROWS * FEATURES; i += blockDim.x)
        if (first + i / FEATURES < end) to[i / FEATURES][i % FEATURES] = tokens[(u64)first * FEATURES + i];
    __syncthreads();
}

// out[r, e] = Σ_f tokens[r, f] w[e, f] + b[e] (+ positions[r % period, e]); one thread per e, a block owns a few rows. Positions
// are counted from *prefix_tokens on, where there is a prefix.
extern "C" __global__ void read_in(float* out, storage_t* out_storage, const float* tokens, const float* w, const float* b,
                                   const float* positions, const int* prefix_tokens, int rows, int rows_per_block,
                                   int period) {
    pdl_wait();
    if (prefix_tokens) positions += *prefix_tokens * WIDTH;
    __shared__ __align__(16) float token[TOKEN_ROWS][FEATURES];
    const int begin = blockIdx.x * rows_per_block, end = min(rows, begin + rows_per_block);
    const int e = threadIdx.x;
    float weights[FEATURES];
#pragma unroll
    for (int f = 0; f < FEATURES; ++f) weights[f] = w[e * FEATURES + f];
    const float bias = b[e];
    int position = begin % period;
    for (int first = begin; first < end; first += TOKEN_ROWS) {
        stage_tokens(token, tokens, first, end);
#pragma unroll 4
        for (int row = first; row < min(first + TOKEN_ROWS, end); ++row) {
            float sum = bias;
            if (positions) sum += positions[position * WIDTH + e];
            position = position + 1 == period ? 0 : position + 1;
#pragma unroll
            for (int f = 0; f < FEATURES; ++f) sum += token[row - first][f] * weights[f];
            out[(u64)row * WIDTH + e] = sum;
            if (out_storage) out_storage[(u64)row * WIDTH + e] = to_storage(sum);
        }
    }
}

// partials[block, e, f] = Σ over the block's rows of d[r, e] tokens[r, f], then partials[block, WIDTH·FEATURES + e] = Σ d
extern "C" __global__ void read_in_backward(float* partials, const storage_t* d, const float* tokens, int rows,
                                            int rows_per_block) {
    pdl_wait();
    __shared__ __align__(16) float token[TOKEN_ROWS][FEATURES];
    const int begin = blockIdx.x * rows_per_block, end = min(rows, begin + rows_per_block);
    const int e = threadIdx.x;
    float sums[FEATURES], sum = 0;
#pragma unroll
    for (int f = 0; f < FEATURES; ++f) sums[f] = 0;
    for (int first = begin; first < end; first += TOKEN_ROWS) {
        stage_tokens(token, tokens, first, end);
#pragma unroll 8
        for (int row = first; row < min(first + TOKEN_ROWS, end); ++row) {
            const float value = to_float(d[(u64)row * WIDTH + e]);
            sum += value;
#pragma unroll
            for (int f = 0; f < FEATURES; ++f) sums[f] += value * token[row - first][f];
        }
    }
    float* out = partials + (u64)blockIdx.x * WIDTH * (FEATURES + 1);
#pragma unroll
    for (int f = 0; f < FEATURES; ++f) out[e * FEATURES + f] = sums[f];
    out[WIDTH * FEATURES + e] = sum;
}

// dtable[t, e] = Σ_b d[b, t, e]; positions that no prompt reaches get 0. One block per position.
extern "C" __global__ void positions_backward(float* dtable, const storage_t* d, int batch, int tokens) {
    pdl_wait();
    const int t = blockIdx.x;
    for (int e = threadIdx.x; e < WIDTH; e += blockDim.x) {
        float sum = 0;
        if (t < tokens) {
#pragma unroll 8
            for (int b = 0; b < batch; ++b) sum += to_float(d[((u64)b * tokens + t) * WIDTH + e]);
        }
        dtable[t * WIDTH + e] = sum;
    }
}

// Operations on rows: LayerNorm, read-in, read-out with the loss, activations, and the sums over rows that
// gradients of small parameters need. Sums over rows are cut into parts by shape alone and added in order, so the
// same inputs always give the same bits.
//
// Defined by the program: WIDTH (of the residual stream), FEATURES (of a token).

// A warp owns a row; each lane owns groups of four values.
#define GROUPS ((WIDTH + 4 * WARP - 1) / (4 * WARP))
#define WARPS 8

#define FOR_GROUPS(g, at) \
    _Pragma("unroll") for (int g = 0, at = 4 * (threadIdx.x % WARP); g < GROUPS; ++g, at += 4 * WARP) if (at < WIDTH)

// out[r, e] = (x[r, e] − mean_r) · rstd_r · gain[e] + bias[e]; stats[r] = (mean, rstd)
extern "C" __global__ void __launch_bounds__(WARPS* WARP)
    layer_norm(half_t* out, float* stats, const float* x, const float* gain, const float* bias, int rows) {
    await_previous();
    // A row is loaded while the one before it is computed.
    float4 next[GROUPS];
    const auto load = [&](int row) {
        if (row < rows) FOR_GROUPS(g, at) next[g] = load4(x + (u64)row * WIDTH + at);
    };
    int row = blockIdx.x * WARPS + threadIdx.x / WARP;
    load(row);
    for (; row < rows; row += gridDim.x * WARPS) {
        float4 v[GROUPS];
        float sum = 0;
        FOR_GROUPS(g, at) {
            v[g] = next[g];
            sum += (v[g].x + v[g].y) + (v[g].z + v[g].w);
        }
        load(row + gridDim.x * WARPS);
        const float mean = warp_sum(sum) / WIDTH;
        sum = 0;
        FOR_GROUPS(g, at) {
            v[g] = make_float4(v[g].x - mean, v[g].y - mean, v[g].z - mean, v[g].w - mean);
            sum += (v[g].x * v[g].x + v[g].y * v[g].y) + (v[g].z * v[g].z + v[g].w * v[g].w);
        }
        const float rstd = rsqrtf(warp_sum(sum) / WIDTH + 1e-5f);
        FOR_GROUPS(g, at) {
            const float4 w = load4(gain + at), b = load4(bias + at);
            store4(out + (u64)row * WIDTH + at,
                   make_float4(v[g].x * rstd * w.x + b.x, v[g].y * rstd * w.y + b.y, v[g].z * rstd * w.z + b.z,
                               v[g].w * rstd * w.w + b.w));
        }
        if (threadIdx.x % WARP == 0) *reinterpret_cast<float2*>(stats + 2 * row) = make_float2(mean, rstd);
    }
}

__device__ __forceinline__ void add_to(float4& sum, float4 x) {
    sum.x += x.x;
    sum.y += x.y;
    sum.z += x.z;
    sum.w += x.w;
}

// dx = before + gradient through the LayerNorm; `before` may be absent.
// Each block owns `rows_per_block` rows and leaves three sums over them in partials[block, 3, WIDTH]: those of
// the gain, of the bias, and of dx itself, which is the gradient of the bias that was added to x.
extern "C" __global__ void __launch_bounds__(WARPS* WARP)
    layer_norm_backward(half_t* dx, float* partials, const half_t* before, const half_t* dout, const float* x,
                        const float* stats, const float* gain, int rows, int rows_per_block) {
    await_previous();
    __shared__ float sums[WARPS][3][GROUPS * 4 * WARP];
    const int warp = threadIdx.x / WARP;
    const int first = blockIdx.x * rows_per_block;
    const int end = min(rows, first + rows_per_block);
    float4 w[GROUPS], dgain[GROUPS], dbias[GROUPS], dsum[GROUPS];
#pragma unroll
    for (int g = 0; g < GROUPS; ++g) dgain[g] = dbias[g] = dsum[g] = make_float4(0, 0, 0, 0);
    FOR_GROUPS(g, at) w[g] = load4(gain + at);
    // A row is loaded while the one before it is computed.
    float2 next_stat;
    float4 next_d[GROUPS], next_z[GROUPS], next_old[GROUPS];
    const auto load = [&](int row) {
        if (row >= end) return;
        next_stat = *reinterpret_cast<const float2*>(stats + 2 * row);
        FOR_GROUPS(g, at) {
            const u64 place = (u64)row * WIDTH + at;
            next_d[g] = load4(dout + place);
            // Read for the last time: the cache is for what was written since.
            next_z[g] = __ldcs(reinterpret_cast<const float4*>(x + place));
            next_old[g] = before ? load4(before + place) : make_float4(0, 0, 0, 0);
        }
    };
    load(first + warp);
    for (int row = first + warp; row < end; row += WARPS) {
        const float2 stat = next_stat;
        float4 d[GROUPS], z[GROUPS], old[GROUPS];
        float sum_g = 0, sum_gz = 0;
        FOR_GROUPS(g, at) d[g] = next_d[g], z[g] = next_z[g], old[g] = next_old[g];
        load(row + WARPS);
        FOR_GROUPS(g, at) {
            z[g] = make_float4((z[g].x - stat.x) * stat.y, (z[g].y - stat.x) * stat.y, (z[g].z - stat.x) * stat.y,
                               (z[g].w - stat.x) * stat.y);
            add_to(dgain[g], make_float4(d[g].x * z[g].x, d[g].y * z[g].y, d[g].z * z[g].z, d[g].w * z[g].w));
            add_to(dbias[g], d[g]);
            d[g] = make_float4(d[g].x * w[g].x, d[g].y * w[g].y, d[g].z * w[g].z, d[g].w * w[g].w);
            sum_g += (d[g].x + d[g].y) + (d[g].z + d[g].w);
            sum_gz += (d[g].x * z[g].x + d[g].y * z[g].y) + (d[g].z * z[g].z + d[g].w * z[g].w);
        }
        const float mean_g = warp_sum(sum_g) / WIDTH, mean_gz = warp_sum(sum_gz) / WIDTH;
        FOR_GROUPS(g, at) {
            const u64 place = (u64)row * WIDTH + at;
            float4 v = old[g];
            v.x += stat.y * (d[g].x - mean_g - z[g].x * mean_gz);
            v.y += stat.y * (d[g].y - mean_g - z[g].y * mean_gz);
            v.z += stat.y * (d[g].z - mean_g - z[g].z * mean_gz);
            v.w += stat.y * (d[g].w - mean_g - z[g].w * mean_gz);
            add_to(dsum[g], v);
            store4(dx + place, v);
        }
    }
    FOR_GROUPS(g, at) {
        store4(&sums[warp][0][at], dgain[g]);
        store4(&sums[warp][1][at], dbias[g]);
        store4(&sums[warp][2][at], dsum[g]);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < 3 * WIDTH; i += blockDim.x) {
        const int which = i / WIDTH, e = i % WIDTH;
        float sum = 0;
#pragma unroll
        for (int other = 0; other < WARPS; ++other) sum += sums[other][which][e];
        partials[(u64)blockIdx.x * 3 * WIDTH + i] = sum;
    }
}

// Rows of tokens that are staged together: all of a block's where they are few numbers.
#define TOKEN_ROWS (FEATURES <= 32 ? 96 : 16)

__device__ __forceinline__ void stage_tokens(float (&to)[TOKEN_ROWS][FEATURES], const float* tokens, int first, int end) {
    __syncthreads();
    for (int i = threadIdx.x; i < TOKEN_ROWS * FEATURES; i += blockDim.x)
        if (first + i / FEATURES < end) to[i / FEATURES][i % FEATURES] = tokens[(u64)first * FEATURES + i];
    __syncthreads();
}

// out[r, e] = Σ_f tokens[r, f] w[e, f] + b[e] (+ positions[r % period, e]); one thread per e, a block owns a few rows.
extern "C" __global__ void read_in(float* out, half_t* out_half, const float* tokens, const float* w, const float* b,
                                   const float* positions, int rows, int rows_per_block, int period) {
    await_previous();
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
            if (out_half) out_half[(u64)row * WIDTH + e] = to_half(sum);
        }
    }
}

// partials[block, e, f] = Σ over the block's rows of d[r, e] tokens[r, f], then partials[block, WIDTH·FEATURES + e] = Σ d
extern "C" __global__ void read_in_backward(float* partials, const half_t* d, const float* tokens, int rows,
                                            int rows_per_block) {
    await_previous();
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
extern "C" __global__ void positions_backward(float* dtable, const half_t* d, int batch, int tokens) {
    await_previous();
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

// predictions[b, p] = Σ_e x[b, p·stride, e] w[e] + bias; a warp per prediction
extern "C" __global__ void __launch_bounds__(WARPS* WARP)
    read_out(float* predictions, const half_t* x, const float* w, const float* bias, int count, int points, int tokens,
             int stride) {
    await_previous();
    const int place = blockIdx.x * WARPS + threadIdx.x / WARP;
    if (place >= count) return;
    const int b = place / points, p = place % points;
    const half_t* row = x + ((u64)b * tokens + (u64)p * stride) * WIDTH;
    float sum = 0;
    FOR_GROUPS(g, at) {
        const float4 v = load4(row + at), u = load4(w + at);
        sum += (v.x * u.x + v.y * u.y) + (v.z * u.z + v.w * u.w);
    }
    sum = warp_sum(sum);
    if (threadIdx.x % WARP == 0) predictions[place] = sum + bias[0];
}

// The loss (mean over count of (prediction − target)²) and its gradients: dx at the x tokens, 0 at the others, and
// partials[block, WIDTH + 2] = Σ dp·x, Σ dp, Σ error² / count over the block's predictions.
extern "C" __global__ void __launch_bounds__(WARPS* WARP)
    loss_backward(half_t* dx, float* partials, const float* predictions, const float* targets, const half_t* x,
                  const float* w, int count, int points, int tokens, int per_block) {
    await_previous();
    __shared__ float sums[WARPS][GROUPS * 4 * WARP + 4];
    const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    const int first = blockIdx.x * per_block, end = min(count, first + per_block);
    float4 dw[GROUPS];
    float db = 0, loss = 0;
#pragma unroll
    for (int g = 0; g < GROUPS; ++g) dw[g] = make_float4(0, 0, 0, 0);
    for (int place = first + warp; place < end; place += WARPS) {
        const int b = place / points, p = place % points;
        const float error = predictions[place] - targets[place];
        const float d = 2.0f * error / count;
        loss += error * error / count;
        db += d;
        const u64 row = ((u64)b * tokens + 2 * (u64)p) * WIDTH;
        FOR_GROUPS(g, at) {
            const float4 v = load4(x + row + at), u = load4(w + at);
            add_to(dw[g], make_float4(d * v.x, d * v.y, d * v.z, d * v.w));
            store4(dx + row + at, make_float4(d * u.x, d * u.y, d * u.z, d * u.w));
            if (2 * p + 1 < tokens) store4(dx + row + WIDTH + at, make_float4(0, 0, 0, 0));
        }
    }
    FOR_GROUPS(g, at) store4(&sums[warp][at], dw[g]);
    if (lane == 0) {
        sums[warp][GROUPS * 4 * WARP] = db;
        sums[warp][GROUPS * 4 * WARP + 1] = loss;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < WIDTH + 2; i += blockDim.x) {
        const int from = i < WIDTH ? i : GROUPS * 4 * WARP + (i - WIDTH);
        float sum = 0;
#pragma unroll
        for (int other = 0; other < WARPS; ++other) sum += sums[other][from];
        partials[(u64)blockIdx.x * (WIDTH + 2) + i] = sum;
    }
}

__device__ __forceinline__ float activated(float z, int kind) {
    if (kind == 1) return fmaxf(z, 0.0f);
    return 0.5f * z * (1.0f + tanh_of(GELU_SCALE * (z + GELU_CUBIC * z * z * z)));
}

__device__ __forceinline__ float activated_slope(float z, int kind) {
    if (kind == 1) return z > 0.0f ? 1.0f : 0.0f;
    const float t = tanh_of(GELU_SCALE * (z + GELU_CUBIC * z * z * z));
    return 0.5f * (1.0f + t) + 0.5f * z * (1.0f - t * t) * GELU_SCALE * (1.0f + 3.0f * GELU_CUBIC * z * z);
}

// Activations where the product cannot apply them itself. kind 0: GELU; 1: ReLU.
extern "C" __global__ void activate(half_t* out, const half_t* before, u64 count, int kind) {
    await_previous();
    const u64 stride = (u64)GROUP * gridDim.x * blockDim.x;
    for (u64 i = GROUP * ((u64)blockIdx.x * blockDim.x + threadIdx.x); i < count; i += stride) {
        Group v = load_group(before + i);
#pragma unroll
        for (int k = 0; k < GROUP; ++k) v.x[k] = activated(v.x[k], kind);
        store_group(out + i, v);
    }
}

// d *= activation'(before), in place, and partials[block, c] = Σ over the block's rows of the result: the gradient of the
// bias that was added before the activation. kind 2: no activation, only the sums. The block's threads are as many rows of
// threads as fit over the columns.
extern "C" __global__ void __launch_bounds__(256)
    activate_backward(half_t* d, float* partials, const half_t* before, int rows, int columns, int rows_per_block, int kind) {
    await_previous();
    __shared__ float4 sums[256 * GROUP / 4];
    const int across = columns / GROUP, down = max(1, (int)blockDim.x / across);
    const int first = blockIdx.x * rows_per_block + (int)threadIdx.x / across, end = min(rows, (int)(blockIdx.x + 1) * rows_per_block);
    // With more columns than threads, threads walk over them; then there is one row of threads.
    for (int c = GROUP * (down > 1 ? threadIdx.x % across : threadIdx.x); c < columns; c += GROUP * blockDim.x) {
        Group sum;
#pragma unroll
        for (int k = 0; k < GROUP; ++k) sum.x[k] = 0;
        if (down == 1 || (int)threadIdx.x < across * down) {
#pragma unroll 4
            for (int row = down > 1 ? first : blockIdx.x * rows_per_block; row < end; row += down) {
                const u64 at = (u64)row * columns + c;
                Group g = load_group(d + at);
                if (kind < 2) {
                    const Group z = load_group(before + at);
#pragma unroll
                    for (int k = 0; k < GROUP; ++k) g.x[k] *= activated_slope(z.x[k], kind);
                    store_group(d + at, g);
                }
#pragma unroll
                for (int k = 0; k < GROUP; ++k) sum.x[k] += g.x[k];
            }
        }
        if (down > 1) {
#pragma unroll
            for (int k = 0; k < GROUP / 4; ++k)
                sums[k * 256 + threadIdx.x] = make_float4(sum.x[4 * k], sum.x[4 * k + 1], sum.x[4 * k + 2], sum.x[4 * k + 3]);
            __syncthreads();
            if ((int)threadIdx.x >= across) return;
            for (int other = 1; other < down; ++other)
#pragma unroll
                for (int k = 0; k < GROUP; ++k) sum.x[k] += (&sums[k / 4 * 256 + threadIdx.x + other * across].x)[k % 4];
        }
#pragma unroll
        for (int k = 0; k < GROUP; k += 4)
            store4(partials + (u64)blockIdx.x * columns + c + k,
                   make_float4(sum.x[k], sum.x[k + 1], sum.x[k + 2], sum.x[k + 3]));
        if (down > 1) return;
    }
}

// One sum over parts: out[i] = Σ_part from[part · stride + i] for i < count.
struct Sum {
    float* out;
    const float* from;
    int parts, stride, count, first_block;
};

// All sums over parts of a step in one launch: `blocks` of 32 columns each, found through `first_block`.
extern "C" __global__ void __launch_bounds__(8 * WARP) add_parts(const Sum* sums, int count) {
    await_previous();
    __shared__ float lanes[8][WARP];
    // The table is in order: how many sums begin at this block or before it is the number of this block's.
    int begun = 0;
    for (int i = 0; i < count; i += 8 * WARP) {
        const int other = i + threadIdx.x;
        begun += __syncthreads_count(other < count && sums[other].first_block <= (int)blockIdx.x);
    }
    const Sum s = sums[begun - 1];
    const int column = ((int)blockIdx.x - s.first_block) * WARP + threadIdx.x % WARP, lane = threadIdx.x / WARP;
    float sum = 0;
    if (column < s.count) {
#pragma unroll 8
        for (int part = lane; part < s.parts; part += 8) sum += s.from[(u64)part * s.stride + column];
    }
    lanes[lane][threadIdx.x % WARP] = sum;
    __syncthreads();
    if (lane == 0 && column < s.count) {
#pragma unroll
        for (int other = 1; other < 8; ++other) sum += lanes[other][threadIdx.x];
        s.out[column] = sum;
    }
}

// Rounds weights or inputs for the products.
extern "C" __global__ void round_to_half(half_t* out, const float* x, u64 count) {
    await_previous();
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += (u64)gridDim.x * blockDim.x)
        out[i] = to_half(x[i]);
}

// LayerNorm, forward and backward, and what every kernel with a warp per row shares. Sums over rows are cut into partials by
// shape alone and added in order (reduce.cu), so the same inputs always give the same bits.
//
// Defined by the program: WIDTH (of the residual stream), FEATURES (of a token), FLOAT_STREAM (whether the gradient of the residual
// stream is float between kernels, and not storage_t).

// A warp owns a row; each lane owns vectors of four values.
#define VECTORS ((WIDTH + 4 * WARP - 1) / (4 * WARP))
#define WARPS 8

#define FOR_VECTORS(g, at) \
    _Pragma("unroll") for (int g = 0, at = 4 * (threadIdx.x % WARP); g < VECTORS; ++g, at += 4 * WARP) if (at < WIDTH)

// out[r, e] = (x[r, e] − mean_r) · rstd_r · gain[e] + bias[e]; stats[r] = (mean, rstd)
extern "C" __global__ void __launch_bounds__(WARPS* WARP)
    layer_norm(storage_t* out, float* stats, const float* x, const float* gain, const float* bias, int rows) {
    pdl_wait();
    // The next row is prefetched while this one is computed.
    float4 next[VECTORS];
    const auto load = [&](int row) {
        if (row < rows) FOR_VECTORS(g, at) next[g] = load4(x + (u64)row * WIDTH + at);
    };
    int row = blockIdx.x * WARPS + threadIdx.x / WARP;
    load(row);
    for (; row < rows; row += gridDim.x * WARPS) {
        float4 v[VECTORS];
        float sum = 0;
        FOR_VECTORS(g, at) {
            v[g] = next[g];
            sum += (v[g].x + v[g].y) + (v[g].z + v[g].w);
        }
        load(row + gridDim.x * WARPS);
        const float mean = warp_sum(sum) / WIDTH;
        sum = 0;
        FOR_VECTORS(g, at) {
            v[g] = make_float4(v[g].x - mean, v[g].y - mean, v[g].z - mean, v[g].w - mean);
            sum += (v[g].x * v[g].x + v[g].y * v[g].y) + (v[g].z * v[g].z + v[g].w * v[g].w);
        }
        const float rstd = rsqrtf(warp_sum(sum) / WIDTH + 1e-5f);
        FOR_VECTORS(g, at) {
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

#if FLOAT_STREAM
typedef float stream_t;
#else
typedef storage_t stream_t;
#endif

// dx = residual + gradient through the LayerNorm, and with FLOAT_STREAM `stream` the same in float; `residual`, the gradient that skips
// it, may be absent.
// Each block owns `rows_per_block` rows and leaves three sums over them in partials[block, 3, WIDTH]: those of
// the gain, of the bias, and of dx itself, which is the gradient of the bias that was added to x.
extern "C" __global__ void __launch_bounds__(WARPS* WARP)
    layer_norm_backward(storage_t* dx, float* stream, float* partials, const stream_t* residual, const storage_t* dout,
                        const float* x, const float* stats, const float* gain, int rows, int rows_per_block) {
    pdl_wait();
    __shared__ float sums[WARPS][3][VECTORS * 4 * WARP];
    const int warp = threadIdx.x / WARP;
    const int first = blockIdx.x * rows_per_block;
    const int end = min(rows, first + rows_per_block);
    float4 w[VECTORS], dgain[VECTORS], dbias[VECTORS], dsum[VECTORS];
#pragma unroll
    for (int g = 0; g < VECTORS; ++g) dgain[g] = dbias[g] = dsum[g] = make_float4(0, 0, 0, 0);
    FOR_VECTORS(g, at) w[g] = load4(gain + at);
    // The next row is prefetched while this one is computed.
    float2 next_stat;
    float4 next_d[VECTORS], next_z[VECTORS], next_residual[VECTORS];
    const auto load = [&](int row) {
        if (row >= end) return;
        next_stat = *reinterpret_cast<const float2*>(stats + 2 * row);
        FOR_VECTORS(g, at) {
            const u64 place = (u64)row * WIDTH + at;
            next_d[g] = load4(dout + place);
            // Read for the last time: a streaming load leaves the cache to what was written since.
            next_z[g] = __ldcs(reinterpret_cast<const float4*>(x + place));
            next_residual[g] = residual ? load4(residual + place) : make_float4(0, 0, 0, 0);
        }
    };
    load(first + warp);
    for (int row = first + warp; row < end; row += WARPS) {
        const float2 stat = next_stat;
        float4 d[VECTORS], z[VECTORS], skipped[VECTORS];
        float sum_g = 0, sum_gz = 0;
        FOR_VECTORS(g, at) d[g] = next_d[g], z[g] = next_z[g], skipped[g] = next_residual[g];
        load(row + WARPS);
        FOR_VECTORS(g, at) {
            z[g] = make_float4((z[g].x - stat.x) * stat.y, (z[g].y - stat.x) * stat.y, (z[g].z - stat.x) * stat.y,
                               (z[g].w - stat.x) * stat.y);
            add_to(dgain[g], make_float4(d[g].x * z[g].x, d[g].y * z[g].y, d[g].z * z[g].z, d[g].w * z[g].w));
            add_to(dbias[g], d[g]);
            d[g] = make_float4(d[g].x * w[g].x, d[g].y * w[g].y, d[g].z * w[g].z, d[g].w * w[g].w);
            sum_g += (d[g].x + d[g].y) + (d[g].z + d[g].w);
            sum_gz += (d[g].x * z[g].x + d[g].y * z[g].y) + (d[g].z * z[g].z + d[g].w * z[g].w);
        }
        const float mean_g = warp_sum(sum_g) / WIDTH, mean_gz = warp_sum(sum_gz) / WIDTH;
        FOR_VECTORS(g, at) {
            const u64 place = (u64)row * WIDTH + at;
            float4 v = skipped[g];
            v.x += stat.y * (d[g].x - mean_g - z[g].x * mean_gz);
            v.y += stat.y * (d[g].y - mean_g - z[g].y * mean_gz);
            v.z += stat.y * (d[g].z - mean_g - z[g].z * mean_gz);
            v.w += stat.y * (d[g].w - mean_g - z[g].w * mean_gz);
            add_to(dsum[g], v);
            store4(dx + place, v);
#if FLOAT_STREAM
            store4(stream + place, v);
#endif
        }
    }
    FOR_VECTORS(g, at) {
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

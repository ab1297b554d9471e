// Matmuls of 256 columns, the width of the residual stream, with LayerNorm as their epilogue, on Hopper's wgmma (sm_90a). A block has
// whole rows of the result, so that a row's mean and variance are at hand before anything is written.
//
// A block takes TILE_M rows, a warpgroup 64 of them and 128 columns. K passes through shared memory in stages of 64. Then the product
// is put there, and a warp takes whole rows, eight of them: what it reads and writes in memory are rows of 1 KB, and it has
// independent work while it waits. Sums over rows are cut by shape alone, so the same inputs always give the same bits.
//
// One thread starts the copies, by the bulk tensor copy engine.
//
// Defined by the program: GEMM_K (a multiple of 64), TILE_M (64 or 128: the weights pass by once for so many rows), STAGES.

#define WIDTH 256
#define WARPS (TILE_M / 8)
#define THREADS (WARP * WARPS)
#define STAGE_K SWIZZLE_VALUES
#define A_BYTES (TILE_M * STAGE_K * 2)
#define B_BYTES (WIDTH * STAGE_K * 2)
#define STAGE_BYTES (A_BYTES + B_BYTES)
// Whether what the epilogue reads is loaded before the product begins: where a thread has registers for both.
#define LOADS_EARLY (TILE_M == 64)
#define STEPS (GEMM_K / STAGE_K)

extern __shared__ __align__(1024) unsigned char stages[];

struct Barriers {
    Barrier full[STAGES], empty[STAGES];
};

// A block's rows, and which of them a warp has: 16 as the product leaves them, 8 in the epilogue.
struct Place {
    int lane, warp, half_of_columns, sixty_four, first;

    __device__ __forceinline__ Place() {
        lane = threadIdx.x % WARP;
        // By a shuffle, so that the compiler knows it to be uniform over the warp.
        warp = __shfl_sync(FULL_MASK, threadIdx.x / WARP, 0);
        half_of_columns = warp / 4 % 2;
        sixty_four = warp / 8;
        first = blockIdx.x * TILE_M;
    }

    // Row r of this warp's eight.
    __device__ __forceinline__ int row(int r) const { return first + 8 * warp + r; }
};

// The copies of one block, which one of its threads starts: stages of x[rows, GEMM_K] and of w, which is [GEMM_K, WIDTH] (B_IS_KN)
// or [WIDTH, GEMM_K].
template <int B_IS_KN>
struct Copies {
    const Place& place;
    Barriers& barriers;
    const TensorMap &x, &w;

    __device__ __forceinline__ void of_w(int step) const {
        Barrier& full = barriers.full[step % STAGES];
        full.expect(STAGE_BYTES);
        unsigned char* b = stages + step % STAGES * STAGE_BYTES + A_BYTES;
        // Boxes of 64 columns of the result, each 8 KB.
#pragma unroll
        for (int n = 0; n < WIDTH; n += 64)
            copy_box(b + n * 128, w, B_IS_KN ? n : step * STAGE_K, B_IS_KN ? step * STAGE_K : n, full);
    }

    __device__ __forceinline__ void of_x(int step) const {
        copy_box(stages + step % STAGES * STAGE_BYTES, x, step * STAGE_K, place.first, barriers.full[step % STAGES]);
    }

    // Those that fill all stages.
    __device__ __forceinline__ void begin() const {
        // The weights were there before the kernel ahead began, so that only x has to be waited for.
        for (int step = 0; step < min(STAGES, STEPS); ++step) of_w(step);
        pdl_wait();
        for (int step = 0; step < min(STAGES, STEPS); ++step) of_x(step);
    }

    // One more, when everyone is done with the stage in its place.
    __device__ __forceinline__ void next(int step) const {
        barriers.empty[step % STAGES].wait(step / STAGES - 1 & 1);
        of_w(step);
        of_x(step);
    }
};

// d = x · w for this block's rows; `meanwhile` runs while the first copies are under way.
template <int B_IS_KN, class Meanwhile>
__device__ __forceinline__ void gemm_tile(const Place& place, float (&d)[64], const TensorMap& x, const TensorMap& w,
                                          Meanwhile meanwhile) {
    __shared__ Barriers barriers;
    const bool copies_here = threadIdx.x == 0;
    const Copies<B_IS_KN> copies = {place, barriers, x, w};
    if (copies_here) {
        x.prefetch();
        w.prefetch();
#pragma unroll
        for (int i = 0; i < STAGES; ++i) {
            barriers.full[i].init(1);
            barriers.empty[i].init(WARPS);
        }
        fence_async_proxy();
    }
    __syncthreads();
    if (copies_here) copies.begin();
    __syncwarp();
    pdl_wait();
    meanwhile();
    for (int step = 0; step < STEPS; ++step) {
        barriers.full[step % STAGES].wait(step / STAGES & 1);
        const u32 stage = shared_address(stages + step % STAGES * STAGE_BYTES);
        const u32 a_start = stage + place.sixty_four * 64 * 128;
        const u32 b_start = stage + A_BYTES + place.half_of_columns * WARPGROUP_N * 128;
        wgmma_fence();
#pragma unroll
        for (int k = 0; k < STAGE_K; k += 16) {
            const u64 b = B_IS_KN ? smem_descriptor(b_start + k * 128, STAGE_K * 128) : smem_descriptor(b_start + k * 2, 0);
            wgmma_m64n128k16<B_IS_KN>(d, smem_descriptor(a_start + k * 2, 0), b, step + k > 0);
        }
        wgmma_commit();
        // The product of step − 2 was done by everyone long ago: whoever copies hardly waits for its stage.
        const int next = step - 2 + STAGES;
        if (step >= 2 && next < STEPS) {
            if (copies_here) copies.next(next);
            __syncwarp();
        }
        // Of the product before this one nothing is in flight any more.
        wgmma_wait<1>();
        if (step > 0 && place.lane == 0) barriers.empty[(step - 1) % STAGES].arrive();
    }
    wgmma_wait<0>();
    results_are_there(d);
}

// The product in shared memory. Eight more values per row, and the pairs that a half-warp writes lie in different banks.
#define TILE_STRIDE (WIDTH + 8)

// Puts the product there. d[4 j + 2 half + i] is column 8 j + 2 (lane % 4) + i of row lane / 4 + 8 half of a warp.
__device__ __forceinline__ float* store_tile(const Place& place, const float (&d)[64]) {
    float* const tile = reinterpret_cast<float*>(stages);
    // No product reads the stages any more.
    __syncthreads();
    const int row = 64 * place.sixty_four + 16 * (place.warp % 4) + place.lane / 4;
    float* const at = tile + row * TILE_STRIDE + WARPGROUP_N * place.half_of_columns + 2 * (place.lane % 4);
    FOR_HALVES
#pragma unroll
    for (int j = 0; j < 16; ++j)
        *reinterpret_cast<float2*>(at + 8 * half * TILE_STRIDE + 8 * j) = make_float2(d[4 * j + 2 * half], d[4 * j + 2 * half + 1]);
    __syncthreads();
    return tile;
}

// Eight values of a row that a lane has: four neighbours in each half.
struct Eight {
    float v[8];
};

__device__ __forceinline__ Eight load_eight(const float* row, int lane) {
    const float4 a = load4(row + 4 * lane), b = load4(row + WIDTH / 2 + 4 * lane);
    return {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
}

// The same, begun here and now: the compiler would move it to where the values are used.
__device__ __forceinline__ Eight load_eight_now(const float* row, int lane) {
    Eight x;
    const auto load = [&](float* v, const float* from) {
        asm volatile("ld.global.v4.f32 {%0, %1, %2, %3}, [%4];"
                     : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3])
                     : "l"(from)
                     : "memory");
    };
    load(x.v, row + 4 * lane);
    load(x.v + 4, row + WIDTH / 2 + 4 * lane);
    return x;
}

template <class T>
__device__ __forceinline__ void store_eight(T* row, int lane, const float (&v)[8]) {
    store4(row + 4 * lane, make_float4(v[0], v[1], v[2], v[3]));
    store4(row + WIDTH / 2 + 4 * lane, make_float4(v[4], v[5], v[6], v[7]));
}

// Sums over a warp, N at a time.
template <int N>
__device__ __forceinline__ void warp_sums(float (&x)[N]) {
#pragma unroll
    for (int offset = WARP / 2; offset > 0; offset /= 2)
#pragma unroll
        for (int i = 0; i < N; ++i) x[i] += __shfl_xor_sync(FULL_MASK, x[i], offset);
}

#define ROWS 8  // of a warp
#define FOR_ROWS _Pragma("unroll") for (int r = 0; r < ROWS; ++r)

// sum = x · w + bias + residual, which continues the residual stream, and out = LayerNorm(sum), with stats[row] = (mean, rstd).
// w[GEMM_K, WIDTH].
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    linear_add_norm(float* sum, storage_t* out, float* stats, const __grid_constant__ TensorMap x,
                    const __grid_constant__ TensorMap w, const float* bias, const float* residual, const float* gain,
                    const float* norm_bias, int rows) {
    const Place place;
    float d[64];
    Eight v[ROWS], b, g, nb;
    const auto load = [&]() {
        FOR_ROWS v[r] = load_eight_now(residual + (u64)min(place.row(r), rows - 1) * WIDTH, place.lane);
        b = load_eight_now(bias, place.lane);
        g = load_eight_now(gain, place.lane);
        nb = load_eight_now(norm_bias, place.lane);
    };
    gemm_tile<1>(place, d, x, w, [&]() {
        if (LOADS_EARLY) load();
    });
    const float* const tile = store_tile(place, d) + ROWS * place.warp * TILE_STRIDE;
    if (!LOADS_EARLY) load();
    float mean[ROWS], rstd[ROWS];
    FOR_ROWS {
        const Eight product = load_eight(tile + r * TILE_STRIDE, place.lane);
        mean[r] = 0;
        FOR_EIGHT {
            v[r].v[e] += product.v[e] + b.v[e];
            mean[r] += v[r].v[e];
        }
        if (place.row(r) < rows) store_eight(sum + (u64)place.row(r) * WIDTH, place.lane, v[r].v);
    }
    warp_sums(mean);
    FOR_ROWS {
        mean[r] /= WIDTH;
        rstd[r] = 0;
        FOR_EIGHT {
            v[r].v[e] -= mean[r];
            rstd[r] += v[r].v[e] * v[r].v[e];
        }
    }
    warp_sums(rstd);
    FOR_ROWS {
        rstd[r] = rsqrtf(rstd[r] / WIDTH + 1e-5f);
        FOR_EIGHT v[r].v[e] = v[r].v[e] * rstd[r] * g.v[e] + nb.v[e];
        if (place.row(r) >= rows) continue;
        store_eight(out + (u64)place.row(r) * WIDTH, place.lane, v[r].v);
        if (place.lane == 0) *reinterpret_cast<float2*>(stats + 2 * place.row(r)) = make_float2(mean[r], rstd[r]);
    }
}

// Rows that are computed at once, as registers allow.
#define BATCH (LOADS_EARLY ? 4 : 2)

// The gradient back through LayerNorm(x) · weights: with dnorm = dout · wᵀ and w[WIDTH, GEMM_K], `stream` = residual + the gradient
// through the LayerNorm, and dx the same in the storage type. Each block leaves three sums over its rows in partials[block, 3, WIDTH]:
// those of the gain, of the bias, and of the stream's gradient.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    linear_norm_backward(float* stream, storage_t* dx, float* partials, const float* residual,
                         const __grid_constant__ TensorMap dout, const __grid_constant__ TensorMap w, const float* x,
                         const float* stats, const float* gain, int rows) {
    const Place place;
    float d[64];
    Eight z[ROWS], skipped[ROWS], g;
    float2 stat[ROWS];
    const auto load = [&](int r) {
        // Rows beyond the last have a gradient of zeros.
        const int row = min(place.row(r), rows - 1);
        stat[r] = *reinterpret_cast<const float2*>(stats + 2 * row);
        z[r] = load_eight_now(x + (u64)row * WIDTH, place.lane);
        skipped[r] = load_eight_now(residual + (u64)row * WIDTH, place.lane);
    };
    gemm_tile<0>(place, d, dout, w, [&]() {
        if (LOADS_EARLY) {
            g = load_eight_now(gain, place.lane);
            FOR_ROWS load(r);
        }
    });
    float* const tile = store_tile(place, d);
    if (!LOADS_EARLY) g = load_eight_now(gain, place.lane);
    Eight dgain = {}, dbias = {}, dsum = {};
#pragma unroll
    for (int from = 0; from < ROWS; from += BATCH) {
        if (!LOADS_EARLY) {
#pragma unroll
            for (int i = 0; i < BATCH; ++i) load(from + i);
        }
        Eight dnorm[BATCH];
        float means[2 * BATCH];
#pragma unroll
        for (int i = 0; i < BATCH; ++i) {
            const int r = from + i;
            dnorm[i] = load_eight(tile + (ROWS * place.warp + r) * TILE_STRIDE, place.lane);
            means[i] = means[BATCH + i] = 0;
            FOR_EIGHT {
                z[r].v[e] = (z[r].v[e] - stat[r].x) * stat[r].y;
                dgain.v[e] += dnorm[i].v[e] * z[r].v[e];
                dbias.v[e] += dnorm[i].v[e];
                dnorm[i].v[e] *= g.v[e];
                means[i] += dnorm[i].v[e];
                means[BATCH + i] += dnorm[i].v[e] * z[r].v[e];
            }
        }
        warp_sums(means);
#pragma unroll
        for (int i = 0; i < BATCH; ++i) {
            const int r = from + i, row = place.row(r);
            if (row >= rows) continue;
            const float mean_g = means[i] / WIDTH, mean_gz = means[BATCH + i] / WIDTH;
            FOR_EIGHT {
                skipped[r].v[e] += stat[r].y * (dnorm[i].v[e] - mean_g - z[r].v[e] * mean_gz);
                dsum.v[e] += skipped[r].v[e];
            }
            store_eight(stream + (u64)row * WIDTH, place.lane, skipped[r].v);
            store_eight(dx + (u64)row * WIDTH, place.lane, skipped[r].v);
        }
    }
    // Behind the tile: the sums of each warp.
    float* const sums = tile + TILE_M * TILE_STRIDE;
    store_eight(sums + (3 * place.warp) * WIDTH, place.lane, dgain.v);
    store_eight(sums + (3 * place.warp + 1) * WIDTH, place.lane, dbias.v);
    store_eight(sums + (3 * place.warp + 2) * WIDTH, place.lane, dsum.v);
    __syncthreads();
    for (int i = threadIdx.x; i < 3 * WIDTH; i += THREADS) {
        float total = 0;
#pragma unroll
        for (int warp = 0; warp < WARPS; ++warp) total += sums[3 * WIDTH * warp + i];
        partials[(u64)blockIdx.x * 3 * WIDTH + i] = total;
    }
}

// The MLP's up-projection with GELU, and the backward pass through its hidden layer, on Hopper's wgmma (sm_90a): matmuls whose
// epilogue works in registers. K is GEMM_K (64, 128 or 256), N is GEMM_N (a multiple of 256). Memory, not arithmetic, is the
// limit: nothing of the hidden layer's width is written that would be read again at once.
//
// A block keeps its tile of B, 256 columns of the weights, in shared memory and walks over tiles of 64 rows of A (persistent).
// Two consumers take turns (ping-pong): while one is in its epilogue the other multiplies. A consumer is two warpgroups, one for
// each half of the columns. Which rows a consumer takes depends on the shape alone, so that sums over rows have the same bits
// each time.

#define TILE_M 64
#define TILE_N 256
#define TILES_N (GEMM_N / TILE_N)
#define CONSUMER_THREADS 256
#define THREADS (2 * CONSUMER_THREADS)
#define A_BYTES (TILE_M * GEMM_K * 2)
#define B_BYTES (TILE_N * GEMM_K * 2)

__device__ __forceinline__ void cp_async_wait_all() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// A barrier of the threads of one consumer.
__device__ __forceinline__ void consumer_barrier(int consumer) {
    asm volatile("bar.sync %0, %1;" ::"r"(consumer + 1), "n"(CONSUMER_THREADS) : "memory");
}

// The consumers multiply in turns: each waits for the other, and passes the turn when its own product is done.
__device__ __forceinline__ void wait_mma_turn(int consumer) {
    asm volatile("bar.sync %0, %1;" ::"r"(consumer + 3), "n"(THREADS) : "memory");
}

__device__ __forceinline__ void pass_mma_turn(int consumer) {
    asm volatile("bar.arrive %0, %1;" ::"r"(4 - consumer), "n"(THREADS) : "memory");
}

// Starts to copy rows first … first + 63 of x[rows, GEMM_K]; zeros beyond the last. By one consumer.
__device__ __forceinline__ void load_a_tile(unsigned char* to, const storage_t* x, int first, int rows) {
    const int vector = threadIdx.x % (GEMM_K / 8), row = threadIdx.x % CONSUMER_THREADS / (GEMM_K / 8);
    const storage_t* from = x + (u64)(first + row) * GEMM_K + 8 * vector;
    unsigned char* place = swizzled(to, TILE_M, row, vector);
#pragma unroll
    for (int down = 0; down < TILE_M; down += CONSUMER_THREADS / (GEMM_K / 8)) {
        const bool inside = first + row + down < rows;
        cp_async_16(reinterpret_cast<storage_t*>(place + down * 128), inside ? from + down * GEMM_K : x, inside);
    }
}

// Starts to copy the tile of B from w[GEMM_N, GEMM_K], in that order.
__device__ __forceinline__ void load_b_tile_nk(unsigned char* to, const storage_t* w, int first) {
#pragma unroll 8
    for (int i = threadIdx.x; i < TILE_N * GEMM_K / 8; i += THREADS) {
        const int n = i / (GEMM_K / 8), vector = i % (GEMM_K / 8);
        cp_async_16(reinterpret_cast<storage_t*>(swizzled(to, TILE_N, n, vector)),
                    w + (u64)(first + permuted_column(n)) * GEMM_K + 8 * vector, true);
    }
}

// Starts to copy the tile of B from w[GEMM_K, GEMM_N], in the order of memory.
__device__ __forceinline__ void load_b_tile_kn(unsigned char* to, const storage_t* w, int first) {
#pragma unroll 8
    for (int i = threadIdx.x; i < GEMM_K * TILE_N / 8; i += THREADS) {
        const int k = i / (TILE_N / 8), vector = i % (TILE_N / 8);
        cp_async_16(reinterpret_cast<storage_t*>(swizzled(to, GEMM_K, k, vector)),
                    w + (u64)k * GEMM_N + first + 8 * vector, true);
    }
}

// Puts the columns of such a tile in order: 32 of them are 4 × 4 pairs, which are transposed.
__device__ __forceinline__ void permute_columns(unsigned char* b_tile) {
#pragma unroll 2
    for (int i = threadIdx.x; i < GEMM_K * TILE_N / 32; i += THREADS) {
        // Eight neighbouring threads reach eight different vectors.
        const int k = i / 2 % GEMM_K, vector = 4 * (i % 2 + i / (2 * GEMM_K) * 2);
        u32 pairs[4][4];
#pragma unroll
        for (int c = 0; c < 4; ++c) {
            const uint4 four = *reinterpret_cast<const uint4*>(swizzled(b_tile, GEMM_K, k, vector + c));
            pairs[c][0] = four.x, pairs[c][1] = four.y, pairs[c][2] = four.z, pairs[c][3] = four.w;
        }
#pragma unroll
        for (int j = 0; j < 4; ++j)
            *reinterpret_cast<uint4*>(swizzled(b_tile, GEMM_K, k, vector + j)) =
                make_uint4(pairs[0][j], pairs[1][j], pairs[2][j], pairs[3][j]);
    }
}

// Which tiles this consumer takes, and where this thread's accumulators lie: for s < 4, j < 4, i < 2 and half < 2, d[16 s + 4 j + 2 half + i]
// belongs to row `row` + 8 half of a tile and column `column` + 32 s + 2 j + i of the matrix.
struct TileSchedule {
    int consumer, warpgroup, row, column, blocks, first_tile, tiles;

    __device__ __forceinline__ TileSchedule(int rows) {
        const int lane = threadIdx.x % WARP;
        // By a shuffle, so that the compiler knows it to be uniform over the warp.
        const int group = __shfl_sync(FULL_MASK, threadIdx.x / 128, 0);
        consumer = group / 2;
        warpgroup = group % 2;
        row = 16 * (threadIdx.x / WARP % 4) + lane / 4;
        column = (int)(blockIdx.x % TILES_N) * TILE_N + warpgroup * WARPGROUP_N + 8 * (lane % 4);
        blocks = (int)(gridDim.x / TILES_N);
        first_tile = (int)(blockIdx.x / TILES_N) + consumer * blocks;
        tiles = (rows + TILE_M - 1) / TILE_M;
    }

    // The tile that is multiplied as number t, the last first: what reads the results begins with the first rows, and finds
    // them in L2.
    __device__ __forceinline__ int tile(int t) const { return t < tiles ? tiles - 1 - t : t; }

    // Whether the other consumer multiplies after this one's tile t; each does once, even beyond the last row.
    __device__ __forceinline__ bool other_consumer_follows(int t) const {
        return t + blocks < tiles || (consumer == 0 && t == first_tile);
    }
};

// Multiplies this block's rows of x[rows, GEMM_K] with its tile of w. `prologue(t)` runs before the product of tile t,
// `epilogue(t)` with the product in d. B_IS_KN: w is [GEMM_K, GEMM_N], else [GEMM_N, GEMM_K].
template <int B_IS_KN, class Prologue, class Epilogue>
__device__ __forceinline__ void gemm_rows(const TileSchedule& schedule, const storage_t* x, const storage_t* w, int rows,
                                          float (&d)[64], Prologue prologue, Epilogue epilogue) {
    extern __shared__ __align__(1024) unsigned char b_tile[];
    // Three tiles of A: the two that are multiplied, and the next, which takes the place of the one before the last.
    unsigned char* const a_tiles = b_tile + B_BYTES;
    if (B_IS_KN)
        load_b_tile_kn(b_tile, w, blockIdx.x % TILES_N * TILE_N);
    else
        load_b_tile_nk(b_tile, w, blockIdx.x % TILES_N * TILE_N);
    // The weights were there before the kernel ahead began, so that only x has to be waited for.
    pdl_wait();
    int at = schedule.consumer, t = schedule.first_tile;
    load_a_tile(a_tiles + at * A_BYTES, x, schedule.tile(t) * TILE_M, rows);
    do {
        cp_async_wait_all();
        // `prologue` follows the fence, because that waits for all loads in flight.
        if (t == schedule.first_tile) {
            if (B_IS_KN) {
                __syncthreads();
                permute_columns(b_tile);
            }
            fence_async_proxy();
            prologue(schedule.tile(t));
            __syncthreads();
            if (schedule.consumer == 1) pass_mma_turn(1);
        } else {
            fence_async_proxy();
            prologue(schedule.tile(t));
            consumer_barrier(schedule.consumer);
        }
        wait_mma_turn(schedule.consumer);
        wgmma_fence();
        const u32 a_start = shared_address(a_tiles + at * A_BYTES);
        // Computed in the loop, because of the schedule that the compiler then finds: the backward kernel takes 28.7 µs for R1 at
        // batch 256 on an H200, and 33.3 with this line before the loop.
        const u32 b_start = shared_address(b_tile) + schedule.warpgroup * WARPGROUP_N * (B_IS_KN ? GEMM_K * 2 : 128);
#pragma unroll
        for (int k = 0; k < GEMM_K; k += 16) {
            const u64 a = smem_descriptor(a_start + k / SWIZZLE_VALUES * TILE_M * 128 + k % SWIZZLE_VALUES * 2, 0);
            const u64 b = B_IS_KN ? smem_descriptor(b_start + k * 128, GEMM_K * 128)
                                  : smem_descriptor(b_start + k / SWIZZLE_VALUES * TILE_N * 128 + k % SWIZZLE_VALUES * 2, 0);
            wgmma_m64n128k16<B_IS_KN>(d, a, b, k > 0);
        }
        wgmma_commit();
        const int next = t + 2 * schedule.blocks;
        at = at == 0 ? 2 : at - 1;
        if (next < schedule.tiles) load_a_tile(a_tiles + at * A_BYTES, x, schedule.tile(next) * TILE_M, rows);
        wgmma_wait<0>();
        results_are_there(d);
        if (schedule.other_consumer_follows(t)) pass_mma_turn(schedule.consumer);
        epilogue(schedule.tile(t));
        t = next;
    } while (t < schedule.tiles);
}

// The saved derivative of GELU lies between −0.13 and 1.13. Quantised in steps of 1/200 it fits into a byte, 0 and 1 exactly,
// and is as exact as bf16 is near 1.
#define DERIVATIVE_SCALE 200.0f
#define DERIVATIVE_ZERO 26.0f
// Added to a whole number below 2^23, it leaves the number in the lowest bits.
#define TWO_TO_23 8388608.0f

__device__ __forceinline__ uint2 quantise_derivatives(const float (&derivatives)[8]) {
    u32 bits[8];
#pragma unroll
    for (int e = 0; e < 8; ++e)
        bits[e] = __float_as_uint(
            fmaf(__saturatef(fmaf(derivatives[e], DERIVATIVE_SCALE / 255, DERIVATIVE_ZERO / 255)), 255.0f, TWO_TO_23));
    const auto four = [](const u32* b) {
        return __byte_perm(__byte_perm(b[0], b[1], 0x0040), __byte_perm(b[2], b[3], 0x0040), 0x5410);
    };
    return make_uint2(four(bits), four(bits + 4));
}

// Derivative e of eight, in steps.
__device__ __forceinline__ float dequantise(uint2 packed, int e) {
    const u32 four = e < 4 ? packed.x : packed.y;
    return __uint_as_float(__byte_perm(four, 0x4b000000u, 0x7440 | e % 4)) - (TWO_TO_23 + DERIVATIVE_ZERO);
}

// out = gelu(z) and derivative = gelu'(z) where z[rows, GEMM_N] = x[rows, GEMM_K] · w[GEMM_K, GEMM_N] + bias.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    mlp_up_gelu(storage_t* out, unsigned char* derivative, const storage_t* x, const storage_t* w, const storage_t* bias,
                int rows) {
    const TileSchedule schedule(rows);
    float d[64];
    uint4 biases[WARPGROUP_N / 32];
    FOR_S biases[s] = *reinterpret_cast<const uint4*>(bias + schedule.column + 32 * s);
    gemm_rows<1>(schedule, x, w, rows, d, [](int) {}, [&](int t) {
        FOR_S {
            float b[8], values[8], derivatives[8];
            unpack8(b, biases[s]);
            FOR_HALVES {
                FOR_EIGHT gelu_with_derivative(d[ACCUMULATOR(s, half, e)] + b[e], values[e], derivatives[e]);
                const int row = t * TILE_M + schedule.row + 8 * half;
                if (row < rows) {
                    const u64 at = (u64)row * GEMM_N + schedule.column + 32 * s;
                    *reinterpret_cast<uint4*>(out + at) = pack8(values);
                    *reinterpret_cast<uint2*>(derivative + at) = quantise_derivatives(derivatives);
                }
            }
        }
    });
}

// d[rows, GEMM_N] = dout[rows, GEMM_K] · w[GEMM_N, GEMM_K]ᵀ ∘ derivative, and its sums over rows:
// partials[8 · blocks / TILES_N, GEMM_N], one row for each warp of one half of the columns.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    mlp_hidden_backward(storage_t* d, float* partials, const storage_t* dout, const storage_t* w,
                        const unsigned char* derivative, int rows) {
    const TileSchedule schedule(rows);
    float p[64], sums[WARPGROUP_N / 32];
    uint2 derivatives[2][WARPGROUP_N / 32];
    FOR_S sums[s] = 0;
    const auto load_derivatives = [&](int t) {
        FOR_HALVES FOR_S {
            // Rows beyond the last multiply zeros.
            const int row = min(t * TILE_M + schedule.row + 8 * half, rows - 1);
            const u64 at = (u64)row * GEMM_N + schedule.column + 32 * s;
            derivatives[half][s] = *reinterpret_cast<const uint2*>(derivative + at);
        }
    };
    gemm_rows<0>(schedule, dout, w, rows, p, load_derivatives, [&](int t) {
        FOR_S {
            float over_rows[8], v[8];
            FOR_EIGHT over_rows[e] = 0;
            FOR_HALVES {
                FOR_EIGHT {
                    v[e] = p[ACCUMULATOR(s, half, e)] * (1 / DERIVATIVE_SCALE) * dequantise(derivatives[half][s], e);
                    over_rows[e] += v[e];
                }
                const int row = t * TILE_M + schedule.row + 8 * half;
                if (row < rows) *reinterpret_cast<uint4*>(d + (u64)row * GEMM_N + schedule.column + 32 * s) = pack8(v);
            }
            sums[s] += transpose_sum(over_rows);
        }
    });
    const int warp = 4 * schedule.consumer + threadIdx.x / WARP % 4;
    float* partial = partials + (u64)(blockIdx.x / TILES_N * 8 + warp) * GEMM_N + schedule.column + threadIdx.x % WARP / 4;
    FOR_S partial[32 * s] = sums[s];
}

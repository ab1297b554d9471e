// The two products around the activation of an MLP, with the activation inside: cuBLASLt's fused forms move the wide
// matrices through memory more often than needed. bf16 only.
//
// A block owns 128 × 128 results: 8 warps, 2 × 4 of them, with 64 × 32 each. Operands stream through shared memory in
// slices 32 deep, several on the way at once; results pass through shared memory so that rows are written whole.
//
// Defined by the program: INNER (a multiple of 32), OUTER (of 128), ACTIVATION (0 GELU, 1 ReLU).

#define BLOCK_ROWS 128
#define BLOCK_COLUMNS 128
#define SLICE 32
#define SLICES (INNER / SLICE)
#define STAGES 4
#define THREADS 256
#define LEFT_STRIDE (SLICE + 8)
#define RIGHT_STRIDE (BLOCK_COLUMNS + 8)
#define RESULT_STRIDE (BLOCK_COLUMNS + 8)
#define LEFT_SIZE (BLOCK_ROWS * LEFT_STRIDE)
// Large enough for a slice [32, 128] or, transposed, [128, 32].
#define RIGHT_SIZE (BLOCK_COLUMNS * LEFT_STRIDE)
#define STAGE_SIZE (LEFT_SIZE + RIGHT_SIZE)

// One slice of x[rows, INNER] and of w, which is [INNER, OUTER] or, transposed, [OUTER, INNER].
template <bool TRANSPOSED>
__device__ __forceinline__ void fetch(half_t* stage, const half_t* x, const half_t* w, int row, int column, int rows, int slice) {
#pragma unroll
    for (int i = threadIdx.x; i < BLOCK_ROWS * SLICE / 8; i += THREADS) {
        const int r = i / (SLICE / 8), k = i % (SLICE / 8) * 8;
        const bool inside = row + r < rows;
        copy16(stage + r * LEFT_STRIDE + k, x + (u64)(inside ? row + r : 0) * INNER + slice * SLICE + k, inside);
    }
    half_t* right_stage = stage + LEFT_SIZE;
#pragma unroll
    for (int i = threadIdx.x; i < BLOCK_COLUMNS * SLICE / 8; i += THREADS) {
        if (TRANSPOSED) {
            const int n = i / (SLICE / 8), k = i % (SLICE / 8) * 8;
            copy16(right_stage + n * LEFT_STRIDE + k, w + (u64)(column + n) * INNER + slice * SLICE + k, true);
        } else {
            const int k = i / (BLOCK_COLUMNS / 8), n = i % (BLOCK_COLUMNS / 8) * 8;
            copy16(right_stage + k * RIGHT_STRIDE + n, w + (u64)(slice * SLICE + k) * OUTER + column + n, true);
        }
    }
}

// results[128, 128] = x · w for the block's rows and columns, left in shared memory as bf16, with the bias added.
template <bool TRANSPOSED>
__device__ __forceinline__ void block_product(half_t* shared, const half_t* x, const half_t* w, const float* bias, int row,
                                              int column, int rows) {
    const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    const int warp_row = warp / 4 * 64, warp_column = warp % 4 * 32;
    float sums[4][4][4];
#pragma unroll
    for (int m = 0; m < 4; ++m)
#pragma unroll
        for (int n = 0; n < 4; ++n) sums[m][n][0] = sums[m][n][1] = sums[m][n][2] = sums[m][n][3] = 0;
#pragma unroll
    for (int slice = 0; slice < STAGES - 1; ++slice) {
        if (slice < SLICES) fetch<TRANSPOSED>(shared + slice * STAGE_SIZE, x, w, row, column, rows, slice);
        asm volatile("cp.async.commit_group;" ::: "memory");
    }
    for (int slice = 0; slice < SLICES; ++slice) {
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
        __syncthreads();
        const int next = slice + STAGES - 1;
        if (next < SLICES) fetch<TRANSPOSED>(shared + next % STAGES * STAGE_SIZE, x, w, row, column, rows, next);
        asm volatile("cp.async.commit_group;" ::: "memory");
        const half_t* left_stage = shared + slice % STAGES * STAGE_SIZE;
        const half_t* right_stage = left_stage + LEFT_SIZE;
#pragma unroll
        for (int k = 0; k < SLICE; k += DEPTH) {
            Left a[4];
            Right b[4];
#pragma unroll
            for (int m = 0; m < 4; ++m) a[m] = left(left_stage + (warp_row + 16 * m) * LEFT_STRIDE + k, LEFT_STRIDE);
#pragma unroll
            for (int n = 0; n < 4; ++n) {
                const int at = warp_column + 8 * n;
                b[n] = TRANSPOSED ? right_of_rows(right_stage + at * LEFT_STRIDE + k, LEFT_STRIDE)
                                  : right(right_stage + k * RIGHT_STRIDE + at, RIGHT_STRIDE);
            }
#pragma unroll
            for (int m = 0; m < 4; ++m)
#pragma unroll
                for (int n = 0; n < 4; ++n) multiply(sums[m][n], a[m], b[n]);
        }
    }
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncthreads();
    const int g = lane / 4, c = lane % 4;
#pragma unroll
    for (int n = 0; n < 4; ++n) {
        const int at = warp_column + 8 * n + 2 * c;
        const float low = bias ? bias[column + at] : 0.0f, high = bias ? bias[column + at + 1] : 0.0f;
#pragma unroll
        for (int m = 0; m < 4; ++m) {
            half_t* place = shared + (warp_row + 16 * m + g) * RESULT_STRIDE + at;
            store2(place, sums[m][n][0] + low, sums[m][n][1] + high);
            store2(place + 8 * RESULT_STRIDE, sums[m][n][2] + low, sums[m][n][3] + high);
        }
    }
    __syncthreads();
}

struct Eight {
    float x[8];
};

__device__ __forceinline__ Eight load8(const half_t* p) {
    const uint4 raw = *reinterpret_cast<const uint4*>(p);
    const u32 words[4] = {raw.x, raw.y, raw.z, raw.w};
    Eight out;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        out.x[2 * i] = __uint_as_float(words[i] << 16);
        out.x[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000u);
    }
    return out;
}

__device__ __forceinline__ void store8(half_t* p, const Eight& v) {
    *reinterpret_cast<uint4*>(p) =
        make_uint4(pack2(v.x[0], v.x[1]), pack2(v.x[2], v.x[3]), pack2(v.x[4], v.x[5]), pack2(v.x[6], v.x[7]));
}

#define GELU_SCALE (2.0f * 0.7978845608f)
#define GELU_CUBIC 0.044715f

__device__ __forceinline__ float sigmoid(float x) { return __fdividef(1.0f, 1.0f + __expf(-x)); }

__device__ __forceinline__ float activated(float z) {
    if (ACTIVATION == 1) return fmaxf(z, 0.0f);
    return z * sigmoid(GELU_SCALE * (z + GELU_CUBIC * z * z * z));
}

__device__ __forceinline__ float slope(float z) {
    if (ACTIVATION == 1) return z > 0.0f ? 1.0f : 0.0f;
    const float s = sigmoid(GELU_SCALE * (z + GELU_CUBIC * z * z * z));
    return s + z * s * (1.0f - s) * GELU_SCALE * (1.0f + 3.0f * GELU_CUBIC * z * z);
}

// before = x · w + bias, out = activation(before); w is [INNER, OUTER]
extern "C" __global__ void __launch_bounds__(THREADS, 2)
    mlp_up(half_t* out, half_t* before, const half_t* x, const half_t* w, const float* bias, int rows) {
    extern __shared__ uint4 memory[];
    half_t* shared = reinterpret_cast<half_t*>(memory);
    const int column = blockIdx.x % (OUTER / BLOCK_COLUMNS) * BLOCK_COLUMNS;
    const int row = blockIdx.x / (OUTER / BLOCK_COLUMNS) * BLOCK_ROWS;
    block_product<false>(shared, x, w, bias, row, column, rows);
    const int at = threadIdx.x % 16 * 8;
#pragma unroll 4
    for (int r = threadIdx.x / 16; r < BLOCK_ROWS; r += THREADS / 16) {
        if (row + r >= rows) break;
        const half_t* from = shared + r * RESULT_STRIDE + at;
        const u64 to = (u64)(row + r) * OUTER + column + at;
        *reinterpret_cast<uint4*>(before + to) = *reinterpret_cast<const uint4*>(from);
        Eight v = load8(from);
#pragma unroll
        for (int i = 0; i < 8; ++i) v.x[i] = activated(v.x[i]);
        store8(out + to, v);
    }
}

// dbefore = (d · wᵀ) ∘ activation'(before) for w [OUTER, INNER]; parts[row of blocks, OUTER] = Σ over the block's rows
extern "C" __global__ void __launch_bounds__(THREADS, 2)
    mlp_up_backward(half_t* dbefore, float* parts, const half_t* d, const half_t* w, const half_t* before, int rows) {
    extern __shared__ uint4 memory[];
    __shared__ float lanes[16][BLOCK_COLUMNS];
    half_t* shared = reinterpret_cast<half_t*>(memory);
    const int column = blockIdx.x % (OUTER / BLOCK_COLUMNS) * BLOCK_COLUMNS;
    const int row = blockIdx.x / (OUTER / BLOCK_COLUMNS) * BLOCK_ROWS;
    block_product<true>(shared, d, w, 0, row, column, rows);
    const int at = threadIdx.x % 16 * 8;
    Eight sum;
#pragma unroll
    for (int i = 0; i < 8; ++i) sum.x[i] = 0;
#pragma unroll 4
    for (int r = threadIdx.x / 16; r < BLOCK_ROWS; r += THREADS / 16) {
        if (row + r >= rows) break;
        const u64 to = (u64)(row + r) * OUTER + column + at;
        const Eight z = load8(before + to);
        Eight v = load8(shared + r * RESULT_STRIDE + at);
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            v.x[i] *= slope(z.x[i]);
            sum.x[i] += v.x[i];
        }
        store8(dbefore + to, v);
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) lanes[threadIdx.x / 16][at + i] = sum.x[i];
    __syncthreads();
    if (threadIdx.x < BLOCK_COLUMNS) {
        float total = 0;
#pragma unroll
        for (int i = 0; i < 16; ++i) total += lanes[i][threadIdx.x];
        parts[(u64)(row / BLOCK_ROWS) * OUTER + column + threadIdx.x] = total;
    }
}

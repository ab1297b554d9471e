// What lstm_forward.cu and lstm_backward.cu share. A stack of layers is walked as a wavefront along its diagonals: at diagonal n,
// layer l handles token n − l, so that one launch keeps every layer busy and needs only what the launch before it has written.
// The backward pass walks the same diagonals from the other end. A block handles UNITS hidden units of one layer for ROWS prompts.
//
// Defined by the program: WIDTH, UNITS (8, 16 or 32, divides WIDTH), ROWS (32 or 64), STAGES (3 or more, of the
// cp.async pipeline: all but one are in flight), STAGED = 1.

// Values between the rows of weights that load_b_kn reads, such that a fragment's reads hit different banks.
#define STRIDE_KN (UNITS + VEC)

// Pointers of one layer; values are [prompt, token, unit], gates and their gradients [prompt, token, gate, unit]. Gates
// and cells are float always: in bf16 a gate near 1 would lose all digits of 1 − gate.
struct Layer {
    const storage_t *x, *w_ih, *w_hh;
    const float *b_ih, *b_hh;
    float* out;              // h, where `out_storage` is not float itself
    storage_t* out_storage;  // h
    float* cells;
    float* gates;            // after their activation; this and all below are 0 in inference
    storage_t* previous;     // h one token earlier, zeros before the first
    storage_t* dgates;       // gradients of the gates' arguments
    float* dcell;            // gradient of the cell for the token before, [prompt, unit]
    float* dbias;            // sums of dgates over the prompts of a block, [token, block, gate, unit]
};

// A block's tile: which units of which layer for which prompts.
struct CtaTile {
    int unit, row, prompt_tile, prompt_tiles, layer;
};

__device__ __forceinline__ CtaTile cta_tile(int first_layer, int batch) {
    const int slice = blockIdx.x % (WIDTH / UNITS), rest = blockIdx.x / (WIDTH / UNITS);
    const int prompt_tiles = (batch + ROWS - 1) / ROWS, prompt_tile = rest % prompt_tiles;
    return CtaTile{slice * UNITS, prompt_tile * ROWS, prompt_tile, prompt_tiles, first_layer + rest / prompt_tiles};
}

__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ __forceinline__ void cp_async_wait_oldest() {
    asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
}

// to[r, c] = from[offset(r) + c] for r < rows and c < columns, else 0; columns are a multiple of 8.
template <int HEIGHT, int LENGTH, int STRIDE, int THREADS, class Offset>
__device__ __forceinline__ void stage_rows(storage_t* to, const storage_t* from, Offset offset, int rows, int columns) {
    constexpr int VECTORS = LENGTH / VEC;
#pragma unroll
    for (int i = threadIdx.x; i < HEIGHT * VECTORS; i += THREADS) {
        const int row = i / VECTORS, column = VEC * (i % VECTORS);
        const bool inside = row < rows && column < columns;
        cp_async_16(to + row * STRIDE + column, inside ? from + offset(row) + column : from, inside);
    }
}

// Calls compute(i) for every i < count when what load_w(i) and load_x(i) copy has arrived. The weights were written by the step
// before, so that the first of them are copied while the launch before this one still runs; `meanwhile` follows the wait for it.
template <class LoadW, class LoadX, class Meanwhile, class Compute>
__device__ __forceinline__ void pipelined(int count, LoadW load_w, LoadX load_x, Meanwhile meanwhile, Compute compute) {
#pragma unroll
    for (int i = 0; i < STAGES - 1; ++i)
        if (i < count) load_w(i);
    pdl_wait();
#pragma unroll
    for (int i = 0; i < STAGES - 1; ++i) {
        if (i < count) load_x(i);
        cp_async_commit();
    }
    meanwhile();
    for (int i = 0; i < count; ++i) {
        cp_async_wait_oldest();
        __syncthreads(); // everyone's copies have arrived, and everyone is done with the stage that is overwritten now
        if (i + STAGES - 1 < count) {
            load_w(i + STAGES - 1);
            load_x(i + STAGES - 1);
        }
        cp_async_commit();
        compute(i);
    }
}

// Of two tiles of 16 prompts.
template <int N>
using Accumulators = float[2][N][4];

// Calls compute(sums) to add the products of one stage. Tensor cores truncate when they add: float32 accumulates a stage apart
// and adds it with rounding.
template <int N, class Compute>
__device__ __forceinline__ void accumulate(Accumulators<N>& sums, Compute compute) {
#if PRECISION == FLOAT32
    Accumulators<N> partial = {};
    compute(partial);
#pragma unroll
    for (int i = 0; i < 2 * N * 4; ++i) sums[i / (4 * N)][i / 4 % N][i % 4] += partial[i / (4 * N)][i / 4 % N][i % 4];
#else
    compute(sums);
#endif
}

__device__ __forceinline__ float2& float2_at(float* p) { return *reinterpret_cast<float2*>(p); }
__device__ __forceinline__ float2 float2_at(const float* p) { return *reinterpret_cast<const float2*>(p); }

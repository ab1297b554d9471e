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

template <int N>
__device__ __forceinline__ void clear(Accumulators<N>& sums) {
#pragma unroll
    for (int i = 0; i < 2 * N * 4; ++i) sums[i / (4 * N)][i / 4 % N][i % 4] = 0;
}

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

// Forward: a warp's sums are the arguments of the gates of 32 prompts, from `row` on, and of 8 units; a lane has rows 16 tile + 8 half + g
// and two units from `unit` on, with all their gates.
__device__ __forceinline__ void begin_with_biases(Accumulators<4>& sums, const Layer& layer, int unit) {
#pragma unroll
    for (int gate = 0; gate < 4; ++gate) {
        const float2 x = float2_at(layer.b_ih + gate * WIDTH + unit), h = float2_at(layer.b_hh + gate * WIDTH + unit);
#pragma unroll
        for (int tile = 0; tile < 2; ++tile) {
            sums[tile][gate][0] = sums[tile][gate][2] = x.x + h.x;
            sums[tile][gate][1] = sums[tile][gate][3] = x.y + h.y;
        }
    }
}

// sums += x · wᵀ over LENGTH values of K; rows of x and of w are `stride` apart, gates of w UNITS rows.
template <int LENGTH>
__device__ __forceinline__ void add_to_gates(Accumulators<4>& sums, const storage_t* x, const storage_t* w, int stride) {
    accumulate<4>(sums, [=](Accumulators<4>& into) {
#pragma unroll
        for (int k0 = 0; k0 < LENGTH; k0 += MMA_K) {
            const FragmentA low = load_a(x + k0, stride), high = load_a(x + 16 * stride + k0, stride);
#pragma unroll
            for (int gate = 0; gate < 4; ++gate) {
                const FragmentB b = load_b_nk(w + gate * UNITS * stride + k0, stride);
                mma(into[0][gate], low, b);
                mma(into[1][gate], high, b);
            }
        }
    });
}

// Activates the gates, takes the cells a token on, and stores all that later tokens, layers and the backward pass read.
__device__ __forceinline__ void update_cells(const Layer& layer, const Accumulators<4>& sums, float2 (&cells)[2][2], int row, int unit,
                                             int token, int batch, int tokens) {
#pragma unroll
    for (int tile = 0; tile < 2; ++tile)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int r = row + 16 * tile + 8 * half;
            if (r >= batch) continue;
            float gates[4][2], cell[2], h[2];
            const float old[2] = {cells[tile][half].x, cells[tile][half].y};
#pragma unroll
            for (int e = 0; e < 2; ++e) {
#pragma unroll
                for (int gate = 0; gate < 4; ++gate) {
                    const float z = sums[tile][gate][2 * half + e];
                    gates[gate][e] = gate == 2 ? tanh_gate(z) : sigmoid(z);
                }
                cell[e] = gates[0][e] * gates[2][e] + gates[1][e] * old[e];
                h[e] = gates[3][e] * tanh_gate(cell[e]);
            }
            const u64 at = ((u64)r * tokens + token) * WIDTH + unit;
            cells[tile][half] = make_float2(cell[0], cell[1]);
            float2_at(layer.cells + at) = cells[tile][half];
            store2(layer.out_storage + at, h[0], h[1]);
#if PRECISION == BF16
            float2_at(layer.out + at) = make_float2(h[0], h[1]);
#endif
            if (layer.gates) {
                const u64 gate_at = ((u64)r * tokens + token) * 4 * WIDTH + unit;
#pragma unroll
                for (int gate = 0; gate < 4; ++gate)
                    float2_at(layer.gates + gate_at + gate * WIDTH) = make_float2(gates[gate][0], gates[gate][1]);
                if (token + 1 < tokens) store2(layer.previous + at + WIDTH, h[0], h[1]);
            }
        }
}

// Backward: a block's warps have four slices of K each of dh, [32 prompts, UNITS], which meet in shared memory.
#define SPLIT_K 4
#define BACKWARD_THREADS (WARP * SPLIT_K * ROWS / 32)
#define SUM_STRIDE (UNITS + 8)
// Threads that share a unit, and prompts of each.
#define UNIT_THREADS (BACKWARD_THREADS / UNITS)
#define PROMPTS_PER_THREAD (ROWS / UNIT_THREADS)

// What a thread's cells need at a token: it has one unit and every UNIT_THREADS-th prompt from `row` on.
struct Cells {
    float gates[PROMPTS_PER_THREAD][4], cell[PROMPTS_PER_THREAD], before[PROMPTS_PER_THREAD], dh[PROMPTS_PER_THREAD];
};

__device__ __forceinline__ void load_cells(Cells& cells, const Layer& layer, const storage_t* dout, int row, int unit, int token, int batch,
                                           int tokens) {
#pragma unroll
    for (int e = 0; e < PROMPTS_PER_THREAD; ++e) {
        const int r = row + e * UNIT_THREADS;
        const bool inside = r < batch;
        const u64 at = ((u64)r * tokens + token) * WIDTH + unit, gate_at = ((u64)r * tokens + token) * 4 * WIDTH + unit;
#pragma unroll
        for (int gate = 0; gate < 4; ++gate) cells.gates[e][gate] = inside ? layer.gates[gate_at + gate * WIDTH] : 0.0f;
        cells.cell[e] = inside ? layer.cells[at] : 0.0f;
        cells.before[e] = inside && token > 0 ? layer.cells[at - WIDTH] : 0.0f;
        cells.dh[e] = inside && dout ? to_float(dout[at]) : 0.0f;
    }
}

// Writes a warp's slice of dh to [SPLIT_K, ROWS, SUM_STRIDE].
__device__ __forceinline__ void store_slice(float* slices, const Accumulators<UNITS / 8>& sums, int k_slice, int row_in_block) {
    const int lane = threadIdx.x % WARP, g = lane / 4, c = lane % 4;
#pragma unroll
    for (int tile = 0; tile < 2; ++tile)
#pragma unroll
        for (int j = 0; j < UNITS / 8; ++j) {
            float* to = slices + (k_slice * ROWS + row_in_block + 16 * tile + g) * SUM_STRIDE + 8 * j + 2 * c;
            float2_at(to) = make_float2(sums[tile][j][0], sums[tile][j][1]);
            float2_at(to + 8 * SUM_STRIDE) = make_float2(sums[tile][j][2], sums[tile][j][3]);
        }
}

// Through the cells to the gradients of the gates' arguments, which are stored and added to `dbias`; `dcell` is taken a token back.
__device__ __forceinline__ void differentiate_cells(const Layer& layer, const Cells& cells, const float* slices,
                                                    float (&dcell)[PROMPTS_PER_THREAD], float (&dbias)[4], int first_row, int row, int unit,
                                                    int token, int batch, int tokens) {
#pragma unroll
    for (int e = 0; e < PROMPTS_PER_THREAD; ++e) {
        const int r = row + e * UNIT_THREADS;
        if (r >= batch) continue;
        const float* slice_sums = slices + (r - first_row) * SUM_STRIDE + threadIdx.x % UNITS;
        float d = cells.dh[e];
#pragma unroll
        for (int s = 0; s < SPLIT_K; ++s) d += slice_sums[s * ROWS * SUM_STRIDE];
        const float i = cells.gates[e][0], f = cells.gates[e][1], candidate = cells.gates[e][2], o = cells.gates[e][3];
        const float tanh_cell = tanh_gate(cells.cell[e]);
        const float dc = dcell[e] + d * o * (1.0f - tanh_cell * tanh_cell);
        const float dgates[4] = {dc * candidate * i * (1.0f - i), dc * cells.before[e] * f * (1.0f - f),
                                 dc * i * (1.0f - candidate * candidate), d * tanh_cell * o * (1.0f - o)};
        dcell[e] = dc * f;
#pragma unroll
        for (int gate = 0; gate < 4; ++gate) {
            layer.dgates[((u64)r * tokens + token) * 4 * WIDTH + gate * WIDTH + unit] = to_storage(dgates[gate]);
            dbias[gate] += dgates[gate];
        }
    }
}

// Adds up what the block's threads have of dbias, by way of [UNIT_THREADS, 4, UNITS] in shared memory; to[gate, unit].
__device__ __forceinline__ void reduce_biases(float* gate_sums, const float (&dbias)[4], float* to, int first_unit) {
#pragma unroll
    for (int gate = 0; gate < 4; ++gate)
        gate_sums[(threadIdx.x / UNITS * 4 + gate) * UNITS + threadIdx.x % UNITS] = dbias[gate];
    __syncthreads();
    if (threadIdx.x < 4 * UNITS) {
        float sum = 0;
#pragma unroll
        for (int other = 0; other < UNIT_THREADS; ++other) sum += gate_sums[other * 4 * UNITS + threadIdx.x];
        to[threadIdx.x / UNITS * WIDTH + first_unit + threadIdx.x % UNITS] = sum;
    }
}

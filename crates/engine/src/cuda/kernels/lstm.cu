// A stack of LSTM layers, walked along its diagonals: at diagonal n, layer l handles token n − l, so that one launch keeps
// every layer busy and needs only what the launch before it has written. The backward pass walks the same diagonals from
// the other end. A block handles UNITS hidden units of one layer for ROWS prompts.
//
// Defined by the program: WIDTH, UNITS (8, 16 or 32, divides WIDTH), ROWS (32 or 64), STAGES (3 or more pieces of the
// operands in shared memory, all but one of them on their way), STAGED = 1.

#if PRECISION == BF16
#define PER_16_BYTES 8
// Values between the rows of weights that are read across, such that a fragment's reads hit different banks.
#define STRIDE_ACROSS (UNITS + 8)
#else
#define PER_16_BYTES 4
#define STRIDE_ACROSS (UNITS + 4)
#endif

// Pointers of one layer; values are [prompt, token, unit], gates and their gradients [prompt, token, gate, unit]. Gates
// and cells are float always: in bf16 a gate near 1 would lose all digits of 1 − gate.
struct Layer {
    const half_t *x, *w_ih, *w_hh;
    const float *b_ih, *b_hh;
    float* out;         // h, where `out_half` is not float itself
    half_t* out_half;   // h
    float* cells;
    float* gates;       // after their activation; this and all below are 0 in inference
    half_t* previous;   // h one token earlier, zeros before the first
    half_t* dgates;     // gradients of the gates' arguments
    float* dcell;       // gradient of the cell on its way to the token before, [prompt, unit]
    float* dbias;       // sums of dgates over the prompts of a block, [token, block, gate, unit]
};

// A block's place: which units of which layer for which prompts.
struct Place {
    int unit, row, group, groups, layer;
};

__device__ __forceinline__ Place place_of(int first_layer, int batch) {
    const int slice = blockIdx.x % (WIDTH / UNITS), rest = blockIdx.x / (WIDTH / UNITS);
    const int groups = (batch + ROWS - 1) / ROWS, group = rest % groups;
    return Place{slice * UNITS, group * ROWS, group, groups, first_layer + rest / groups};
}

// Copies on their way to shared memory while the block computes; zeros where nothing is inside.
__device__ __forceinline__ void copy_16_bytes(half_t* to, const half_t* from, bool inside) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"((u32)__cvta_generic_to_shared(to)), "l"(from),
                 "r"(inside ? 16 : 0)
                 : "memory");
}
__device__ __forceinline__ void end_of_piece() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ __forceinline__ void wait_for_oldest_piece() {
    asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
}

// to[r, c] = from[offset(r) + c] for r < rows and c < columns, else 0; columns are a multiple of 8.
template <int HEIGHT, int LENGTH, int STRIDE, int THREADS, class Offset>
__device__ __forceinline__ void stage(half_t* to, const half_t* from, Offset offset, int rows, int columns) {
    constexpr int PIECES = LENGTH / PER_16_BYTES;
#pragma unroll
    for (int i = threadIdx.x; i < HEIGHT * PIECES; i += THREADS) {
        const int row = i / PIECES, column = PER_16_BYTES * (i % PIECES);
        const bool inside = row < rows && column < columns;
        copy_16_bytes(to + row * STRIDE + column, inside ? from + offset(row) + column : from, inside);
    }
}

// Calls use(i) for every i < count when what load(i) copies has arrived.
template <class Load, class Use>
__device__ __forceinline__ void pipelined(int count, Load load, Use use) {
#pragma unroll
    for (int i = 0; i < STAGES - 1; ++i) {
        if (i < count) load(i);
        end_of_piece();
    }
    for (int i = 0; i < count; ++i) {
        wait_for_oldest_piece();
        __syncthreads(); // everyone's copies have arrived, and everyone is done with the piece that is overwritten now
        if (i + STAGES - 1 < count) load(i + STAGES - 1);
        end_of_piece();
        use(i);
    }
}

// Results of two tiles of 16 prompts.
template <int N>
using Sums = float[2][N][4];

// Calls use(sums) to add the products of one piece. Tensor cores cut off the digits that do not fit when they add: float32
// takes a piece's sum aside and adds it with rounding.
template <int N, class Use>
__device__ __forceinline__ void add_piece(Sums<N>& sums, Use use) {
#if PRECISION == FLOAT32
    Sums<N> aside = {};
    use(aside);
#pragma unroll
    for (int i = 0; i < 2 * N * 4; ++i) sums[i / (4 * N)][i / 4 % N][i % 4] += aside[i / (4 * N)][i / 4 % N][i % 4];
#else
    use(sums);
#endif
}

__device__ __forceinline__ float2& pair(float* p) { return *reinterpret_cast<float2*>(p); }
__device__ __forceinline__ float2 pair(const float* p) { return *reinterpret_cast<const float2*>(p); }

#if PRECISION == FLOAT32
__device__ __forceinline__ float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }
__device__ __forceinline__ float squash(float x) { return tanhf(x); }
#else
__device__ __forceinline__ float sigmoid(float x) { return __fdividef(1.0f, 1.0f + __expf(-x)); }
__device__ __forceinline__ float squash(float x) { return 1.0f - __fdividef(2.0f, 1.0f + __expf(2.0f * x)); }
#endif

// Forward: gates = x · w_ihᵀ + h · w_hhᵀ + biases. A warp owns 32 prompts and 8 units with all their gates, so that a
// lane ends up with whatever its cells need. The inner dimension comes in chunks of 128 bytes.
#define CHUNK (8 * PER_16_BYTES)
#define CHUNKS ((WIDTH + CHUNK - 1) / CHUNK)
#define STRIDE (CHUNK + 8)
#define PIECE ((ROWS + 4 * UNITS) * STRIDE)
#define FORWARD_THREADS (WARP * UNITS / 8 * ROWS / 32)

extern "C" __global__ void __launch_bounds__(FORWARD_THREADS, 1)
    lstm_forward(const Layer* layers, int first_layer, int diagonal, int batch, int tokens) {
    await_previous();
    extern __shared__ uint4 shared[];
    half_t* pieces = reinterpret_cast<half_t*>(shared);
    const Place place = place_of(first_layer, batch);
    const Layer layer = layers[place.layer];
    const int token = diagonal - place.layer;
    const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, g = lane / 4, c = lane % 4;
    const int unit_in_block = warp % (UNITS / 8) * 8, row_in_block = warp / (UNITS / 8) * 32;
    const int unit = place.unit + unit_in_block + 2 * c, row = place.row + row_in_block + g;

    Sums<4> sums;
#pragma unroll
    for (int gate = 0; gate < 4; ++gate) {
        const float2 x = pair(layer.b_ih + gate * WIDTH + unit), h = pair(layer.b_hh + gate * WIDTH + unit);
#pragma unroll
        for (int tile = 0; tile < 2; ++tile) {
            sums[tile][gate][0] = sums[tile][gate][2] = x.x + h.x;
            sums[tile][gate][1] = sums[tile][gate][3] = x.y + h.y;
        }
    }
    float2 before[2][2]; // of rows 16 tile + 8 half + g
#pragma unroll
    for (int tile = 0; tile < 2; ++tile)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int r = row + 16 * tile + 8 * half;
            before[tile][half] = token > 0 && r < batch
                                     ? pair((const float*)layer.cells + ((u64)r * tokens + token - 1) * WIDTH + unit)
                                     : make_float2(0, 0);
        }

    const u64 first = ((u64)place.row * tokens + token) * WIDTH;
    const auto load = [&](int i) {
        half_t* to = pieces + i % STAGES * PIECE;
        const bool recurrent = i >= CHUNKS;
        const int k = (recurrent ? i - CHUNKS : i) * CHUNK;
        const half_t* x = recurrent ? layer.out_half + first - WIDTH : layer.x + first;
        const half_t* w = (recurrent ? layer.w_hh : layer.w_ih) + place.unit * WIDTH;
        const auto row_of_x = [=](int r) { return (u64)r * tokens * WIDTH; };
        const auto row_of_w = [=](int r) { return (u64)(r / UNITS * WIDTH + r % UNITS) * WIDTH; };
        stage<ROWS, CHUNK, STRIDE, FORWARD_THREADS>(to, x + k, row_of_x, batch - place.row, WIDTH - k);
        to += ROWS * STRIDE;
        stage<4 * UNITS, CHUNK, STRIDE, FORWARD_THREADS>(to, w + k, row_of_w, 4 * UNITS, WIDTH - k);
    };
    const auto use = [&](int i) {
        const half_t* x = pieces + i % STAGES * PIECE + row_in_block * STRIDE;
        const half_t* w = pieces + i % STAGES * PIECE + (ROWS + unit_in_block) * STRIDE;
        add_piece<4>(sums, [=](Sums<4>& into) {
#pragma unroll
            for (int depth = 0; depth < CHUNK; depth += DEPTH) {
                const Left low = left(x + depth, STRIDE), high = left(x + 16 * STRIDE + depth, STRIDE);
#pragma unroll
                for (int gate = 0; gate < 4; ++gate) {
                    const Right b = right_of_rows(w + gate * UNITS * STRIDE + depth, STRIDE);
                    multiply(into[0][gate], low, b);
                    multiply(into[1][gate], high, b);
                }
            }
        });
    };
    pipelined(token > 0 ? 2 * CHUNKS : CHUNKS, load, use);

#pragma unroll
    for (int tile = 0; tile < 2; ++tile)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int r = row + 16 * tile + 8 * half;
            if (r >= batch) continue;
            float gates[4][2], cell[2], h[2];
            const float old[2] = {before[tile][half].x, before[tile][half].y};
#pragma unroll
            for (int e = 0; e < 2; ++e) {
#pragma unroll
                for (int gate = 0; gate < 4; ++gate) {
                    const float z = sums[tile][gate][2 * half + e];
                    gates[gate][e] = gate == 2 ? squash(z) : sigmoid(z);
                }
                cell[e] = gates[0][e] * gates[2][e] + gates[1][e] * old[e];
                h[e] = gates[3][e] * squash(cell[e]);
            }
            const u64 at = ((u64)r * tokens + token) * WIDTH + unit;
            pair(layer.cells + at) = make_float2(cell[0], cell[1]);
            store2(layer.out_half + at, h[0], h[1]);
#if PRECISION == BF16
            pair(layer.out + at) = make_float2(h[0], h[1]);
#endif
            if (layer.gates) {
                const u64 gate_at = ((u64)r * tokens + token) * 4 * WIDTH + unit;
#pragma unroll
                for (int gate = 0; gate < 4; ++gate)
                    pair(layer.gates + gate_at + gate * WIDTH) = make_float2(gates[gate][0], gates[gate][1]);
                if (token + 1 < tokens) store2(layer.previous + at + WIDTH, h[0], h[1]);
            }
        }
}

// Backward: dh = dgates of the next token · w_hh + dgates of the layer above · its w_ih, both from the launch before;
// then through the cells to the dgates of this token. A warp owns 32 prompts and all units, for every fourth step of the
// inner dimension, which comes in chunks of 256 bytes; the four sums are added in order.
#define SHARES 4
#define DEEP_CHUNK (16 * PER_16_BYTES)
#define DEEP_CHUNKS ((4 * WIDTH + DEEP_CHUNK - 1) / DEEP_CHUNK)
#define DEEP_STRIDE (DEEP_CHUNK + 8)
#define DEEP_PIECE (ROWS * DEEP_STRIDE + DEEP_CHUNK * STRIDE_ACROSS)
#define BACKWARD_THREADS (WARP * SHARES * ROWS / 32)
#define SUM_STRIDE (UNITS + 8)
// Threads that share a unit, and prompts of each.
#define UNIT_THREADS (BACKWARD_THREADS / UNITS)
#define EACH (ROWS / UNIT_THREADS)

extern "C" __global__ void __launch_bounds__(BACKWARD_THREADS, 1)
    lstm_backward(const Layer* layers, const half_t* dout, int count, int first_layer, int diagonal, int batch,
                  int tokens) {
    await_previous();
    extern __shared__ uint4 shared[];
    half_t* pieces = reinterpret_cast<half_t*>(shared);
    const Place place = place_of(first_layer, batch);
    const Layer layer = layers[place.layer];
    const int token = diagonal - place.layer;
    const bool top = place.layer == count - 1, last = token == tokens - 1;
    const Layer above = layers[top ? place.layer : place.layer + 1];

    // What the cells need, asked for before the product.
    const int unit = place.unit + threadIdx.x % UNITS, row = place.row + threadIdx.x / UNITS;
    float gates[EACH][4], cell[EACH], before[EACH], dcell[EACH], dh[EACH];
#pragma unroll
    for (int e = 0; e < EACH; ++e) {
        const int r = row + e * UNIT_THREADS;
        const bool inside = r < batch;
        const u64 at = ((u64)r * tokens + token) * WIDTH + unit;
        const u64 gate_at = ((u64)r * tokens + token) * 4 * WIDTH + unit;
#pragma unroll
        for (int gate = 0; gate < 4; ++gate) gates[e][gate] = inside ? layer.gates[gate_at + gate * WIDTH] : 0.0f;
        cell[e] = inside ? layer.cells[at] : 0.0f;
        before[e] = inside && token > 0 ? layer.cells[at - WIDTH] : 0.0f;
        dcell[e] = inside && !last ? layer.dcell[(u64)r * WIDTH + unit] : 0.0f;
        dh[e] = inside && top ? to_float(dout[at]) : 0.0f;
    }

    const int warp = threadIdx.x / WARP, share = warp % SHARES, row_in_block = warp / SHARES * 32;
    Sums<UNITS / 8> sums;
#pragma unroll
    for (int tile = 0; tile < 2; ++tile)
#pragma unroll
        for (int j = 0; j < UNITS / 8; ++j)
            sums[tile][j][0] = sums[tile][j][1] = sums[tile][j][2] = sums[tile][j][3] = 0;
    const u64 first = ((u64)place.row * tokens + token) * 4 * WIDTH;
    const int from_next = last ? 0 : DEEP_CHUNKS, from_above = top ? 0 : DEEP_CHUNKS;
    const auto load = [&](int i) {
        half_t* to = pieces + i % STAGES * DEEP_PIECE;
        const bool recurrent = i < from_next;
        const int k = (recurrent ? i : i - from_next) * DEEP_CHUNK;
        const half_t* d = recurrent ? layer.dgates + first + 4 * WIDTH : above.dgates + first;
        const half_t* w = (recurrent ? layer.w_hh : above.w_ih) + (u64)k * WIDTH + place.unit;
        const auto row_of_d = [=](int r) { return (u64)r * tokens * 4 * WIDTH; };
        const auto row_of_w = [=](int r) { return (u64)r * WIDTH; };
        stage<ROWS, DEEP_CHUNK, DEEP_STRIDE, BACKWARD_THREADS>(to, d + k, row_of_d, batch - place.row, 4 * WIDTH - k);
        to += ROWS * DEEP_STRIDE;
        stage<DEEP_CHUNK, UNITS, STRIDE_ACROSS, BACKWARD_THREADS>(to, w, row_of_w, 4 * WIDTH - k, UNITS);
    };
    const auto use = [&](int i) {
        const half_t* d = pieces + i % STAGES * DEEP_PIECE + row_in_block * DEEP_STRIDE;
        const half_t* w = pieces + i % STAGES * DEEP_PIECE + ROWS * DEEP_STRIDE;
        add_piece<UNITS / 8>(sums, [=](Sums<UNITS / 8>& into) {
#pragma unroll
            for (int step = 0; step < DEEP_CHUNK / DEPTH / SHARES; ++step) {
                const int depth = (SHARES * step + share) * DEPTH;
                const Left low = left(d + depth, DEEP_STRIDE), high = left(d + 16 * DEEP_STRIDE + depth, DEEP_STRIDE);
#pragma unroll
                for (int j = 0; j < UNITS / 8; ++j) {
                    const Right b = right(w + depth * STRIDE_ACROSS + 8 * j, STRIDE_ACROSS);
                    multiply(into[0][j], low, b);
                    multiply(into[1][j], high, b);
                }
            }
        });
    };
    pipelined(from_next + from_above, load, use);

    // The shares meet in shared memory.
    float* shares = reinterpret_cast<float*>(shared);
    float* gate_sums = shares + SHARES * ROWS * SUM_STRIDE;
    const int lane = threadIdx.x % WARP, g = lane / 4, c = lane % 4;
    __syncthreads();
#pragma unroll
    for (int tile = 0; tile < 2; ++tile)
#pragma unroll
        for (int j = 0; j < UNITS / 8; ++j) {
            float* to = shares + (share * ROWS + row_in_block + 16 * tile + g) * SUM_STRIDE + 8 * j + 2 * c;
            pair(to) = make_float2(sums[tile][j][0], sums[tile][j][1]);
            pair(to + 8 * SUM_STRIDE) = make_float2(sums[tile][j][2], sums[tile][j][3]);
        }
    __syncthreads();

    float dbias[4] = {0, 0, 0, 0};
#pragma unroll
    for (int e = 0; e < EACH; ++e) {
        const int r = row + e * UNIT_THREADS;
        if (r >= batch) continue;
        const float* share_sums = shares + (r - place.row) * SUM_STRIDE + threadIdx.x % UNITS;
        float d = dh[e];
#pragma unroll
        for (int s = 0; s < SHARES; ++s) d += share_sums[s * ROWS * SUM_STRIDE];
        const float i = gates[e][0], f = gates[e][1], candidate = gates[e][2], o = gates[e][3];
        const float squashed = squash(cell[e]);
        const float dc = dcell[e] + d * o * (1.0f - squashed * squashed);
        const float dgates[4] = {dc * candidate * i * (1.0f - i), dc * before[e] * f * (1.0f - f),
                                 dc * i * (1.0f - candidate * candidate), d * squashed * o * (1.0f - o)};
        layer.dcell[(u64)r * WIDTH + unit] = dc * f;
#pragma unroll
        for (int gate = 0; gate < 4; ++gate) {
            layer.dgates[((u64)r * tokens + token) * 4 * WIDTH + gate * WIDTH + unit] = to_half(dgates[gate]);
            dbias[gate] += dgates[gate];
        }
    }
#pragma unroll
    for (int gate = 0; gate < 4; ++gate)
        gate_sums[(threadIdx.x / UNITS * 4 + gate) * UNITS + threadIdx.x % UNITS] = dbias[gate];
    __syncthreads();
    if (threadIdx.x < 4 * UNITS) {
        float sum = 0;
#pragma unroll
        for (int other = 0; other < UNIT_THREADS; ++other) sum += gate_sums[other * 4 * UNITS + threadIdx.x];
        const int column = threadIdx.x / UNITS * WIDTH + place.unit + threadIdx.x % UNITS;
        layer.dbias[((u64)token * place.groups + place.group) * 4 * WIDTH + column] = sum;
    }
}

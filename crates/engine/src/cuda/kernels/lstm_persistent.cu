// LSTM, all tokens of all layers in one launch, forward and backward; follows lstm_common.cuh and progress.cuh. Needs bf16 and UNITS = 32.
//
// A block keeps the weights of its units in shared memory, and their cells in registers, while it walks through the tokens. What it
// needs of others it waits for: h of the token before comes from all slices of its own layer, x from those of the layer below. So all
// blocks must be resident at once, which a cooperative launch promises.

// Values between rows of weights and of x in shared memory, such that fragments meet different banks.
#define FULL_STRIDE (WIDTH + 8)
#define SLICES (WIDTH / UNITS)

// How many tokens the slices of a layer have finished for a tile of prompts, all added up. A slice needs its layer's last token, so that
// none is more than one ahead of another: SLICES · n are reached when all of them have finished n.
__device__ __forceinline__ u32* counter_of(u32* progress, int layer, const CtaTile& cta) {
    return progress + layer * cta.prompt_tiles + cta.prompt_tile;
}

// The last block to end sets the counters back for the next launch; `progress` has one more of them, of blocks.
__device__ __forceinline__ void end(u32* progress, int counters) {
    if (threadIdx.x != 0) return;
    u32 before;
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], %2;" : "=r"(before) : "l"(progress + counters), "r"(1) : "memory");
    if (before + 1 == gridDim.x)
        for (int i = 0; i <= counters; ++i) progress[i] = 0;
}

template <int IN_FLIGHT>
__device__ __forceinline__ void cp_async_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(IN_FLIGHT) : "memory");
}

// Calls compute(i) for every chunk of a row when it has arrived for all threads.
template <int I, class Compute>
__device__ __forceinline__ void as_chunks_arrive(Compute compute) {
    if constexpr (I < CHUNKS) {
        cp_async_wait<CHUNKS - 1 - I>();
        __syncthreads();
        compute(I);
        as_chunks_arrive<I + 1>(compute);
    }
}

extern "C" __global__ void __launch_bounds__(FORWARD_THREADS, 1)
    lstm_forward_persistent(const Layer* layers, u32* progress, int count, int batch, int tokens) {
    extern __shared__ uint4 shared[];
    storage_t* weights = reinterpret_cast<storage_t*>(shared); // w_ih and w_hh, [4 · UNITS, WIDTH] each
    storage_t* below = weights + 2 * 4 * UNITS * FULL_STRIDE;  // x of a token, [ROWS, WIDTH]
    storage_t* own = below + ROWS * FULL_STRIDE;               // h of the token before, likewise
    const CtaTile cta = cta_tile(0, batch);
    const Layer layer = layers[cta.layer];
    u32* const finished = counter_of(progress, cta.layer, cta);
    const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, g = lane / 4, c = lane % 4;
    const int unit_in_block = warp % (UNITS / 8) * 8, row_in_block = warp / (UNITS / 8) * 32;
    const int unit = cta.unit + unit_in_block + 2 * c, row = cta.row + row_in_block + g;

    for (int recurrent = 0; recurrent < 2; ++recurrent) {
        const storage_t* w = (recurrent ? layer.w_hh : layer.w_ih) + cta.unit * WIDTH;
        const auto row_of_w = [=](int r) { return (u64)(r / UNITS * WIDTH + r % UNITS) * WIDTH; };
        storage_t* to = weights + recurrent * 4 * UNITS * FULL_STRIDE;
        stage_rows<4 * UNITS, WIDTH, FULL_STRIDE, FORWARD_THREADS>(to, w, row_of_w, 4 * UNITS, WIDTH);
    }
    cp_async_commit(); // waited for with the first x
    const auto load = [&](storage_t* to, const storage_t* from) {
        const auto row_of_x = [=](int r) { return (u64)r * tokens * WIDTH; };
#pragma unroll
        for (int i = 0; i < CHUNKS; ++i) {
            stage_rows<ROWS, CHUNK, FULL_STRIDE, FORWARD_THREADS>(to + i * CHUNK, from + i * CHUNK, row_of_x, batch - cta.row, CHUNK);
            cp_async_commit();
        }
    };
    const u64 first = (u64)cta.row * tokens * WIDTH;
    const auto load_below = [&](int token) {
        if (cta.layer > 0) wait_until(counter_of(progress, cta.layer - 1, cta), SLICES * (token + 1));
        load(below, layer.x + first + (u64)token * WIDTH);
    };
    load_below(0);
    float2 cells[2][2] = {}; // of rows 16 tile + 8 half + g
    for (int token = 0; token < tokens; ++token) {
        Accumulators<4> sums;
        begin_with_biases(sums, layer, unit);
        const auto add = [&](const storage_t* x, int recurrent) {
            const storage_t* w = weights + (recurrent * 4 * UNITS + unit_in_block) * FULL_STRIDE;
            as_chunks_arrive<0>([&](int i) {
                add_to_gates<CHUNK>(sums, x + row_in_block * FULL_STRIDE + i * CHUNK, w + i * CHUNK, FULL_STRIDE);
            });
        };
        add(below, 0);
        if (token > 0) {
            wait_until(finished, SLICES * token);
            load(own, layer.out_storage + first + (u64)(token - 1) * WIDTH);
            add(own, 1);
        }
        update_cells(layer, sums, cells, row, unit, token, batch, tokens);
        advance(finished);
        if (token + 1 < tokens) load_below(token + 1);
    }
    end(progress, count * cta.prompt_tiles);
}

// Backward, a warp has a quarter of K to itself, and what it reads of dgates nobody else in its block does: it copies that, and waits
// for it, alone. Weights are transposed, [UNITS, 4 · WIDTH], for the sake of their banks.
#define K_SLICE (4 * WIDTH / SPLIT_K)
#define WARP_CHUNK 32
#define WARP_STRIDE (WARP_CHUNK + 8)
#define WARP_STAGES 4
#define TRANSPOSED_STRIDE (4 * WIDTH + 8)

// to[u, k] = from[k · WIDTH + u]
__device__ __forceinline__ void stage_transposed(storage_t* to, const storage_t* from) {
    constexpr int VECTORS = UNITS / VEC;
    for (int i = threadIdx.x; i < 4 * WIDTH * VECTORS; i += BACKWARD_THREADS) {
        // Neighbouring threads have neighbouring k: their values go to different banks.
        const int k = i % (4 * WIDTH), u = VEC * (i / (4 * WIDTH));
        const uint4 raw = *reinterpret_cast<const uint4*>(from + (u64)k * WIDTH + u);
        const u32 pairs[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
        for (int j = 0; j < VEC; ++j) to[(u + j) * TRANSPOSED_STRIDE + k].bits = (u16)(pairs[j / 2] >> 16 * (j % 2));
    }
}

extern "C" __global__ void __launch_bounds__(BACKWARD_THREADS, 1)
    lstm_backward_persistent(const Layer* layers, const storage_t* dout, u32* progress, int count, int batch, int tokens) {
    extern __shared__ uint4 shared[];
    storage_t* recurrent = reinterpret_cast<storage_t*>(shared);   // w_hh
    storage_t* upward = recurrent + UNITS * TRANSPOSED_STRIDE;     // w_ih of the layer above
    storage_t* stages = upward + UNITS * TRANSPOSED_STRIDE;        // of each warp, [WARP_STAGES, 32, WARP_CHUNK]
    float* slices = reinterpret_cast<float*>(stages);              // in their place, when they have been read
    const CtaTile cta = cta_tile(0, batch);
    const Layer layer = layers[cta.layer];
    const bool top = cta.layer == count - 1;
    const Layer above = layers[top ? cta.layer : cta.layer + 1];
    u32* const finished = counter_of(progress, cta.layer, cta);
    const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    const int k_slice = warp % SPLIT_K, row_in_block = warp / SPLIT_K * 32;
    const int unit = cta.unit + threadIdx.x % UNITS, row = cta.row + threadIdx.x / UNITS;
    storage_t* const own_stages = stages + warp * WARP_STAGES * 32 * WARP_STRIDE;

    stage_transposed(recurrent, layer.w_hh + cta.unit);
    if (!top) stage_transposed(upward, above.w_ih + cta.unit);
    __syncthreads();

    Accumulators<UNITS / 8> sums;
    // sums += d · w over this warp's slice of K, for the token from which `d` begins.
    const auto add = [&](const storage_t* d, const storage_t* w) {
        const storage_t* from = d + (u64)(cta.row + row_in_block) * tokens * 4 * WIDTH + k_slice * K_SLICE;
        const auto row_of_d = [=](int r) { return (u64)r * tokens * 4 * WIDTH; };
        const auto load = [&](int i) {
#pragma unroll
            for (int v = lane; v < 32 * WARP_CHUNK / VEC; v += WARP) {
                const int r = v / (WARP_CHUNK / VEC), k = VEC * (v % (WARP_CHUNK / VEC));
                const bool inside = cta.row + row_in_block + r < batch;
                storage_t* to = own_stages + (i % WARP_STAGES * 32 + r) * WARP_STRIDE + k;
                cp_async_16(to, inside ? from + row_of_d(r) + i * WARP_CHUNK + k : d, inside);
            }
        };
#pragma unroll
        for (int i = 0; i < WARP_STAGES - 1; ++i) {
            if (i < K_SLICE / WARP_CHUNK) load(i);
            cp_async_commit();
        }
#pragma unroll
        for (int i = 0; i < K_SLICE / WARP_CHUNK; ++i) {
            cp_async_wait<WARP_STAGES - 2>();
            __syncwarp(); // all lanes' copies have arrived, and all have read the stage that is overwritten now
            if (i + WARP_STAGES - 1 < K_SLICE / WARP_CHUNK) load(i + WARP_STAGES - 1);
            cp_async_commit();
            const storage_t* x = own_stages + i % WARP_STAGES * 32 * WARP_STRIDE;
#pragma unroll
            for (int k0 = 0; k0 < WARP_CHUNK; k0 += MMA_K) {
                const FragmentA low = load_a(x + k0, WARP_STRIDE), high = load_a(x + 16 * WARP_STRIDE + k0, WARP_STRIDE);
#pragma unroll
                for (int j = 0; j < UNITS / 8; j += 2) {
                    FragmentB b[2];
                    load_b_nk_x2(b, w + 8 * j * TRANSPOSED_STRIDE + k_slice * K_SLICE + i * WARP_CHUNK + k0, TRANSPOSED_STRIDE);
#pragma unroll
                    for (int n = 0; n < 2; ++n) {
                        mma(sums[0][j + n], low, b[n]);
                        mma(sums[1][j + n], high, b[n]);
                    }
                }
            }
        }
        __syncwarp(); // before the first stage is overwritten
    };
    float dcell[PROMPTS_PER_THREAD] = {}, dbias[4] = {0, 0, 0, 0};
    for (int token = tokens - 1; token >= 0; --token) {
        Cells cells;
        load_cells(cells, layer, top ? dout : 0, row, unit, token, batch, tokens);
        clear(sums);
        if (!top) {
            wait_until(counter_of(progress, cta.layer + 1, cta), SLICES * (tokens - token));
            add(above.dgates + (u64)token * 4 * WIDTH, upward);
        }
        if (token < tokens - 1) {
            wait_until(finished, SLICES * (tokens - 1 - token));
            add(layer.dgates + (u64)(token + 1) * 4 * WIDTH, recurrent);
        }
        __syncthreads(); // everyone is done with the stages
        store_slice(slices, sums, k_slice, row_in_block);
        __syncthreads();
        differentiate_cells(layer, cells, slices, dcell, dbias, cta.row, row, unit, token, batch, tokens);
        advance(finished);
    }
    // Everyone has read the slices.
    reduce_biases(slices, dbias, layer.dbias + (u64)cta.prompt_tile * 4 * WIDTH, cta.unit);
    end(progress, count * cta.prompt_tiles);
}

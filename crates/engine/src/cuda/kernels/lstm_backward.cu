// LSTM, backward: the gradients of the gates of one diagonal; follows lstm_common.cuh.

// dh = dgates of the next token · w_hh + dgates of the layer above · its w_ih, both from the launch before;
// then through the cells to the dgates of this token. A warp owns 32 prompts and all units, for every fourth step of K,
// which comes in chunks of 256 bytes (split-K within the block); the four sums are added in order.
#define BACKWARD_CHUNK (16 * VEC)
#define BACKWARD_CHUNKS ((4 * WIDTH + BACKWARD_CHUNK - 1) / BACKWARD_CHUNK)
#define BACKWARD_STRIDE (BACKWARD_CHUNK + 8)
#define BACKWARD_STAGE_SIZE (ROWS * BACKWARD_STRIDE + BACKWARD_CHUNK * STRIDE_KN)

extern "C" __global__ void __launch_bounds__(BACKWARD_THREADS, 1)
    lstm_backward(const Layer* layers, const storage_t* dout, int count, int first_layer, int diagonal, int batch,
                  int tokens) {
    pdl_launch_next();
    extern __shared__ uint4 shared[];
    storage_t* stages = reinterpret_cast<storage_t*>(shared);
    const CtaTile cta = cta_tile(first_layer, batch);
    const Layer layer = layers[cta.layer];
    const int token = diagonal - cta.layer;
    const bool top = cta.layer == count - 1, last = token == tokens - 1;
    const Layer above = layers[top ? cta.layer : cta.layer + 1];

    // What the cells need, loaded while the matmul's first operands arrive.
    const int unit = cta.unit + threadIdx.x % UNITS, row = cta.row + threadIdx.x / UNITS;
    Cells cells;
    float dcell[PROMPTS_PER_THREAD];
    const auto load = [&]() {
        load_cells(cells, layer, top ? dout : 0, row, unit, token, batch, tokens);
#pragma unroll
        for (int e = 0; e < PROMPTS_PER_THREAD; ++e) {
            const int r = row + e * UNIT_THREADS;
            dcell[e] = r < batch && !last ? layer.dcell[(u64)r * WIDTH + unit] : 0.0f;
        }
    };

    const int warp = threadIdx.x / WARP, k_slice = warp % SPLIT_K, row_in_block = warp / SPLIT_K * 32;
    Accumulators<UNITS / 8> sums;
    clear(sums);
    const u64 first = ((u64)cta.row * tokens + token) * 4 * WIDTH;
    const int from_next = last ? 0 : BACKWARD_CHUNKS, from_above = top ? 0 : BACKWARD_CHUNKS;
    const auto load_x = [&](int i) {
        const bool recurrent = i < from_next;
        const int k = (recurrent ? i : i - from_next) * BACKWARD_CHUNK;
        const storage_t* d = recurrent ? layer.dgates + first + 4 * WIDTH : above.dgates + first;
        const auto row_of_d = [=](int r) { return (u64)r * tokens * 4 * WIDTH; };
        storage_t* to = stages + i % STAGES * BACKWARD_STAGE_SIZE;
        stage_rows<ROWS, BACKWARD_CHUNK, BACKWARD_STRIDE, BACKWARD_THREADS>(to, d + k, row_of_d, batch - cta.row, 4 * WIDTH - k);
    };
    const auto load_w = [&](int i) {
        const bool recurrent = i < from_next;
        const int k = (recurrent ? i : i - from_next) * BACKWARD_CHUNK;
        const storage_t* w = (recurrent ? layer.w_hh : above.w_ih) + (u64)k * WIDTH + cta.unit;
        const auto row_of_w = [=](int r) { return (u64)r * WIDTH; };
        storage_t* to = stages + i % STAGES * BACKWARD_STAGE_SIZE + ROWS * BACKWARD_STRIDE;
        stage_rows<BACKWARD_CHUNK, UNITS, STRIDE_KN, BACKWARD_THREADS>(to, w, row_of_w, 4 * WIDTH - k, UNITS);
    };
    const auto compute = [&](int i) {
        const storage_t* d = stages + i % STAGES * BACKWARD_STAGE_SIZE + row_in_block * BACKWARD_STRIDE;
        const storage_t* w = stages + i % STAGES * BACKWARD_STAGE_SIZE + ROWS * BACKWARD_STRIDE;
        accumulate<UNITS / 8>(sums, [=](Accumulators<UNITS / 8>& into) {
#pragma unroll
            for (int step = 0; step < BACKWARD_CHUNK / MMA_K / SPLIT_K; ++step) {
                const int k0 = (SPLIT_K * step + k_slice) * MMA_K;
                const FragmentA low = load_a(d + k0, BACKWARD_STRIDE), high = load_a(d + 16 * BACKWARD_STRIDE + k0, BACKWARD_STRIDE);
#pragma unroll
                for (int j = 0; j < UNITS / 8; ++j) {
                    const FragmentB b = load_b_kn(w + k0 * STRIDE_KN + 8 * j, STRIDE_KN);
                    mma(into[0][j], low, b);
                    mma(into[1][j], high, b);
                }
            }
        });
    };
    pipelined(from_next + from_above, load_w, load_x, load, compute);

    float* slices = reinterpret_cast<float*>(shared);
    __syncthreads();
    store_slice(slices, sums, k_slice, row_in_block);
    __syncthreads();
    float dbias[4] = {0, 0, 0, 0};
    differentiate_cells(layer, cells, slices, dcell, dbias, cta.row, row, unit, token, batch, tokens);
#pragma unroll
    for (int e = 0; e < PROMPTS_PER_THREAD; ++e) {
        const int r = row + e * UNIT_THREADS;
        if (r < batch) layer.dcell[(u64)r * WIDTH + unit] = dcell[e];
    }
    float* of_block = layer.dbias + ((u64)token * cta.prompt_tiles + cta.prompt_tile) * 4 * WIDTH;
    reduce_biases(slices + SPLIT_K * ROWS * SUM_STRIDE, dbias, of_block, cta.unit);
}

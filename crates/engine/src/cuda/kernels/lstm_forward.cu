// LSTM, forward: the gates, cells and outputs of one diagonal; follows lstm_common.cuh.

// gates = x · w_ihᵀ + h · w_hhᵀ + biases. A warp owns 32 prompts and 8 units with all their gates, so that a
// lane ends up with whatever its cells need. K comes in chunks of 128 bytes.
#define CHUNK (8 * VEC)
#define CHUNKS ((WIDTH + CHUNK - 1) / CHUNK)
#define STRIDE (CHUNK + 8)
#define STAGE_SIZE ((ROWS + 4 * UNITS) * STRIDE)
#define FORWARD_THREADS (WARP * UNITS / 8 * ROWS / 32)

extern "C" __global__ void __launch_bounds__(FORWARD_THREADS, 1)
    lstm_forward(const Layer* layers, int first_layer, int diagonal, int batch, int tokens) {
    pdl_launch_next();
    extern __shared__ uint4 shared[];
    storage_t* stages = reinterpret_cast<storage_t*>(shared);
    const CtaTile cta = cta_tile(first_layer, batch);
    const Layer layer = layers[cta.layer];
    const int token = diagonal - cta.layer;
    const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, g = lane / 4, c = lane % 4;
    const int unit_in_block = warp % (UNITS / 8) * 8, row_in_block = warp / (UNITS / 8) * 32;
    const int unit = cta.unit + unit_in_block + 2 * c, row = cta.row + row_in_block + g;

    Accumulators<4> sums;
    begin_with_biases(sums, layer, unit);
    const u64 first = ((u64)cta.row * tokens + token) * WIDTH;
    const auto load_x = [&](int i) {
        const bool recurrent = i >= CHUNKS;
        const int k = (recurrent ? i - CHUNKS : i) * CHUNK;
        const storage_t* x = recurrent ? layer.out_storage + first - WIDTH : layer.x + first;
        const auto row_of_x = [=](int r) { return (u64)r * tokens * WIDTH; };
        storage_t* to = stages + i % STAGES * STAGE_SIZE;
        stage_rows<ROWS, CHUNK, STRIDE, FORWARD_THREADS>(to, x + k, row_of_x, batch - cta.row, WIDTH - k);
    };
    const auto load_w = [&](int i) {
        const bool recurrent = i >= CHUNKS;
        const int k = (recurrent ? i - CHUNKS : i) * CHUNK;
        const storage_t* w = (recurrent ? layer.w_hh : layer.w_ih) + cta.unit * WIDTH;
        const auto row_of_w = [=](int r) { return (u64)(r / UNITS * WIDTH + r % UNITS) * WIDTH; };
        storage_t* to = stages + i % STAGES * STAGE_SIZE + ROWS * STRIDE;
        stage_rows<4 * UNITS, CHUNK, STRIDE, FORWARD_THREADS>(to, w + k, row_of_w, 4 * UNITS, WIDTH - k);
    };
    float2 before[2][2]; // of rows 16 tile + 8 half + g
    const auto load_before = [&]() {
#pragma unroll
        for (int tile = 0; tile < 2; ++tile)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int r = row + 16 * tile + 8 * half;
                before[tile][half] = token > 0 && r < batch
                                         ? float2_at((const float*)layer.cells + ((u64)r * tokens + token - 1) * WIDTH + unit)
                                         : make_float2(0, 0);
            }
    };
    const auto compute = [&](int i) {
        const storage_t* x = stages + i % STAGES * STAGE_SIZE + row_in_block * STRIDE;
        const storage_t* w = stages + i % STAGES * STAGE_SIZE + (ROWS + unit_in_block) * STRIDE;
        add_to_gates<CHUNK>(sums, x, w, STRIDE);
    };
    pipelined(token > 0 ? 2 * CHUNKS : CHUNKS, load_w, load_x, load_before, compute);
    update_cells(layer, sums, before, row, unit, token, batch, tokens);
}

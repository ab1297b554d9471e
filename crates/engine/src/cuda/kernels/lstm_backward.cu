// LSTM, backward: the gradients of the gates of one diagonal; follows lstm_common.cuh.

// dh = dgates of the next token · w_hh + dgates of the layer above · its w_ih, both from the launch before;
// then through the cells to the dgates of this token. A warp owns 32 prompts and all units, for every fourth step of K,
// which comes in chunks of 256 bytes (split-K within the block); the four sums are added in order.
#define SPLIT_K 4
#define BACKWARD_CHUNK (16 * VEC)
#define BACKWARD_CHUNKS ((4 * WIDTH + BACKWARD_CHUNK - 1) / BACKWARD_CHUNK)
#define BACKWARD_STRIDE (BACKWARD_CHUNK + 8)
#define BACKWARD_STAGE_SIZE (ROWS * BACKWARD_STRIDE + BACKWARD_CHUNK * STRIDE_KN)
#define BACKWARD_THREADS (WARP * SPLIT_K * ROWS / 32)
#define SUM_STRIDE (UNITS + 8)
// Threads that k_slice a unit, and prompts of each.
#define UNIT_THREADS (BACKWARD_THREADS / UNITS)
#define PROMPTS_PER_THREAD (ROWS / UNIT_THREADS)

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
    float gates[PROMPTS_PER_THREAD][4], cell[PROMPTS_PER_THREAD], before[PROMPTS_PER_THREAD], dcell[PROMPTS_PER_THREAD], dh[PROMPTS_PER_THREAD];
    const auto load_cells = [&]() {
#pragma unroll
        for (int e = 0; e < PROMPTS_PER_THREAD; ++e) {
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
    };

    const int warp = threadIdx.x / WARP, k_slice = warp % SPLIT_K, row_in_block = warp / SPLIT_K * 32;
    Accumulators<UNITS / 8> sums;
#pragma unroll
    for (int tile = 0; tile < 2; ++tile)
#pragma unroll
        for (int j = 0; j < UNITS / 8; ++j)
            sums[tile][j][0] = sums[tile][j][1] = sums[tile][j][2] = sums[tile][j][3] = 0;
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
    pipelined(from_next + from_above, load_w, load_x, load_cells, compute);

    // The slices of K meet in shared memory.
    float* slices = reinterpret_cast<float*>(shared);
    float* gate_sums = slices + SPLIT_K * ROWS * SUM_STRIDE;
    const int lane = threadIdx.x % WARP, g = lane / 4, c = lane % 4;
    __syncthreads();
#pragma unroll
    for (int tile = 0; tile < 2; ++tile)
#pragma unroll
        for (int j = 0; j < UNITS / 8; ++j) {
            float* to = slices + (k_slice * ROWS + row_in_block + 16 * tile + g) * SUM_STRIDE + 8 * j + 2 * c;
            float2_at(to) = make_float2(sums[tile][j][0], sums[tile][j][1]);
            float2_at(to + 8 * SUM_STRIDE) = make_float2(sums[tile][j][2], sums[tile][j][3]);
        }
    __syncthreads();

    float dbias[4] = {0, 0, 0, 0};
#pragma unroll
    for (int e = 0; e < PROMPTS_PER_THREAD; ++e) {
        const int r = row + e * UNIT_THREADS;
        if (r >= batch) continue;
        const float* slice_sums = slices + (r - cta.row) * SUM_STRIDE + threadIdx.x % UNITS;
        float d = dh[e];
#pragma unroll
        for (int s = 0; s < SPLIT_K; ++s) d += slice_sums[s * ROWS * SUM_STRIDE];
        const float i = gates[e][0], f = gates[e][1], candidate = gates[e][2], o = gates[e][3];
        const float tanh_cell = tanh_gate(cell[e]);
        const float dc = dcell[e] + d * o * (1.0f - tanh_cell * tanh_cell);
        const float dgates[4] = {dc * candidate * i * (1.0f - i), dc * before[e] * f * (1.0f - f),
                                 dc * i * (1.0f - candidate * candidate), d * tanh_cell * o * (1.0f - o)};
        layer.dcell[(u64)r * WIDTH + unit] = dc * f;
#pragma unroll
        for (int gate = 0; gate < 4; ++gate) {
            layer.dgates[((u64)r * tokens + token) * 4 * WIDTH + gate * WIDTH + unit] = to_storage(dgates[gate]);
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
        const int column = threadIdx.x / UNITS * WIDTH + cta.unit + threadIdx.x % UNITS;
        layer.dbias[((u64)token * cta.prompt_tiles + cta.prompt_tile) * 4 * WIDTH + column] = sum;
    }
}

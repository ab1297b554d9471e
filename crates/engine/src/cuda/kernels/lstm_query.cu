// One LSTM step of single query tokens from the state after a shared prefix; follows gates.cuh.
//
// Defined by the program: WIDTH.

// h[b] = the prefix's output [batch, tokens, WIDTH] at its last token, zeros before the first; a block per prompt.
extern "C" __global__ void lstm_prefix(storage_t* h, const float* prefix, const int* prefix_tokens, int tokens) {
    pdl_wait();
    const int seen = *prefix_tokens, prompt = blockIdx.x;
    for (int unit = threadIdx.x; unit < WIDTH; unit += blockDim.x)
        h[(u64)prompt * WIDTH + unit] =
            to_storage(seen > 0 ? prefix[((u64)prompt * tokens + seen - 1) * WIDTH + unit] : 0.0f);
}

// out and its copy in the storage type [batch, queries, WIDTH] from gates x·w_ihᵀ [batch, queries, 4, WIDTH], what the prefix adds to
// them, h·w_hhᵀ [batch, 4, WIDTH], and the prefix's cells [batch, tokens, WIDTH]; a block per query.
extern "C" __global__ void lstm_query(float* out, storage_t* out_storage, const float* gates, const float* prefix_gates,
                                      const float* b_ih, const float* b_hh, const float* cells, const int* prefix_tokens,
                                      int queries, int tokens) {
    pdl_wait();
    const int seen = *prefix_tokens, prompt = blockIdx.x / queries;
    const float* own = gates + (u64)blockIdx.x * 4 * WIDTH;
    const float* before = prefix_gates + (u64)prompt * 4 * WIDTH;
    for (int unit = threadIdx.x; unit < WIDTH; unit += blockDim.x) {
        float gate[4];
#pragma unroll
        for (int g = 0; g < 4; ++g) {
            const int at = g * WIDTH + unit;
            const float z = own[at] + before[at] + b_ih[at] + b_hh[at];
            gate[g] = g == 2 ? tanh_gate(z) : sigmoid(z);
        }
        const float old = seen > 0 ? cells[((u64)prompt * tokens + seen - 1) * WIDTH + unit] : 0.0f;
        const float h = gate[3] * tanh_gate(gate[0] * gate[2] + gate[1] * old);
        const u64 at = (u64)blockIdx.x * WIDTH + unit;
        out_storage[at] = to_storage(h);
#if PRECISION == BF16
        out[at] = h;
#endif
    }
}

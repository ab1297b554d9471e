// Read-outs of hidden states, in double precision; follows layer_norm.cu.

__device__ __forceinline__ double warp_sum(double x) {
#pragma unroll
    for (int offset = WARP / 2; offset > 0; offset /= 2) x += __shfl_xor_sync(FULL_MASK, x, offset);
    return x;
}

// Calls each(e, x[e]) for the values of a row that a lane owns.
template <class Each>
__device__ __forceinline__ void for_values(const float* row, Each each) {
    FOR_VECTORS(g, at) {
        const float4 v = load4(row + at);
        each(at, v.x), each(at + 1, v.y), each(at + 2, v.z), each(at + 3, v.w);
    }
}

// out[b, p] = Σ_e affine[e] x[b, p·stride, e] + affine[WIDTH]; of (x − mean) / std where normalised. A warp per value.
extern "C" __global__ void __launch_bounds__(WARPS* WARP)
    read_states(double* out, const float* x, const double* affine, int count, int points, int tokens, int stride,
                int normalised) {
    pdl_wait();
    const int place = blockIdx.x * WARPS + threadIdx.x / WARP;
    if (place >= count) return;
    const float* row = x + ((u64)(place / points) * tokens + (u64)(place % points) * stride) * WIDTH;
    double sum = 0;
    if (!normalised) {
        for_values(row, [&](int e, float v) { sum += affine[e] * v; });
        sum = warp_sum(sum);
    } else {
        double mean = 0, squares = 0;
        for_values(row, [&](int, float v) { mean += v; });
        mean = warp_sum(mean) / WIDTH;
        for_values(row, [&](int e, float v) {
            const double apart = v - mean;
            squares += apart * apart;
            sum += affine[e] * apart;
        });
        sum = warp_sum(sum) / sqrt(warp_sum(squares) / WIDTH + (double)1e-5f);
    }
    if (threadIdx.x % WARP == 0) out[place] = sum + affine[WIDTH];
}

// The last stage of split reductions: adds up the partials that other kernels leave.

// out[i] = Σ_partial from[partial · stride + i] for i < count.
struct Reduction {
    float* out;
    const float* from;
    int partials, stride, count, first_block;
};

// All reductions of a step in one launch: blocks of 32 columns each, found through `first_block`.
extern "C" __global__ void __launch_bounds__(8 * WARP) reduce_partials(const Reduction* reductions, int count) {
    pdl_wait();
    __shared__ float warp_sums[8][WARP];
    // The table is in order: this block's reduction is the last that begins at this block or before it.
    int begun = 0;
    for (int i = 0; i < count; i += 8 * WARP) {
        const int other = i + threadIdx.x;
        begun += __syncthreads_count(other < count && reductions[other].first_block <= (int)blockIdx.x);
    }
    const Reduction s = reductions[begun - 1];
    const int column = ((int)blockIdx.x - s.first_block) * WARP + threadIdx.x % WARP, warp = threadIdx.x / WARP;
    float sum = 0;
    if (column < s.count) {
#pragma unroll 8
        for (int partial = warp; partial < s.partials; partial += 8) sum += s.from[(u64)partial * s.stride + column];
    }
    warp_sums[warp][threadIdx.x % WARP] = sum;
    __syncthreads();
    if (warp == 0 && column < s.count) {
#pragma unroll
        for (int other = 1; other < 8; ++other) sum += warp_sums[other][threadIdx.x];
        s.out[column] = sum;
    }
}

// The read-out of predictions, and the loss with its gradients; follows layer_norm.cu.

// predictions[b, p] = Σ_e x[b, p·stride, e] w[e] + bias; a warp per prediction
extern "C" __global__ void __launch_bounds__(WARPS* WARP)
    read_out(float* predictions, const storage_t* x, const float* w, const float* bias, int count, int points, int tokens,
             int stride) {
    pdl_wait();
    const int place = blockIdx.x * WARPS + threadIdx.x / WARP;
    if (place >= count) return;
    const int b = place / points, p = place % points;
    const storage_t* row = x + ((u64)b * tokens + (u64)p * stride) * WIDTH;
    float sum = 0;
    FOR_VECTORS(g, at) {
        const float4 v = load4(row + at), u = load4(w + at);
        sum += (v.x * u.x + v.y * u.y) + (v.z * u.z + v.w * u.w);
    }
    sum = warp_sum(sum);
    if (threadIdx.x % WARP == 0) predictions[place] = sum + bias[0];
}

// The loss (mean over count of (prediction − target)²) and its gradients: dx at the x tokens, 0 at the others, and
// partials[block, WIDTH + 2] = Σ dp·x, Σ dp, Σ error² / count over the block's predictions.
extern "C" __global__ void __launch_bounds__(WARPS* WARP)
    loss_backward(storage_t* dx, float* partials, const float* predictions, const float* targets, const storage_t* x,
                  const float* w, int count, int points, int tokens, int per_block) {
    pdl_wait();
    __shared__ float sums[WARPS][VECTORS * 4 * WARP + 4];
    const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    const int first = blockIdx.x * per_block, end = min(count, first + per_block);
    float4 dw[VECTORS];
    float db = 0, loss = 0;
#pragma unroll
    for (int g = 0; g < VECTORS; ++g) dw[g] = make_float4(0, 0, 0, 0);
    for (int place = first + warp; place < end; place += WARPS) {
        const int b = place / points, p = place % points;
        const float error = predictions[place] - targets[place];
        const float d = 2.0f * error / count;
        loss += error * error / count;
        db += d;
        const u64 row = ((u64)b * tokens + 2 * (u64)p) * WIDTH;
        FOR_VECTORS(g, at) {
            const float4 v = load4(x + row + at), u = load4(w + at);
            add_to(dw[g], make_float4(d * v.x, d * v.y, d * v.z, d * v.w));
            store4(dx + row + at, make_float4(d * u.x, d * u.y, d * u.z, d * u.w));
            if (2 * p + 1 < tokens) store4(dx + row + WIDTH + at, make_float4(0, 0, 0, 0));
        }
    }
    FOR_VECTORS(g, at) store4(&sums[warp][at], dw[g]);
    if (lane == 0) {
        sums[warp][VECTORS * 4 * WARP] = db;
        sums[warp][VECTORS * 4 * WARP + 1] = loss;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < WIDTH + 2; i += blockDim.x) {
        const int from = i < WIDTH ? i : VECTORS * 4 * WARP + (i - WIDTH);
        float sum = 0;
#pragma unroll
        for (int other = 0; other < WARPS; ++other) sum += sums[other][from];
        partials[(u64)blockIdx.x * (WIDTH + 2) + i] = sum;
    }
}

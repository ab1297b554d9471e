// Blocks of a cooperative launch that wait for each other: a counter in global memory tells how far some of them have come.

// A fault somewhere else must not hang the device for ever.
#define MOST_POLLS (1u << 25)

// For the thread alone that calls it.
__device__ __forceinline__ void poll_until(const u32* counter, u32 reached) {
    u32 now = 0;
    for (u32 polls = 0; now < reached; ++polls) {
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(counter) : "memory");
        if (polls == MOST_POLLS) __trap();
    }
}

__device__ __forceinline__ void release(u32* counter) {
    asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(counter), "r"(1) : "memory");
}

__device__ __forceinline__ void wait_until(const u32* counter, u32 reached) {
    if (threadIdx.x == 0) poll_until(counter, reached);
    __syncthreads();
}

// What the block has written is there for whoever sees the counter.
__device__ __forceinline__ void advance(u32* counter) {
    __syncthreads();
    if (threadIdx.x == 0) release(counter);
}

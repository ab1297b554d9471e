// What every kernel shares: the storage type, vector loads, warp sums, programmatic dependent launch.
//
// No header is included: NVRTC comes without any on many machines. The program defines PRECISION as 0 (float32),
// 1 (TF32) or 2 (bf16) before this text. `storage_t` is how activations and their gradients are stored: bf16, or float
// otherwise. The residual stream, statistics and all gradients of parameters are float always.

typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define FLOAT32 0
#define TF32 1
#define BF16 2

#define WARP 32
#define FULL_MASK 0xffffffffu

#if PRECISION == BF16
struct storage_t {
    u16 bits;
};
__device__ __forceinline__ float to_float(storage_t x) { return __uint_as_float((u32)x.bits << 16); }
__device__ __forceinline__ storage_t to_storage(float x) {
    storage_t h;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h.bits) : "f"(x));
    return h;
}
// Two values in one register, the first in the low half.
__device__ __forceinline__ u32 pack2(float low, float high) {
    u32 both;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}
__device__ __forceinline__ float4 load4(const storage_t* p) {
    const uint2 raw = *reinterpret_cast<const uint2*>(p);
    return make_float4(__uint_as_float(raw.x << 16), __uint_as_float(raw.x & 0xffff0000u),
                       __uint_as_float(raw.y << 16), __uint_as_float(raw.y & 0xffff0000u));
}
__device__ __forceinline__ void store4(storage_t* p, float4 v) {
    *reinterpret_cast<uint2*>(p) = make_uint2(pack2(v.x, v.y), pack2(v.z, v.w));
}
__device__ __forceinline__ void store2(storage_t* p, float x, float y) { *reinterpret_cast<u32*>(p) = pack2(x, y); }
#else
typedef float storage_t;
__device__ __forceinline__ float to_storage(float x) { return x; }
__device__ __forceinline__ void store2(float* p, float x, float y) { *reinterpret_cast<float2*>(p) = make_float2(x, y); }
#endif

__device__ __forceinline__ float to_float(float x) { return x; }
__device__ __forceinline__ float4 load4(const float* p) { return *reinterpret_cast<const float4*>(p); }
__device__ __forceinline__ void store4(float* p, float4 v) { *reinterpret_cast<float4*>(p) = v; }

__device__ __forceinline__ float warp_sum(float x) {
#pragma unroll
    for (int offset = WARP / 2; offset > 0; offset /= 2) x += __shfl_xor_sync(FULL_MASK, x, offset);
    return x;
}

// Programmatic dependent launch: lets the next kernel of the stream launch.
__device__ __forceinline__ void pdl_launch_next() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// The same, then waits until all kernels before this one have finished and flushed. What other kernels of a step write must not be
// touched before.
__device__ __forceinline__ void pdl_wait() {
    pdl_launch_next();
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Starts to copy 16 bytes to shared memory, or zeros where there is nothing to copy.
__device__ __forceinline__ void cp_async_16(storage_t* to, const storage_t* from, bool inside) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"((u32)__cvta_generic_to_shared(to)), "l"(from),
                 "r"(inside ? 16 : 0)
                 : "memory");
}

// A vector of 16 bytes of activations.
#define VEC (16 / (int)sizeof(storage_t))
struct Vec {
    float x[VEC];
};

__device__ __forceinline__ Vec load_vec(const storage_t* p) {
    Vec out;
#if PRECISION == BF16
    const uint4 raw = *reinterpret_cast<const uint4*>(p);
    const u32 words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        out.x[2 * i] = __uint_as_float(words[i] << 16);
        out.x[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000u);
    }
#else
    const float4 v = load4(p);
    out.x[0] = v.x, out.x[1] = v.y, out.x[2] = v.z, out.x[3] = v.w;
#endif
    return out;
}

__device__ __forceinline__ void store_vec(storage_t* p, const Vec& v) {
#if PRECISION == BF16
    *reinterpret_cast<uint4*>(p) =
        make_uint4(pack2(v.x[0], v.x[1]), pack2(v.x[2], v.x[3]), pack2(v.x[4], v.x[5]), pack2(v.x[6], v.x[7]));
#else
    store4(p, make_float4(v.x[0], v.x[1], v.x[2], v.x[3]));
#endif
}

// Small matrix products on the tensor cores: out[16, 8] += a[16, DEPTH] · b[DEPTH, 8], one warp each.
//
// bf16 takes 16 values deep at a time, TF32 8. float32 is three TF32 products of high and low parts, which is as
// exact as float32 sums in another order. In TF32 and float32 the depth is walked in the order 0, 2, 4, 6, 1, 3, 5, 7, on
// both sides alike: then a result's registers are the next product's left-hand side as they are.
//
// Lane l holds, with g = l / 4 and c = l % 4, of a result: (g, 2c), (g, 2c+1), (g+8, 2c), (g+8, 2c+1).

#if PRECISION == BF16
#define DEPTH 16
struct Left {
    u32 x[4];
};
struct Right {
    u32 x[2];
};

__device__ __forceinline__ void multiply(float (&sum)[4], const Left& a, const Right& b) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a.x[0]), "r"(a.x[1]), "r"(a.x[2]), "r"(a.x[3]), "r"(b.x[0]), "r"(b.x[1]));
}

__device__ __forceinline__ u32 pair_at(const half_t* p) { return *reinterpret_cast<const u32*>(p); }

#if STAGED
__device__ __forceinline__ u32 shared_address(const half_t* p) { return (u32)__cvta_generic_to_shared(p); }
#endif

// a[m, k] = p[m · stride + k]
__device__ __forceinline__ Left left(const half_t* p, int stride) {
    const int lane = threadIdx.x % WARP;
#if STAGED
    Left a;
    const u32 address = shared_address(p + (lane % 16) * stride + lane / 16 * 8);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(a.x[0]), "=r"(a.x[1]), "=r"(a.x[2]), "=r"(a.x[3])
                 : "r"(address)
                 : "memory");
    return a;
#else
    const half_t *low = p + lane / 4 * stride + 2 * (lane % 4), *high = low + 8 * stride;
    return Left{{pair_at(low), pair_at(high), pair_at(low + 8), pair_at(high + 8)}};
#endif
}

// b[k, n] = p[n · stride + k]
__device__ __forceinline__ Right right_of_rows(const half_t* p, int stride) {
    const int lane = threadIdx.x % WARP;
#if STAGED
    Right b;
    const u32 address = shared_address(p + (lane % 8) * stride + lane / 8 % 2 * 8);
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
                 : "=r"(b.x[0]), "=r"(b.x[1])
                 : "r"(address)
                 : "memory");
    return b;
#else
    const half_t* row = p + lane / 4 * stride + 2 * (lane % 4);
    return Right{{pair_at(row), pair_at(row + 8)}};
#endif
}

// b[k, n] = p[k · stride + n]
__device__ __forceinline__ Right right(const half_t* p, int stride) {
    const int lane = threadIdx.x % WARP;
#if STAGED
    Right b;
    const u32 address = shared_address(p + (lane % 16) * stride);
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
                 : "=r"(b.x[0]), "=r"(b.x[1])
                 : "r"(address)
                 : "memory");
    return b;
#else
    const half_t* column = p + 2 * (lane % 4) * stride + lane / 4;
    const u32 low = column[0].bits | (u32)column[stride].bits << 16;
    const u32 high = column[8 * stride].bits | (u32)column[9 * stride].bits << 16;
    return Right{{low, high}};
#endif
}

// Two neighbouring right-hand sides at once. b[n][k, i] = p[(8 n + i) · stride + k]
__device__ __forceinline__ void rights_of_rows(Right (&b)[2], const half_t* p, int stride) {
#if STAGED
    const int lane = threadIdx.x % WARP;
    const u32 address = shared_address(p + (lane % 8 + lane / 16 * 8) * stride + lane / 8 % 2 * 8);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(b[0].x[0]), "=r"(b[0].x[1]), "=r"(b[1].x[0]), "=r"(b[1].x[1])
                 : "r"(address)
                 : "memory");
#else
    b[0] = right_of_rows(p, stride);
    b[1] = right_of_rows(p + 8 * stride, stride);
#endif
}

// b[n][k, i] = p[k · stride + 8 n + i]; beyond the last column, the second is whatever lies there.
__device__ __forceinline__ void rights(Right (&b)[2], const half_t* p, int stride) {
#if STAGED
    const int lane = threadIdx.x % WARP;
    const u32 address = shared_address(p + (lane % 16) * stride + lane / 16 * 8);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(b[0].x[0]), "=r"(b[0].x[1]), "=r"(b[1].x[0]), "=r"(b[1].x[1])
                 : "r"(address)
                 : "memory");
#else
    b[0] = right(p, stride);
    b[1] = right(p + 8, stride);
#endif
}

// A product with it adds up the rows of the other side.
__device__ __forceinline__ Left ones() { return Left{{0x3f803f80u, 0x3f803f80u, 0x3f803f80u, 0x3f803f80u}}; }

// The left-hand side whose columns are two neighbouring results.
__device__ __forceinline__ Left left_of(const float (*results)[4]) {
    return Left{{pack2(results[0][0], results[0][1]), pack2(results[0][2], results[0][3]),
                 pack2(results[1][0], results[1][1]), pack2(results[1][2], results[1][3])}};
}

#else
#define DEPTH 8

__device__ __forceinline__ u32 to_tf32(float x) {
    u32 bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
    return bits;
}

__device__ __forceinline__ void multiply_tf32(float (&sum)[4], const u32* a, const u32* b) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

#if PRECISION == FLOAT32
#define PARTS 2
#else
#define PARTS 1
#endif

struct Left {
    u32 x[PARTS][4];
};
struct Right {
    u32 x[PARTS][2];
};

template <class Side, int N>
__device__ __forceinline__ Side split(const float (&values)[N]) {
    Side side;
#pragma unroll
    for (int i = 0; i < N; ++i) {
        side.x[0][i] = to_tf32(values[i]);
#if PARTS == 2
        side.x[1][i] = to_tf32(values[i] - __uint_as_float(side.x[0][i]));
#endif
    }
    return side;
}

__device__ __forceinline__ void multiply(float (&sum)[4], const Left& a, const Right& b) {
#if PARTS == 2
    multiply_tf32(sum, a.x[1], b.x[0]);
    multiply_tf32(sum, a.x[0], b.x[1]);
#endif
    multiply_tf32(sum, a.x[0], b.x[0]);
}

__device__ __forceinline__ Left left(const float* p, int stride) {
    const int g = (threadIdx.x % WARP) / 4, c = threadIdx.x % 4;
    const float2 low = *reinterpret_cast<const float2*>(p + g * stride + 2 * c);
    const float2 high = *reinterpret_cast<const float2*>(p + (g + 8) * stride + 2 * c);
    const float values[4] = {low.x, high.x, low.y, high.y};
    return split<Left>(values);
}

__device__ __forceinline__ Right right_of_rows(const float* p, int stride) {
    const int g = (threadIdx.x % WARP) / 4, c = threadIdx.x % 4;
    const float2 row = *reinterpret_cast<const float2*>(p + g * stride + 2 * c);
    const float values[2] = {row.x, row.y};
    return split<Right>(values);
}

__device__ __forceinline__ Right right(const float* p, int stride) {
    const int g = (threadIdx.x % WARP) / 4, c = threadIdx.x % 4;
    const float values[2] = {p[2 * c * stride + g], p[(2 * c + 1) * stride + g]};
    return split<Right>(values);
}

__device__ __forceinline__ void rights_of_rows(Right (&b)[2], const float* p, int stride) {
    b[0] = right_of_rows(p, stride);
    b[1] = right_of_rows(p + 8 * stride, stride);
}

__device__ __forceinline__ void rights(Right (&b)[2], const float* p, int stride) {
    b[0] = right(p, stride);
    b[1] = right(p + 8, stride);
}

__device__ __forceinline__ Left ones() {
    const float values[4] = {1, 1, 1, 1};
    return split<Left>(values);
}

// The left-hand side whose columns are a result.
__device__ __forceinline__ Left left_of(const float (*results)[4]) {
    const float values[4] = {results[0][0], results[0][2], results[0][1], results[0][3]};
    return split<Left>(values);
}
#endif

// Results that make up one left-hand side.
#define RESULTS_DEEP (DEPTH / 8)

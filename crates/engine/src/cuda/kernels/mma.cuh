// Tensor-core fragments of mma.sync: accumulator[16, 8] += a[16, MMA_K] · b[MMA_K, 8], one warp each.
//
// MMA_K is 16 in bf16 and 8 in TF32. float32 is 3xTF32: three TF32 products of the high and low terms of both operands, as
// exact as float32 sums in another order. In TF32 and float32, k runs in the order 0, 2, 4, 6, 1, 3, 5, 7 in A and B alike:
// then the registers of an accumulator are the A fragment of the next product as they are.
//
// Lane l holds, with g = l / 4 and c = l % 4, of an accumulator: (g, 2c), (g, 2c+1), (g+8, 2c), (g+8, 2c+1).
//
// Where operands are not STAGED in shared memory, fragments are loaded from global memory: `rows` and `columns` then say how many
// there are from `p` on. Nothing beyond them is read; zeros stand there. Columns are a multiple of 8.
#define INSIDE(condition) (STAGED || (condition))

#if PRECISION == BF16
#define MMA_K 16
struct FragmentA {
    u32 x[4];
};
struct FragmentB {
    u32 x[2];
};

__device__ __forceinline__ void mma(float (&accumulator)[4], const FragmentA& a, const FragmentB& b) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(accumulator[0]), "+f"(accumulator[1]), "+f"(accumulator[2]), "+f"(accumulator[3])
        : "r"(a.x[0]), "r"(a.x[1]), "r"(a.x[2]), "r"(a.x[3]), "r"(b.x[0]), "r"(b.x[1]));
}

__device__ __forceinline__ u32 load_pair(const storage_t* p, bool inside) {
    return inside ? *reinterpret_cast<const u32*>(p) : 0u;
}

#if STAGED
__device__ __forceinline__ u32 shared_address(const storage_t* p) { return (u32)__cvta_generic_to_shared(p); }
#endif

// a[m, k] = p[m · stride + k]
__device__ __forceinline__ FragmentA load_a(const storage_t* p, int stride, int rows = 16, int columns = 16) {
    const int lane = threadIdx.x % WARP;
#if STAGED
    FragmentA a;
    const u32 address = shared_address(p + (lane % 16) * stride + lane / 16 * 8);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(a.x[0]), "=r"(a.x[1]), "=r"(a.x[2]), "=r"(a.x[3])
                 : "r"(address)
                 : "memory");
    return a;
#else
    const int row = lane / 4;
    const storage_t *low = p + row * stride + 2 * (lane % 4), *high = low + 8 * stride;
    const bool low_inside = row < rows, high_inside = row + 8 < rows, both_halves = columns > 8;
    return FragmentA{{load_pair(low, low_inside), load_pair(high, high_inside), load_pair(low + 8, low_inside && both_halves),
                      load_pair(high + 8, high_inside && both_halves)}};
#endif
}

// b[k, n] = p[n · stride + k]
__device__ __forceinline__ FragmentB load_b_nk(const storage_t* p, int stride, int rows = 8, int columns = 16) {
    const int lane = threadIdx.x % WARP;
#if STAGED
    FragmentB b;
    const u32 address = shared_address(p + (lane % 8) * stride + lane / 8 % 2 * 8);
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
                 : "=r"(b.x[0]), "=r"(b.x[1])
                 : "r"(address)
                 : "memory");
    return b;
#else
    const storage_t* row = p + lane / 4 * stride + 2 * (lane % 4);
    const bool inside = lane / 4 < rows;
    return FragmentB{{load_pair(row, inside), load_pair(row + 8, inside && columns > 8)}};
#endif
}

// b[k, n] = p[k · stride + n]
__device__ __forceinline__ FragmentB load_b_kn(const storage_t* p, int stride, int rows = 16, int columns = 8) {
    const int lane = threadIdx.x % WARP;
#if STAGED
    FragmentB b;
    const u32 address = shared_address(p + (lane % 16) * stride);
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
                 : "=r"(b.x[0]), "=r"(b.x[1])
                 : "r"(address)
                 : "memory");
    return b;
#else
    const int first = 2 * (lane % 4);
    const auto bits = [=](int row) -> u32 {
        return row < rows && lane / 4 < columns ? p[row * stride + lane / 4].bits : 0u;
    };
    return FragmentB{{bits(first) | bits(first + 1) << 16, bits(first + 8) | bits(first + 9) << 16}};
#endif
}

// Two neighbouring B fragments at once. b[n][k, i] = p[(8 n + i) · stride + k]
__device__ __forceinline__ void load_b_nk_x2(FragmentB (&b)[2], const storage_t* p, int stride, int rows = 16,
                                             int columns = 16) {
#if STAGED
    const int lane = threadIdx.x % WARP;
    const u32 address = shared_address(p + (lane % 8 + lane / 16 * 8) * stride + lane / 8 % 2 * 8);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(b[0].x[0]), "=r"(b[0].x[1]), "=r"(b[1].x[0]), "=r"(b[1].x[1])
                 : "r"(address)
                 : "memory");
#else
    b[0] = load_b_nk(p, stride, rows, columns);
    b[1] = load_b_nk(p + 8 * stride, stride, rows - 8, columns);
#endif
}

// b[n][k, i] = p[k · stride + 8 n + i]; staged, the second is whatever lies beyond the last column.
__device__ __forceinline__ void load_b_kn_x2(FragmentB (&b)[2], const storage_t* p, int stride, int rows = 16,
                                             int columns = 16) {
#if STAGED
    const int lane = threadIdx.x % WARP;
    const u32 address = shared_address(p + (lane % 16) * stride + lane / 16 * 8);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(b[0].x[0]), "=r"(b[0].x[1]), "=r"(b[1].x[0]), "=r"(b[1].x[1])
                 : "r"(address)
                 : "memory");
#else
    b[0] = load_b_kn(p, stride, rows, columns);
    b[1] = load_b_kn(p + 8, stride, rows, columns - 8);
#endif
}

// a · b with it adds up the rows of b.
__device__ __forceinline__ FragmentA a_of_ones() { return FragmentA{{0x3f803f80u, 0x3f803f80u, 0x3f803f80u, 0x3f803f80u}}; }

// The A fragment whose columns are two neighbouring accumulators.
__device__ __forceinline__ FragmentA a_from_accumulators(const float (*accumulators)[4]) {
    return FragmentA{{pack2(accumulators[0][0], accumulators[0][1]), pack2(accumulators[0][2], accumulators[0][3]),
                 pack2(accumulators[1][0], accumulators[1][1]), pack2(accumulators[1][2], accumulators[1][3])}};
}

#else
#define MMA_K 8

__device__ __forceinline__ u32 to_tf32(float x) {
    u32 bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
    return bits;
}

__device__ __forceinline__ void mma_tf32(float (&accumulator)[4], const u32* a, const u32* b) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(accumulator[0]), "+f"(accumulator[1]), "+f"(accumulator[2]), "+f"(accumulator[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

#if PRECISION == FLOAT32
#define TF32_TERMS 2
#else
#define TF32_TERMS 1
#endif

struct FragmentA {
    u32 x[TF32_TERMS][4];
};
struct FragmentB {
    u32 x[TF32_TERMS][2];
};

template <class Fragment, int N>
__device__ __forceinline__ Fragment split_tf32(const float (&values)[N]) {
    Fragment fragment;
#pragma unroll
    for (int i = 0; i < N; ++i) {
        fragment.x[0][i] = to_tf32(values[i]);
#if TF32_TERMS == 2
        fragment.x[1][i] = to_tf32(values[i] - __uint_as_float(fragment.x[0][i]));
#endif
    }
    return fragment;
}

__device__ __forceinline__ void mma(float (&accumulator)[4], const FragmentA& a, const FragmentB& b) {
#if TF32_TERMS == 2
    mma_tf32(accumulator, a.x[1], b.x[0]);
    mma_tf32(accumulator, a.x[0], b.x[1]);
#endif
    mma_tf32(accumulator, a.x[0], b.x[0]);
}

__device__ __forceinline__ float2 load_pair(const float* p, bool inside) {
    return inside ? *reinterpret_cast<const float2*>(p) : make_float2(0, 0);
}

// MMA_K columns are never more than there are.
__device__ __forceinline__ FragmentA load_a(const float* p, int stride, int rows = 16, int = 8) {
    const int g = (threadIdx.x % WARP) / 4, c = threadIdx.x % 4;
    const float2 low = load_pair(p + g * stride + 2 * c, INSIDE(g < rows));
    const float2 high = load_pair(p + (g + 8) * stride + 2 * c, INSIDE(g + 8 < rows));
    const float values[4] = {low.x, high.x, low.y, high.y};
    return split_tf32<FragmentA>(values);
}

__device__ __forceinline__ FragmentB load_b_nk(const float* p, int stride, int rows = 8, int = 8) {
    const int g = (threadIdx.x % WARP) / 4, c = threadIdx.x % 4;
    const float2 row = load_pair(p + g * stride + 2 * c, INSIDE(g < rows));
    const float values[2] = {row.x, row.y};
    return split_tf32<FragmentB>(values);
}

__device__ __forceinline__ FragmentB load_b_kn(const float* p, int stride, int rows = 8, int columns = 8) {
    const int g = (threadIdx.x % WARP) / 4, c = threadIdx.x % 4;
    const auto value = [=](int row) -> float {
        return INSIDE(row < rows && g < columns) ? p[row * stride + g] : 0.0f;
    };
    const float values[2] = {value(2 * c), value(2 * c + 1)};
    return split_tf32<FragmentB>(values);
}

__device__ __forceinline__ void load_b_nk_x2(FragmentB (&b)[2], const float* p, int stride, int rows = 16, int columns = 8) {
    b[0] = load_b_nk(p, stride, rows, columns);
    b[1] = load_b_nk(p + 8 * stride, stride, rows - 8, columns);
}

__device__ __forceinline__ void load_b_kn_x2(FragmentB (&b)[2], const float* p, int stride, int rows = 8, int columns = 16) {
    b[0] = load_b_kn(p, stride, rows, columns);
    b[1] = load_b_kn(p + 8, stride, rows, columns - 8);
}

__device__ __forceinline__ FragmentA a_of_ones() {
    const float values[4] = {1, 1, 1, 1};
    return split_tf32<FragmentA>(values);
}

// The A fragment whose columns are an accumulator.
__device__ __forceinline__ FragmentA a_from_accumulators(const float (*accumulators)[4]) {
    const float values[4] = {accumulators[0][0], accumulators[0][2], accumulators[0][1], accumulators[0][3]};
    return split_tf32<FragmentA>(values);
}
#endif

// Accumulators that make up one A fragment.
#define ACCUMULATORS_PER_A (MMA_K / 8)

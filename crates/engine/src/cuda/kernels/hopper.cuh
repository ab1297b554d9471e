// What matmuls on Hopper's wgmma (sm_90a) share. A warpgroup multiplies 64 rows of A with 128 columns of B, and its epilogue works
// on the results in registers.
//
// Operands lie in shared memory under the 128-byte swizzle that wgmma expects: rows of 128 bytes, vector v (16 bytes) of row r
// at v ^ r % 8.

#define WARPGROUP_N 128  // columns of a warpgroup
#define SWIZZLE_VALUES 64  // values of a row of 128 bytes

__device__ __forceinline__ u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }

// Makes writes to shared memory visible to wgmma, after a barrier.
__device__ __forceinline__ void fence_async_proxy() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// A wgmma matrix descriptor: the start, and the bytes between swizzle atoms along N (`n_stride`) where the operand is not
// K-major; eight rows are 1024 bytes.
__device__ __forceinline__ u64 smem_descriptor(u32 start, u32 n_stride) {
    return (u64)(start >> 4) | (u64)(n_stride >> 4) << 16 | (u64)(1024 >> 4) << 32 | 1ull << 62;
}

// d[64, 128] = a[64, 16] · b[16, 128], added to d if `accumulate`. B_IS_KN: 0 if b is K-major in shared memory, 1 if N-major.
template <int B_IS_KN>
__device__ __forceinline__ void wgmma_m64n128k16(float (&d)[64], u64 a, u64 b, int accumulate) {
    asm volatile(
        "{.reg .pred accumulate; setp.ne.b32 accumulate, %66, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
        "%64, %65, accumulate, 1, 1, 0, %67;}\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
          "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
          "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
          "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
          "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]),
          "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
          "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
          "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
        : "l"(a), "l"(b), "r"(accumulate), "n"(B_IS_KN));
}

__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Waits until at most N of this warpgroup's committed groups are in flight.
template <int N>
__device__ __forceinline__ void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}

// Keeps the compiler from moving uses of the results before the wait.
__device__ __forceinline__ void results_are_there(float (&d)[64]) {
#pragma unroll
    for (int i = 0; i < 64; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

// A description of a matrix in global memory for the bulk tensor copy engine (`cuTensorMapEncodeTiled` of the driver).
struct __align__(64) TensorMap {
    u64 opaque[16];

    __device__ __forceinline__ void prefetch() const { asm volatile("prefetch.tensormap [%0];" ::"l"(this) : "memory"); }
};

// A barrier in shared memory that counts arrivals and bytes of copies.
struct Barrier {
    u64 state;

    __device__ __forceinline__ void init(int arrivals) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(this)), "r"(arrivals) : "memory");
    }

    // Arrives, and has the phase wait for so many bytes.
    __device__ __forceinline__ void expect(int bytes) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(this)), "r"(bytes) : "memory");
    }

    __device__ __forceinline__ void arrive() {
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(this)) : "memory");
    }

    // Waits until the phase of this parity is over.
    __device__ __forceinline__ void wait(int parity) {
        u32 over;
        do {
            asm volatile("{.reg .pred over; mbarrier.try_wait.parity.shared::cta.b64 over, [%1], %2;\n"
                         "selp.u32 %0, 1, 0, over;}" : "=r"(over) : "r"(shared_address(this)), "r"(parity) : "memory");
        } while (!over);
    }
};

// Starts to copy a box of the matrix, from value `column` of row `row` on, swizzled, zeros beyond the matrix. By one thread.
__device__ __forceinline__ void copy_box(unsigned char* to, const TensorMap& map, int column, int row, Barrier& done) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(
                     shared_address(to)),
                 "l"(&map), "r"(shared_address(&done)), "r"(column), "r"(row)
                 : "memory");
}

// Where vector `vector` (8 values) of row `row` lies in an operand of `rows` rows.
__device__ __forceinline__ unsigned char* swizzled(unsigned char* start, int rows, int row, int vector) {
    return start + vector / 8 * rows * 128 + row * 128 + ((vector % 8 ^ row % 8) << 4);
}

// The order of the columns of B. A lane's accumulators are pairs of neighbouring columns, 8 apart; in the order
// used here, four such pairs are eight neighbouring columns of the matrix: 16 bytes that are read and written at once.
// Of every 32 columns, product column 8 j + 2 c + i is column 8 c + 2 j + i of the matrix.
__device__ __forceinline__ int permuted_column(int n) { return n / 32 * 32 + n / 2 % 4 * 8 + n / 8 % 4 * 2 + n % 2; }

// Eight neighbouring values, as loaded and stored at once.
__device__ __forceinline__ uint4 pack8(const float (&v)[8]) {
    return make_uint4(pack2(v[0], v[1]), pack2(v[2], v[3]), pack2(v[4], v[5]), pack2(v[6], v[7]));
}

__device__ __forceinline__ void unpack8(float (&v)[8], uint4 packed) {
    const u32 pairs[4] = {packed.x, packed.y, packed.z, packed.w};
#pragma unroll
    for (int j = 0; j < 4; ++j) {
        v[2 * j] = __uint_as_float(pairs[j] << 16);
        v[2 * j + 1] = __uint_as_float(pairs[j] & 0xffff0000u);
    }
}

// The index in d of value e of the eight neighbours in group s of a half.
#define ACCUMULATOR(s, half, e) (16 * (s) + 4 * ((e) / 2) + 2 * (half) + (e) % 2)
#define FOR_S _Pragma("unroll") for (int s = 0; s < WARPGROUP_N / 32; ++s)
#define FOR_HALVES _Pragma("unroll") for (int half = 0; half < 2; ++half)
#define FOR_EIGHT _Pragma("unroll") for (int e = 0; e < 8; ++e)

// Adds up v[0 … 7] over the eight lanes whose numbers differ in bits 2, 3 and 4; the lane with bits e there returns the sum of
// v[e].
__device__ __forceinline__ float transpose_sum(float (&v)[8]) {
    const int e = threadIdx.x / 4 % 8;
#pragma unroll
    for (int n = 4; n > 0; n /= 2)
#pragma unroll
        for (int i = 0; i < n; ++i) {
            const float other = __shfl_xor_sync(FULL_MASK, e & n ? v[i] : v[i + n], 4 * n);
            v[i] = (e & n ? v[i + n] : v[i]) + other;
        }
    return v[0];
}

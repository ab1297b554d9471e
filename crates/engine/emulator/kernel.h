// What CUDA C++ finds here in place of CUDA; goes before every source that is compiled. The translator (compiler.cpp) has turned
// inline PTX into calls of ptx_…, named by the instruction, with outputs before inputs.

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <utility>

#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(n) alignas(n)
#define __noinline__ __attribute__((noinline))
#define __restrict__

struct alignas(8) int2 { int x, y; };
struct alignas(8) uint2 { unsigned x, y; };
struct alignas(16) int4 { int x, y, z, w; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
struct alignas(16) double2 { double x, y; };
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline double2 make_double2(double x, double y) { return {x, y}; }

struct Dim3 { unsigned x, y, z; };

// ---- block.cpp

extern "C" {
Dim3 emulated_thread_index() __attribute__((const));
Dim3 emulated_block_index() __attribute__((const));
Dim3 emulated_block_size() __attribute__((const));
Dim3 emulated_grid_size() __attribute__((const));
void emulated_barrier(int number, int threads, int waits);
int emulated_barrier_count(int predicate);
void emulated_sync_warp();
uint32_t emulated_shuffle(uint32_t value, int from_lane);
uint32_t emulated_reduce_or(uint32_t value);
void* emulated_static_shared(const void* tag, size_t size, size_t alignment);
void* emulated_dynamic_shared() __attribute__((const));
uint32_t emulated_shared_address(const void* p);
void emulated_mma(float** accumulator, const uint32_t* a, const uint32_t* b, int tf32);
void emulated_ldmatrix(uint32_t** out, int matrices, int transposed, uint32_t address);
void emulated_copy_async(uint32_t to, const void* from, int bytes);
void emulated_copy_commit();
void emulated_copy_wait(int groups_in_flight);
void emulated_pdl_wait();
uint32_t emulated_load_acquire(const uint32_t* from);
uint32_t emulated_add_release(uint32_t* to, uint32_t value, int acquires);
[[noreturn]] void emulated_trap();
void emulated_proxy_fence();
void emulated_mbarrier_init(uint32_t barrier, int arrivals);
void emulated_mbarrier_arrive(uint32_t barrier, int bytes);
int emulated_mbarrier_try_wait(uint32_t barrier, int parity);
void emulated_copy_box(uint32_t to, const void* map, uint32_t barrier, int column, int row);
void emulated_wgmma(float** d, uint64_t a, uint64_t b, int accumulate, int b_is_kn);
void emulated_wgmma_fence();
void emulated_wgmma_commit();
void emulated_wgmma_wait(int groups_in_flight);
void emulated_load(const void* address, int bytes);
}

#define threadIdx (emulated_thread_index())
#define blockIdx (emulated_block_index())
#define blockDim (emulated_block_size())
#define gridDim (emulated_grid_size())

inline void __syncthreads() { emulated_barrier(0, (int)blockDim.x, 1); }
inline int __syncthreads_count(int predicate) { return emulated_barrier_count(predicate); }
inline void __syncwarp(unsigned = ~0u) { emulated_sync_warp(); }

template <class T>
inline T emulated_shuffled(T value, int from_lane) {
    uint32_t words[(sizeof(T) + 3) / 4];
    memcpy(words, &value, sizeof value);
    for (uint32_t& word : words) word = emulated_shuffle(word, from_lane);
    memcpy(&value, words, sizeof value);
    return value;
}
template <class T>
inline T __shfl_sync(unsigned, T value, int lane) { return emulated_shuffled(value, lane % 32); }
template <class T>
inline T __shfl_xor_sync(unsigned, T value, int mask) { return emulated_shuffled(value, (int)(threadIdx.x % 32) ^ mask); }
template <class T>
inline T __shfl_down_sync(unsigned, T value, int by) {
    const int lane = (int)(threadIdx.x % 32);
    return emulated_shuffled(value, lane + by < 32 ? lane + by : lane);
}
inline int __any_sync(unsigned, int predicate) { return emulated_reduce_or(predicate != 0) != 0; }

// A variable of shared memory, known by its number in the source.
template <class Type, int NUMBER, size_t ALIGNMENT = alignof(Type)>
inline Type& emulated_shared_variable() {
    static const char tag = 0;
    return *static_cast<Type*>(emulated_static_shared(&tag, sizeof(Type), ALIGNMENT));
}
inline size_t __cvta_generic_to_shared(const void* p) { return emulated_shared_address(p); }

// ---- arithmetic

inline float __uint_as_float(unsigned x) { float y; memcpy(&y, &x, 4); return y; }
inline float __int_as_float(int x) { float y; memcpy(&y, &x, 4); return y; }
inline unsigned __float_as_uint(float x) { unsigned y; memcpy(&y, &x, 4); return y; }
inline int __float_as_int(float x) { int y; memcpy(&y, &x, 4); return y; }
inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((uint64_t)a * b >> 32); }
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned s) {
    const uint64_t bytes = (uint64_t)y << 32 | x;
    unsigned out = 0;
    for (int i = 0; i < 4; ++i) {
        const unsigned select = s >> 4 * i & 15, byte = bytes >> 8 * (select & 7) & 255;
        out |= (select & 8 ? (byte & 128 ? 255u : 0u) : byte) << 8 * i;
    }
    return out;
}
inline float __fdividef(float x, float y) { return x / y; }
inline float __expf(float x) { return expf(x); }
inline float __log2f(float x) { return log2f(x); }
inline float __saturatef(float x) { return x > 0 ? (x < 1 ? x : 1.0f) : 0.0f; }
inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
template <class A, class B>
inline auto min(A a, B b) -> decltype(a + b) { return b < a ? b : a; }
template <class A, class B>
inline auto max(A a, B b) -> decltype(a + b) { return a < b ? b : a; }
template <class T>
inline T __ldcs(const T* p) { return *p; }
template <class T>
inline T __ldg(const T* p) { return *p; }
template <class T>
inline void __stcs(T* p, T value) { *p = value; }

// ---- PTX

inline uint16_t emulated_bf16(float x) {
    const uint32_t bits = __float_as_uint(x);
    if (x != x) return 0x7fff;
    return (uint16_t)(bits + 0x7fff + (bits >> 16 & 1) >> 16);
}
inline void ptx_cvt_rn_bf16_f32(uint16_t& to, float x) { to = emulated_bf16(x); }
inline void ptx_cvt_rn_bf16x2_f32(uint32_t& to, float high, float low) { to = (uint32_t)emulated_bf16(high) << 16 | emulated_bf16(low); }
inline void ptx_cvt_rna_tf32_f32(uint32_t& to, float x) { to = (__float_as_uint(x) + 0x1000u) & ~0x1fffu; }
inline void ptx_ex2_approx_ftz_f32(float& y, float x) { y = exp2f(x); }
inline void ptx_tanh_approx_f32(float& y, float x) { y = tanhf(x); }
template <class... Unused>
inline void ptx_nothing(Unused&&...) {}

inline void ptx_griddepcontrol_launch_dependents() {}
inline void ptx_griddepcontrol_wait() { emulated_pdl_wait(); }
inline void ptx_ld_acquire_gpu_global_u32(uint32_t& to, const uint32_t* from) { to = emulated_load_acquire(from); }
inline void ptx_red_release_gpu_global_add_u32(uint32_t* to, uint32_t value) { emulated_add_release(to, value, 0); }
inline void ptx_atom_acq_rel_gpu_global_add_u32(uint32_t& before, uint32_t* to, uint32_t value) { before = emulated_add_release(to, value, 1); }
inline void __trap() { emulated_trap(); }
inline void ptx_bar_sync(int number, int threads) { emulated_barrier(number, threads, 1); }
inline void ptx_bar_arrive(int number, int threads) { emulated_barrier(number, threads, 0); }
inline void ptx_cp_async_cg_shared_global(uint32_t to, const void* from, int bytes) { emulated_copy_async(to, from, bytes); }
inline void ptx_cp_async_commit_group() { emulated_copy_commit(); }
inline void ptx_cp_async_wait_group(int in_flight) { emulated_copy_wait(in_flight); }
inline void ptx_cp_async_wait_all() { emulated_copy_commit(); emulated_copy_wait(0); }
inline void ptx_fence_proxy_async_shared__cta() { emulated_proxy_fence(); }
inline void ptx_prefetch_tensormap(const void*) {}
inline void ptx_ld_global_v4_f32(float& a, float& b, float& c, float& d, const float* from) {
    emulated_load(from, 16);
    a = from[0], b = from[1], c = from[2], d = from[3];
}
inline void ptx_ld_global_cs_v4_f32(float& a, float& b, float& c, float& d, const float* from) { ptx_ld_global_v4_f32(a, b, c, d, from); }
inline void ptx_mbarrier_init_shared__cta_b64(uint32_t barrier, int arrivals) { emulated_mbarrier_init(barrier, arrivals); }
inline void ptx_mbarrier_arrive_expect_tx_shared__cta_b64(uint32_t barrier, int bytes) { emulated_mbarrier_arrive(barrier, bytes); }
inline void ptx_mbarrier_arrive_shared__cta_b64(uint32_t barrier) { emulated_mbarrier_arrive(barrier, 0); }
inline void ptx_mbarrier_try_wait_parity_shared__cta_b64(uint32_t& over, uint32_t barrier, int parity) {
    over = emulated_mbarrier_try_wait(barrier, parity);
}
inline void ptx_cp_async_bulk_tensor_2d_shared__cluster_global_mbarrier__complete_tx__bytes(uint32_t to, const void* map, uint32_t barrier,
                                                                                          int column, int row) {
    emulated_copy_box(to, map, barrier, column, row);
}

inline void emulated_mma_of(float& c0, float& c1, float& c2, float& c3, uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0,
                            uint32_t b1, int tf32) {
    float* c[4] = {&c0, &c1, &c2, &c3};
    const uint32_t a[4] = {a0, a1, a2, a3}, b[2] = {b0, b1};
    emulated_mma(c, a, b, tf32);
}
#define ptx_mma_sync_aligned_m16n8k16_row_col_f32_bf16_bf16_f32(...) emulated_mma_of(__VA_ARGS__, 0)
#define ptx_mma_sync_aligned_m16n8k8_row_col_f32_tf32_tf32_f32(...) emulated_mma_of(__VA_ARGS__, 1)

template <int TRANSPOSED>
inline void emulated_ldmatrix_of(uint32_t& a, uint32_t& b, uint32_t& c, uint32_t& d, uint32_t address) {
    uint32_t* out[4] = {&a, &b, &c, &d};
    emulated_ldmatrix(out, 4, TRANSPOSED, address);
}
template <int TRANSPOSED>
inline void emulated_ldmatrix_of(uint32_t& a, uint32_t& b, uint32_t address) {
    uint32_t* out[2] = {&a, &b};
    emulated_ldmatrix(out, 2, TRANSPOSED, address);
}
#define ptx_ldmatrix_sync_aligned_m8n8_x4_shared_b16 emulated_ldmatrix_of<0>
#define ptx_ldmatrix_sync_aligned_m8n8_x4_trans_shared_b16 emulated_ldmatrix_of<1>
#define ptx_ldmatrix_sync_aligned_m8n8_x2_shared_b16 emulated_ldmatrix_of<0>
#define ptx_ldmatrix_sync_aligned_m8n8_x2_trans_shared_b16 emulated_ldmatrix_of<1>

// 64 accumulators, then the descriptors of a and b, whether to add, and whether b is N-major.
struct EmulatedWgmma {
    float* d[64];
    int count = 0;
    uint64_t rest[4];
    int inputs = 0;
    void add(float& x) { d[count++] = &x; }
    template <class T>
    void input(T x) { rest[inputs++] = (uint64_t)x; }
    template <class Head, class... Tail>
    void take(Head&& head, Tail&&... tail) {
        if constexpr (sizeof...(tail) >= 4) add(head);
        else input(head);
        if constexpr (sizeof...(tail) > 0) take(tail...);
    }
};
template <class... All>
inline void ptx_wgmma_mma_async_sync_aligned_m64n128k16_f32_bf16_bf16(All&&... all) {
    static_assert(sizeof...(all) == 68, "64 accumulators and four inputs");
    EmulatedWgmma operation;
    operation.take(all...);
    emulated_wgmma(operation.d, operation.rest[0], operation.rest[1], (int)operation.rest[2], (int)operation.rest[3]);
}
inline void ptx_wgmma_fence_sync_aligned() { emulated_wgmma_fence(); }
inline void ptx_wgmma_commit_group_sync_aligned() { emulated_wgmma_commit(); }
inline void ptx_wgmma_wait_group_sync_aligned(int in_flight) { emulated_wgmma_wait(in_flight); }

// ---- launching

#define UNWATCHED __attribute__((no_sanitize("thread")))
template <class... A, size_t... I>
UNWATCHED inline void emulated_call(void (*kernel)(A...), void** arguments, std::index_sequence<I...>) {
    kernel(*static_cast<A*>(arguments[I])...);
}
template <class... A>
UNWATCHED inline void emulated_call(void (*kernel)(A...), void** arguments) {
    emulated_call(kernel, arguments, std::index_sequence_for<A...>());
}
// Bytes of each parameter, then 0.
template <class... A>
inline const size_t* emulated_sizes(void (*)(A...)) {
    static constexpr size_t sizes[] = {sizeof(A)..., 0};
    return sizes;
}

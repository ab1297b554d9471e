// Tensor cores: mma.sync and ldmatrix of a warp, wgmma of four.

#include <functional>

#include "block.h"

namespace emulator {
namespace {

float bf16_to_float(uint16_t bits) {
    const uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, 4);
    return value;
}

// What a lane brings to mma.sync: its registers of a and b, and where its accumulators are.
struct MmaOperands {
    uint32_t a[4], b[2];
    float* c[4];
};

// accumulators[16, 8] += a[16, K] · b[K, 8] for a warp, where four lanes hold a row of a, and four a column of b; a register has one
// value of K (TF32, of which the low bits are ignored) or two (bf16).
template <bool TF32>
void multiply(const Slot* slots) {
    constexpr int K = TF32 ? 8 : 16, HALVES = K / 8;
    MmaOperands lanes[WARP];
    for (int lane = 0; lane < WARP; ++lane) memcpy(&lanes[lane], slots[lane].bytes, sizeof lanes[lane]);
    const auto value = [](uint32_t word, int half) {
        if (!TF32) return bf16_to_float(uint16_t(word >> 16 * half));
        word &= ~0x1fffu;
        float value;
        memcpy(&value, &word, 4);
        return value;
    };
    // The order of K is the same on both sides, and otherwise does not matter.
    float x[16][K], y[K][8];
    for (int lane = 0; lane < WARP; ++lane)
        for (int half = 0; half < HALVES; ++half)
            for (int part = 0; part < 2; ++part) {
                const int k = (lane % 4 * 2 + part) * HALVES + half;
                x[lane / 4][k] = value(lanes[lane].a[2 * part], half);
                x[lane / 4 + 8][k] = value(lanes[lane].a[2 * part + 1], half);
                y[k][lane / 4] = value(lanes[lane].b[part], half);
            }
    for (int row = 0; row < 16; ++row) {
        double sums[8];
        const auto accumulator = [&](int column) -> float& { return *lanes[row % 8 * 4 + column / 2].c[row / 8 * 2 + column % 2]; };
        for (int column = 0; column < 8; ++column) sums[column] = accumulator(column);
        for (int k = 0; k < K; ++k)
            for (int column = 0; column < 8; ++column) sums[column] += (double)x[row][k] * y[k][column];
        for (int column = 0; column < 8; ++column) accumulator(column) = (float)sums[column];
    }
}

// The 128 threads of a warpgroup meet; the last runs `work` for all.
void gather_group(const std::function<void()>& work) {
    Warpgroup& group = groups[thread_index / 128];
    const unsigned generation = group.generation;
    ++progress;
    if (++group.arrived == 128) {
        work();
        group.arrived = 0;
        ++group.generation;
    } else {
        wait_while(&group.generation, generation);
    }
}

// A side of a wgmma as its descriptor says, `count` rows (or columns) by 16 of K.
std::vector<float> read_side(uint64_t descriptor, int count, bool count_is_contiguous) {
    const uint32_t start = (descriptor & 0x3fff) << 4, leading = (descriptor >> 16 & 0x3fff) << 4, stride = (descriptor >> 32 & 0x3fff) << 4;
    if (descriptor >> 62 != 1) fail("a wgmma descriptor without the 128-byte swizzle");
    std::vector<float> side(count * 16);
    for (int n = 0; n < count; ++n)
        for (int k = 0; k < 16; ++k) {
            const uint32_t linear = count_is_contiguous ? start + n / 64 * leading + k / 8 * stride + k % 8 * 128 + n % 64 * 2
                                                        : start + n / 8 * stride + n % 8 * 128 + k * 2;
            const uintptr_t at = in_shared(swizzled(linear));
            access(at, 2, Access::Read, Proxy::Wgmma);
            side[n * 16 + k] = bf16_to_float(bf16_at(at));
        }
    return side;
}

// d[64, 128] = a · b, or + d, for the warpgroup that begins at thread `first`.
void compute(const std::vector<const Wgmma*>& of_threads) {
    const Wgmma& one = *of_threads[0];
    for (const Wgmma* other : of_threads)
        if (other->a != one.a || other->b != one.b || other->accumulate != one.accumulate)
            fail("wgmma: descriptors differ among the threads of a warpgroup");
    const std::vector<float> a = read_side(one.a, 64, false), b = read_side(one.b, 128, one.b_is_kn);
    for (int thread = 0; thread < 128; ++thread) {
        const int row = thread / WARP * 16 + thread % WARP / 4, column = thread % 4 * 2;
        for (int j = 0; j < 16; ++j)
            for (int half = 0; half < 2; ++half)
                for (int i = 0; i < 2; ++i) {
                    float& d = *of_threads[thread]->d[4 * j + 2 * half + i];
                    const float* x = &a[(row + 8 * half) * 16];
                    const float* y = &b[(8 * j + column + i) * 16];
                    double sum = one.accumulate ? d : 0.0;
                    for (int k = 0; k < 16; ++k) sum += (double)x[k] * y[k];
                    d = (float)sum;
                }
    }
}

}  // namespace
}  // namespace emulator

using namespace emulator;

extern "C" {

void emulated_mma(float** c, const uint32_t* a, const uint32_t* b, int tf32) {
    MmaOperands mine;
    memcpy(mine.a, a, sizeof mine.a);
    memcpy(mine.b, b, sizeof mine.b);
    memcpy(mine.c, c, sizeof mine.c);
    if (tf32) gather("mma of TF32", &mine, sizeof mine, false, multiply<true>);
    else gather("mma of bf16", &mine, sizeof mine, false, multiply<false>);
}

void emulated_ldmatrix(uint32_t** out, int matrices, int transposed, uint32_t address) {
    const Slot* slots = gather("ldmatrix", &address, sizeof address);
    if (my_lane() < 8 * matrices) {
        if (address % 16) fail("ldmatrix: a row at %u of shared memory, which is not aligned", address);
        access(in_shared(address), 16, Access::Read);
    }
    const int g = my_lane() / 4, c = my_lane() % 4;
    for (int i = 0; i < matrices; ++i) {
        const auto at = [&](int row, int column) -> uint32_t {
            uint32_t start;
            memcpy(&start, slots[8 * i + row].bytes, sizeof start);
            return bf16_at(in_shared(start) + 2 * column);
        };
        *out[i] = transposed ? at(2 * c, g) | at(2 * c + 1, g) << 16 : at(g, 2 * c) | at(g, 2 * c + 1) << 16;
    }
}

void emulated_wgmma(float** d, uint64_t a, uint64_t b, int accumulate, int b_is_kn) {
    Wgmma product{{}, a, b, accumulate, b_is_kn, me().product_group};
    std::copy(d, d + 64, product.d);
    me().products.push_back(product);
}

void emulated_wgmma_fence() { gather("wgmma.fence", nullptr, 0); }
void emulated_wgmma_commit() { ++me().product_group; }

void emulated_wgmma_wait(int in_flight) {
    const int first = thread_index / 128 * 128;
    if (launched->threads < (unsigned)first + 128) fail("wgmma without a whole warpgroup");
    const int upto = me().product_group - in_flight;
    gather_group([&] {
        for (;;) {
            std::vector<const Wgmma*> of_threads;
            for (int i = first; i < first + 128; ++i)
                if (!threads[i].products.empty() && threads[i].products[0].group < upto) of_threads.push_back(&threads[i].products[0]);
            if (of_threads.empty()) break;
            if (of_threads.size() < 128) fail("wgmma: the threads of a warpgroup have issued different numbers");
            compute(of_threads);
            for (int i = first; i < first + 128; ++i) threads[i].products.erase(threads[i].products.begin());
        }
    });
}

}  // extern "C"

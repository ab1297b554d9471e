// cuBLASLt: D = alpha · op(A) · op(B) + beta · C with an epilogue, column-major, in plain loops.

#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>

#include "emulator.h"

using namespace emulator;

namespace {

constexpr int R_32F = 0, R_16BF = 14, FAST_TF32 = 77;
constexpr int SUCCESS = 0, INVALID_VALUE = 7, NOT_SUPPORTED = 15, EXECUTION_FAILED = 13;

struct Layout {
    int type;
    uint64_t rows, columns;
    int64_t stride;
    int32_t batch = 1;
    int64_t offset = 0;
};

struct Description {
    int compute;
    int32_t transposed[2] = {0, 0};
    uint32_t epilogue = 1;
    uint64_t bias = 0, aux = 0;
    int64_t aux_stride = 0;
};

float load(int type, uint64_t address, uint64_t index) {
    if (type == R_32F) return reinterpret_cast<const float*>(address)[index];
    const uint32_t bits = (uint32_t)reinterpret_cast<const uint16_t*>(address)[index] << 16;
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

void store(int type, uint64_t address, uint64_t index, float value) {
    if (type == R_32F) {
        reinterpret_cast<float*>(address)[index] = value;
        return;
    }
    uint32_t bits;
    memcpy(&bits, &value, 4);
    reinterpret_cast<uint16_t*>(address)[index] = value != value ? 0x7fff : (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float round_to_tf32(float value) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    bits = (bits + 0x1000) & ~0x1fffu;
    memcpy(&value, &bits, 4);
    return value;
}

float gelu(float x) { return 0.5f * x * (1 + std::tanh(0.7978845608f * (x + 0.044715f * x * x * x))); }

// Does something with the place of each matrix of a batch; between them there may be guard regions, or what is not theirs.
template <class Do>
bool each(uint64_t first, const Layout& layout, Do act) {
    const size_t one = layout.type == R_32F ? 4 : 2, bytes = one * ((layout.columns - 1) * layout.stride + layout.rows);
    for (int32_t batch = 0; batch < layout.batch; ++batch)
        if (!act(first + one * batch * layout.offset, bytes)) return false;
    return true;
}

struct Matmul {
    Description description;
    float alpha, beta;
    uint64_t a, b, c, d;
    Layout of_a, of_b, of_d;

    // Whether the work before this one was the same matmul, as while algorithms are timed: its result is there.
    bool repeats(uint32_t number) const {
        static uint32_t last_number = 0;
        static std::array<uint64_t, 9> last;
        const uint64_t transposed = 2 * description.transposed[0] + description.transposed[1];
        const std::array<uint64_t, 9> now = {a, b, c, d, description.bias, description.aux, of_d.rows, of_d.columns, transposed};
        const bool same = number == last_number + 1 && now == last && alpha == 1 && (beta == 0 || c != d);
        last_number = number;
        last = now;
        return same;
    }

    bool run(uint32_t number) const {
        const bool inside = each(a, of_a, is_memory) && each(b, of_b, is_memory) && each(d, of_d, is_memory) &&
                            (beta == 0 || each(c, of_d, is_memory));
        const uint64_t m = of_d.rows, n = of_d.columns, k = description.transposed[0] ? of_a.rows : of_a.columns;
        if (!inside) {
            fprintf(stderr, "emulated GPU: a matmul of %lu x %lu x %lu reaches beyond its memory\n", m, k, n);
            return false;
        }
        const auto rounded = [&](float x) { return description.compute == FAST_TF32 ? round_to_tf32(x) : x; };
        std::vector<float> x(m * k), y(n), row(n), sums(m * n);
        for (int32_t batch = 0; batch < of_d.batch; ++batch) {
            const uint64_t at_a = (uint64_t)batch * of_a.offset, at_b = (uint64_t)batch * of_b.offset, at_d = (uint64_t)batch * of_d.offset;
            for (uint64_t i = 0; i < m; ++i)
                for (uint64_t p = 0; p < k; ++p)
                    x[p * m + i] = rounded(load(of_a.type, a, at_a + (description.transposed[0] ? i * of_a.stride + p : p * of_a.stride + i)));
            // Column by column of D: the inner loop runs along a column, which is contiguous.
            for (uint64_t j = 0; j < n; ++j) {
                float* const sum = &sums[j * m];
                std::fill(sum, sum + m, 0.0f);
                for (uint64_t p = 0; p < k; ++p) {
                    const float factor =
                        rounded(load(of_b.type, b, at_b + (description.transposed[1] ? p * of_b.stride + j : j * of_b.stride + p)));
                    const float* const column = &x[p * m];
                    for (uint64_t i = 0; i < m; ++i) sum[i] += factor * column[i];
                }
            }
            for (uint64_t j = 0; j < n; ++j)
                for (uint64_t i = 0; i < m; ++i) {
                    const uint64_t at = at_d + j * of_d.stride + i;
                    float value = alpha * sums[j * m + i];
                    if (beta != 0) value += beta * load(of_d.type, c, at);
                    if (description.epilogue != 1) value += load(of_d.type, description.bias, i);
                    if (description.epilogue == 164) {
                        store(of_d.type, description.aux, j * description.aux_stride + i, value);
                        value = gelu(value);
                    }
                    store(of_d.type, d, at, value);
                }
        }
        const auto write = [=](uint64_t start, size_t bytes) {
            written(start, bytes, number);
            return true;
        };
        return each(d, of_d, write) && (description.epilogue != 164 || each(description.aux, of_d, write));
    }
};

}  // namespace

extern "C" {

size_t cublasLtGetVersion() { return EMULATOR_VERSION; }
const char* cublasLtGetStatusString(int) { return "a failure of the emulated cuBLASLt"; }
const char* cublasLtGetStatusName(int) { return "EMULATED"; }
int cublasLtCreate(void** handle) {
    *handle = new int(0);
    return SUCCESS;
}
int cublasLtDestroy(void* handle) {
    delete static_cast<int*>(handle);
    return SUCCESS;
}
int cublasLtMatmulDescCreate(Description** description, int compute, int) {
    *description = new Description{compute};
    return SUCCESS;
}
int cublasLtMatmulDescDestroy(Description* description) {
    delete description;
    return SUCCESS;
}
int cublasLtMatmulDescSetAttribute(Description* description, int attribute, const void* value, size_t size) {
    const auto set = [&](auto& field) {
        if (size != sizeof field) return INVALID_VALUE;
        memcpy(&field, value, size);
        return SUCCESS;
    };
    uint32_t ignored;
    switch (attribute) {
        case 3: return set(description->transposed[0]);
        case 4: return set(description->transposed[1]);
        case 7: return set(description->epilogue);
        case 8: return set(description->bias);
        case 11: return set(description->aux);
        case 12: return set(description->aux_stride);
        case 26: return set(ignored);
        default: return INVALID_VALUE;
    }
}
int cublasLtMatrixLayoutCreate(Layout** layout, int type, uint64_t rows, uint64_t columns, int64_t stride) {
    *layout = new Layout{type, rows, columns, stride};
    return type == R_32F || type == R_16BF ? SUCCESS : INVALID_VALUE;
}
int cublasLtMatrixLayoutDestroy(Layout* layout) {
    delete layout;
    return SUCCESS;
}
int cublasLtMatrixLayoutSetAttribute(Layout* layout, int attribute, const void* value, size_t size) {
    if (attribute == 5 && size == 4) memcpy(&layout->batch, value, size);
    else if (attribute == 6 && size == 8) memcpy(&layout->offset, value, size);
    else return INVALID_VALUE;
    return SUCCESS;
}
int cublasLtMatmulPreferenceCreate(void** preference) {
    *preference = new int(0);
    return SUCCESS;
}
int cublasLtMatmulPreferenceDestroy(void* preference) {
    delete static_cast<int*>(preference);
    return SUCCESS;
}
int cublasLtMatmulPreferenceSetAttribute(void*, int, const void*, size_t) { return SUCCESS; }

struct Algorithm {
    uint64_t data[8];
};
struct Heuristic {
    Algorithm algorithm;
    size_t workspace;
    int state;
    float waves;
    int reserved[4];
};

int cublasLtMatmulAlgoGetHeuristic(void*, Description*, Layout*, Layout*, Layout*, Layout*, void*, int wanted, Heuristic* found, int* count) {
    // One is enough: there is nothing to be gained by timing.
    *count = wanted > 0;
    if (wanted > 0) found[0] = Heuristic{{{1, 0, 0, 0, 0, 0, 0, 0}}, 0, SUCCESS, 1.0f, {}};
    return SUCCESS;
}
int cublasLtMatmulAlgoConfigGetAttribute(const Algorithm*, int, void* value, size_t size, size_t* written) {
    memset(value, 0, size);
    if (written) *written = size;
    return SUCCESS;
}

int cublasLtMatmul(void*, Description* description, const void* alpha, const void* a, Layout* of_a, const void* b, Layout* of_b,
                   const void* beta, const void* c, Layout*, void* d, Layout* of_d, const Algorithm*, void*, size_t, void* stream) {
    const auto address = [](const void* p) { return reinterpret_cast<uint64_t>(p); };
    const Matmul matmul{*description, *static_cast<const float*>(alpha), *static_cast<const float*>(beta), address(a), address(b), address(c),
                        address(d), *of_a, *of_b, *of_d};
    const Work work = [matmul](uint32_t number, uint32_t) { return matmul.repeats(number) || matmul.run(number); };
    return enqueue(stream, false, work) == 0 ? SUCCESS : EXECUTION_FAILED;
}

}  // extern "C"

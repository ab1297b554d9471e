// Prompts of one training step: the numbers that Task::sample draws, one thread block per prompt.
//
// sampling/mod.rs puts #define lines in front of this text: BATCH, POINTS, FEATURES, THREADS, CHUNK (points held in
// shared memory at once, a multiple of 4 so that a chunk begins with a whole Philox block), NOISE, the streams' keys,
// and FUNCTION and INPUTS with their settings. Any multiple of a warp works for THREADS.

typedef unsigned long long u64;

struct ScheduleRow { float rate; float root; int dims; int pad; };

#define LINEAR 1
#define QUADRATIC 2
#define TWO_LAYER 3
#define DECISION_TREE 4
#define GAUSSIAN 1
#define SKEWED 2

// Random numbers, as in seed.rs.

struct Words { unsigned at[4]; };

__device__ Words philox(u64 key, u64 index, unsigned block) {
    unsigned c0 = block, c1 = 0, c2 = (unsigned)index, c3 = (unsigned)(index >> 32);
    unsigned k0 = (unsigned)key, k1 = (unsigned)(key >> 32);
    for (int round = 0; round < 10; ++round) {
        const u64 p0 = (u64)c0 * 0xd2511f53u, p1 = (u64)c2 * 0xcd9e8d57u;
        c0 = (unsigned)(p1 >> 32) ^ c1 ^ k0;
        c1 = (unsigned)p1;
        c2 = (unsigned)(p0 >> 32) ^ c3 ^ k1;
        c3 = (unsigned)p0;
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    return {{c0, c1, c2, c3}};
}

// One word of a stream. Chosen without an index into `at`, which would move it from registers to memory.
__device__ unsigned word(u64 key, u64 index, unsigned i) {
    const Words w = philox(key, index, i / 4);
    return i & 2 ? (i & 1 ? w.at[3] : w.at[2]) : (i & 1 ? w.at[1] : w.at[0]);
}

__device__ int below(unsigned word, int n) { return (int)(((u64)word * (unsigned)n) >> 32); }

__device__ double uniform(unsigned word) { return (word + 0.5) * (1.0 / 4294967296.0); }

__device__ void normal_pair(unsigned first, unsigned second, double* cosine, double* sine) {
    const double radius = sqrt(-2.0 * log(uniform(first)));
    double s, c;
    sincos(6.283185307179586477 * uniform(second), &s, &c);
    *cosine = radius * c;
    *sine = radius * s;
}

// Normals 4·first … 4·first + count − 1 of an item of a stream.
struct Normals {
    u64 key, index;
    int first, count;
    double* out;
    __device__ int blocks() const { return (count + 3) / 4; }
};

// Draws several streams in one loop, a Philox block per thread at a time: a short stream costs no round of its own.
template <int N>
__device__ void draw(const Normals (&streams)[N]) {
    for (int job = threadIdx.x;; job += THREADS) {
        int block = job;
        Normals s = streams[0];
        for (int n = 1; n < N; ++n) {
            if (block >= s.blocks()) {
                block -= s.blocks();
                s = streams[n];
            }
        }
        if (block >= s.blocks()) return;
        const Words w = philox(s.key, s.index, s.first + block);
        double z[4];
        normal_pair(w.at[0], w.at[1], &z[0], &z[1]);
        normal_pair(w.at[2], w.at[3], &z[2], &z[3]);
        for (int i = 0; i < 4; ++i) {
            if (4 * block + i < s.count) s.out[4 * block + i] = z[i];
        }
    }
}

// Function classes. Each has normals(dims), how many normals its stream begins with; complete(), what thread 0 does
// to them before use; partial(), slice `slice` of SLICES of the sum in f(x); and value(), f(x) from the sum of its partials.

#if FUNCTION == LINEAR

constexpr int SLICES = 1;
constexpr bool SPARSE = NONZERO > 0;

__device__ constexpr int normals(int dims) { return dims; }

// Partial Fisher–Yates: order[..NONZERO] is a uniform subset. Its words follow whole pairs of normals.
__device__ void complete(double* w, int* order, u64 index, int dims) {
    if constexpr (SPARSE) {
        for (int i = 0; i < dims; ++i) order[i] = i;
        for (int i = 0; i < NONZERO && i < dims; ++i) {
            const int other = i + below(word(FUNCTION_KEY, index, (dims + 1) / 2 * 2 + i), dims - i);
            const int kept = order[other];
            order[other] = order[i];
            order[i] = kept;
        }
        for (int i = NONZERO; i < dims; ++i) w[order[i]] = 0.0;
    }
}

__device__ double partial(const double* w, const double* x, u64, int dims, int) {
    double sum = 0.0;
    for (int j = 0; j < dims; ++j) sum += w[j] * x[j];
    return sum;
}

__device__ double value(double sum) { return SIGN ? (sum >= 0.0 ? 1.0 : -1.0) : sum; }

#elif FUNCTION == QUADRATIC

constexpr int SLICES = 1;
constexpr bool SPARSE = false;

__device__ constexpr int normals(int dims) { return dims; }

__device__ void complete(double*, int*, u64, int) {}

__device__ double partial(const double* w, const double* x, u64, int dims, int) {
    double sum = 0.0;
    for (int j = 0; j < dims; ++j) sum += w[j] * x[j] * x[j];
    return sum;
}

__device__ double value(double sum) { return sum / sqrt(3.0); }

#elif FUNCTION == TWO_LAYER

// As many slices of the hidden units as keep every thread busy.
constexpr int SLICES = THREADS < 2 * CHUNK ? 1 : THREADS / CHUNK < HIDDEN ? THREADS / CHUNK : HIDDEN;
constexpr bool SPARSE = false;

// W [HIDDEN, dims], a [HIDDEN], and with biases v [HIDDEN], b.
__device__ constexpr int normals(int dims) { return HIDDEN * (dims + 1) + (BIAS ? HIDDEN + 1 : 0); }

__device__ void complete(double*, int*, u64, int) {}

__device__ double partial(const double* first, const double* x, u64, int dims, int slice) {
    constexpr int TOGETHER = 8; // units that share a read of x
    const double* second = first + HIDDEN * dims;
    const double* bias = second + HIDDEN;
    const double scale = FAN_IN ? 1.0 / sqrt((double)dims) : 1.0;
    const int end = HIDDEN * (slice + 1) / SLICES;
    double sum = BIAS && slice == 0 ? bias[HIDDEN] : 0.0;
    for (int unit = HIDDEN * slice / SLICES; unit < end; unit += TOGETHER) {
        const double* row[TOGETHER];
        double z[TOGETHER];
        for (int u = 0; u < TOGETHER; ++u) {
            row[u] = first + (unit + u < end ? unit + u : end - 1) * dims;
            z[u] = 0.0;
        }
        for (int j = 0; j < dims; ++j) {
            for (int u = 0; u < TOGETHER; ++u) z[u] += row[u][j] * x[j];
        }
        for (int u = 0; u < TOGETHER; ++u) {
            if (unit + u < end) {
                const double input = z[u] * scale + (BIAS ? bias[unit + u] : 0.0);
                sum += second[unit + u] * (TANH ? tanh(input) : fmax(input, 0.0));
            }
        }
    }
    return sum;
}

__device__ double value(double sum) { return BIAS ? sum : sqrt(2.0 / HIDDEN) * sum; }

#elif FUNCTION == DECISION_TREE

constexpr int SLICES = 1;
constexpr bool SPARSE = false;

// Only the nodes and the leaf that a point meets are drawn, when it meets them: a tree of any depth needs no memory.
__device__ constexpr int normals(int) { return 0; }

__device__ void complete(double*, int*, u64, int) {}

__device__ double partial(const double*, const double* x, u64 index, int dims, int) {
    constexpr unsigned NODES = (1u << DEPTH) - 1;
    unsigned node = 0;
    for (int level = 0; level < DEPTH; ++level) {
        node = 2 * node + 1 + (x[below(word(FUNCTION_KEY, index, node), dims)] > 0.0);
    }
    const unsigned leaf = node - NODES, pair = NODES + leaf / 2 * 2;
    double even, odd;
    normal_pair(word(FUNCTION_KEY, index, pair), word(FUNCTION_KEY, index, pair + 1), &even, &odd);
    return leaf & 1 ? odd : even;
}

__device__ double value(double sum) { return sum; }

#else
#error "FUNCTION is not a known class"
#endif

struct Shared {
    double weights[normals(FEATURES) + 1]; // an array of none is not C++
    double xs[CHUNK * FEATURES];
    double partials[SLICES * CHUNK]; // partial sums of labels, slice by slice; the first slice ends as the labels
    double noise[NOISE > 0.0 ? CHUNK : 1];
    int order[SPARSE ? FEATURES : 1];
#if INPUTS == SKEWED
    double zs[CHUNK * FEATURES]; // standard normals, of which xs are made
    double matrix[FEATURES * FEATURES];
    double root[FEATURES * FEATURES];
#endif
};
static_assert(sizeof(Shared) <= 48 * 1024, "a block has 48 KiB of static shared memory");
static_assert(CHUNK % 4 == 0, "a chunk begins with a whole Philox block");

#if INPUTS == SKEWED

// √ of an eigenvalue of the covariance: κ for dims/2 of them, 1 for the rest, both scaled.
__device__ double root_of_eigenvalue(double raw, double kappa, int dims) {
    const int large = dims / 2;
    return sqrt(TRACE_NORMALISED ? raw * (dims / (large * kappa + (dims - large))) : raw);
}

// root[k,i] = Q[i,k]·√λ_k, with QR = matrix and R's diagonal positive: Householder reflections, applied to the
// identity as well, which becomes Qᵀ. A thread has a column of one of the two matrices; each computes the norm of the
// reflected column for itself, so that a step has one barrier. The columns of `matrix` are scratch.
__device__ void make_root(double* matrix, double* root, double kappa, int dims) {
    const double large = root_of_eigenvalue(kappa, kappa, dims), small = root_of_eigenvalue(1.0, kappa, dims);
    for (int i = threadIdx.x; i < dims * dims; i += THREADS) root[i] = i / dims == i % dims ? 1.0 : 0.0;
    __syncthreads();
    for (int k = 0; k < dims; ++k) {
        const double* reflected = matrix + k;
        const double stretch = k < dims / 2 ? large : small;
        for (int j = k + 1 + threadIdx.x; j < 2 * dims; j += THREADS) {
            double* column = j < dims ? matrix + j : root + (j - dims);
            double square = 0.0, product = 0.0;
            for (int i = k; i < dims; ++i) {
                const double a = reflected[i * dims];
                square += a * a;
                product += a * column[i * dims];
            }
            // v = a + shift·e_k reflects the column a onto −shift·e_k, and 2/vᵀv = 1/(‖a‖² + |a_k|‖a‖).
            const double head = reflected[k * dims], norm = sqrt(square), shift = head >= 0.0 ? norm : -norm;
            const double factor = (product + shift * column[k * dims]) / (square + fabs(head) * norm);
            double top = column[k * dims] - factor * (head + shift);
            for (int i = k + 1; i < dims; ++i) column[i * dims] -= factor * reflected[i * dims];
            // Row k is now final: turn it so that R[k,k] = −shift becomes positive, and stretch it.
            if (j >= dims) top *= head >= 0.0 ? -stretch : stretch;
            column[k * dims] = top;
        }
        __syncthreads();
    }
}

#elif INPUTS != GAUSSIAN
#error "INPUTS is not a known distribution"
#endif

// An occupancy of two blocks per multiprocessor is what batches of 256 need; ptxas would save registers for more.
extern "C" __global__ void __launch_bounds__(THREADS, 2)
    sample(float* tokens, float* targets, const ScheduleRow* rows, const u64* progress) {
    __shared__ Shared shared;
    const u64 index = progress[0] * BATCH + blockIdx.x;
    const ScheduleRow row = rows[progress[0] - progress[1]];
    const int dims = row.dims;
    targets += (u64)blockIdx.x * POINTS;
    tokens += (u64)blockIdx.x * 2 * POINTS * FEATURES;

    for (int first = 0; first < POINTS; first += CHUNK) {
        const int count = POINTS - first < CHUNK ? POINTS - first : CHUNK;
        const int once = first == 0; // what belongs to the whole prompt is drawn with its first chunk
        draw({
            Normals{FUNCTION_KEY, index, 0, once * normals(dims), shared.weights},
            Normals{NOISE_KEY, index, first / 4, NOISE > 0.0 ? count : 0, shared.noise},
#if INPUTS == SKEWED
            Normals{BASIS_KEY, index / SHARE, 0, once * dims * dims, shared.matrix},
            Normals{INPUTS_KEY, index, first / 4 * dims, count * dims, shared.zs},
#else
            Normals{INPUTS_KEY, index, first / 4 * dims, count * dims, shared.xs},
#endif
        });
        __syncthreads();

        if (once && threadIdx.x == 0) complete(shared.weights, shared.order, index, dims);
#if INPUTS == SKEWED
        // An annealed condition number would come from `row` here, where KAPPA is.
        if (once) make_root(shared.matrix, shared.root, KAPPA, dims);
        for (int e = threadIdx.x; e < count * dims; e += THREADS) {
            const double* z = shared.zs + e / dims * dims;
            const double* root = shared.root + e % dims;
            double sum = 0.0;
            for (int k = 0; k < dims; ++k) sum += root[k * dims] * z[k];
            shared.xs[e] = sum;
        }
#endif
        __syncthreads();

        for (int e = threadIdx.x; e < SLICES * CHUNK; e += THREADS) {
            const int slice = e / CHUNK, point = e % CHUNK;
            if (point < count) {
                shared.partials[e] = partial(shared.weights, shared.xs + point * dims, index, dims, slice);
            }
        }
        __syncthreads();

        for (int point = threadIdx.x; point < count; point += THREADS) {
            double sum = 0.0;
            for (int slice = 0; slice < SLICES; ++slice) sum += shared.partials[slice * CHUNK + point];
            double y = value(sum);
            if (NOISE > 0.0) y += NOISE * shared.noise[point];
            shared.partials[point] = y;
            targets[first + point] = (float)y;
        }
        __syncthreads();

        for (int e = threadIdx.x; e < count * 2 * FEATURES; e += THREADS) {
            const int token = e / FEATURES, j = e % FEATURES, point = token / 2;
            double number = 0.0;
            if (token % 2 == 0 && j < dims) number = shared.xs[point * dims + j];
            if (token % 2 == 1 && j == 0) number = shared.partials[point];
            tokens[2 * first * FEATURES + e] = (float)number;
        }
        __syncthreads();
    }
}

// Products of the wide layers on Hopper's matrix units (sm_90a), with what follows them done in registers. INNER (64,
// 128 or 256) values are in each sum, and a row has COLUMNS (a multiple of 256) results. Memory, not arithmetic, is the
// limit: nothing wide is written that would be read again at once.
//
// A block keeps a panel of the weights, 256 columns, in shared memory and walks over rows. Its two teams take turns with tiles
// of 64 rows: while one finishes its results the other multiplies. A team is two groups of four warps, one for each
// half of the panel. Which rows a team takes depends on the shape alone, so that sums over rows have the same bits each time.
//
// Operands lie in shared memory in rows of 128 bytes whose eight 16-byte pieces are swapped by the row's number
// (piece p of row r at p ^ r % 8), as the matrix units expect under "128-byte swizzle".

#define TILE 64
#define PANEL 256
#define SIDE 128  // columns of a group
#define PANELS (COLUMNS / PANEL)
#define BLOCK 64  // values of a row of 128 bytes
#define TEAM 256  // threads
#define THREADS (2 * TEAM)
#define TILE_BYTES (TILE * INNER * 2)
#define PANEL_BYTES (PANEL * INNER * 2)

__device__ __forceinline__ u32 shared_at(const void* p) { return (u32)__cvta_generic_to_shared(p); }

// What was written to shared memory is there for the matrix units, once all threads have met after this.
__device__ __forceinline__ void show_to_matrix_units() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

__device__ __forceinline__ void await_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// Meets the other threads of this team.
__device__ __forceinline__ void meet_team(int team) {
    asm volatile("bar.sync %0, %1;" ::"r"(team + 1), "n"(TEAM) : "memory");
}

// The teams multiply in turns: each waits for the other's word, and gives its own when its product is there.
__device__ __forceinline__ void await_turn(int team) {
    asm volatile("bar.sync %0, %1;" ::"r"(team + 3), "n"(THREADS) : "memory");
}

__device__ __forceinline__ void pass_turn(int team) {
    asm volatile("bar.arrive %0, %1;" ::"r"(4 - team), "n"(THREADS) : "memory");
}

// An operand for the matrix units: its start, and the bytes between parts along its rows (`across`), where sums do not run along
// them; eight rows are 1024 bytes.
__device__ __forceinline__ u64 operand(u32 start, u32 across) {
    return (u64)(start >> 4) | (u64)(across >> 4) << 16 | (u64)(1024 >> 4) << 32 | 1ull << 62;
}

// d[64, 128] = a[64, 16] · b[16, 128], added to d where there is more. ACROSS: 0 if b's sums run along its rows of 128 bytes,
// 1 if its columns do.
template <int ACROSS>
__device__ __forceinline__ void multiply_wide(float (&d)[64], u64 a, u64 b, int more) {
    asm volatile(
        "{.reg .pred more; setp.ne.b32 more, %66, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
        "%64, %65, more, 1, 1, 0, %67;}\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
          "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
          "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
          "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
          "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]),
          "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
          "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
          "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
        : "l"(a), "l"(b), "r"(more), "n"(ACROSS));
}

// Where piece `piece` (8 values) of row `row` lies among operands of `rows` rows.
__device__ __forceinline__ unsigned char* piece_at(unsigned char* start, int rows, int row, int piece) {
    return start + piece / 8 * rows * 128 + row * 128 + ((piece % 8 ^ row % 8) << 4);
}

// Starts to copy rows first … first + 63 of x[rows, INNER]; zeros beyond the last. By one team.
__device__ __forceinline__ void fetch_tile(unsigned char* to, const half_t* x, int first, int rows) {
    const int piece = threadIdx.x % (INNER / 8), row = threadIdx.x % TEAM / (INNER / 8);
    const half_t* from = x + (u64)(first + row) * INNER + 8 * piece;
    unsigned char* place = piece_at(to, TILE, row, piece);
#pragma unroll
    for (int down = 0; down < TILE; down += TEAM / (INNER / 8)) {
        const bool inside = first + row + down < rows;
        copy16(reinterpret_cast<half_t*>(place + down * 128), inside ? from + down * INNER : x, inside);
    }
}

// The order of a panel's columns. A lane's results of a product are pairs of neighbouring columns, 8 apart; in the order
// used here, four such pairs are eight neighbouring columns of the matrix: 16 bytes that are read and written at once.
// Of every 32 columns, product column 8 j + 2 c + i is column 8 c + 2 j + i of the matrix.

// Starts to copy a panel of w[COLUMNS, INNER], in that order.
__device__ __forceinline__ void fetch_panel_of_rows(unsigned char* to, const half_t* w, int first) {
#pragma unroll 8
    for (int i = threadIdx.x; i < PANEL * INNER / 8; i += THREADS) {
        const int n = i / (INNER / 8), piece = i % (INNER / 8);
        const int column = n / 32 * 32 + n / 2 % 4 * 8 + n / 8 % 4 * 2 + n % 2;
        copy16(reinterpret_cast<half_t*>(piece_at(to, PANEL, n, piece)), w + (u64)(first + column) * INNER + 8 * piece, true);
    }
}

// Starts to copy a panel of w[INNER, COLUMNS] as it is.
__device__ __forceinline__ void fetch_panel_of_columns(unsigned char* to, const half_t* w, int first) {
#pragma unroll 8
    for (int i = threadIdx.x; i < INNER * PANEL / 8; i += THREADS) {
        const int k = i / (PANEL / 8), piece = i % (PANEL / 8);
        copy16(reinterpret_cast<half_t*>(piece_at(to, INNER, k, piece)), w + (u64)k * COLUMNS + first + 8 * piece, true);
    }
}

// Puts the columns of such a panel in order: 32 of them are 4 × 4 pairs, which are transposed.
__device__ __forceinline__ void order_columns(unsigned char* panel) {
#pragma unroll 2
    for (int i = threadIdx.x; i < INNER * PANEL / 32; i += THREADS) {
        // Eight neighbouring threads reach eight different pieces.
        const int k = i / 2 % INNER, piece = 4 * (i % 2 + i / (2 * INNER) * 2);
        u32 pairs[4][4];
#pragma unroll
        for (int c = 0; c < 4; ++c) {
            const uint4 four = *reinterpret_cast<const uint4*>(piece_at(panel, INNER, k, piece + c));
            pairs[c][0] = four.x, pairs[c][1] = four.y, pairs[c][2] = four.z, pairs[c][3] = four.w;
        }
#pragma unroll
        for (int j = 0; j < 4; ++j)
            *reinterpret_cast<uint4*>(piece_at(panel, INNER, k, piece + j)) =
                make_uint4(pairs[0][j], pairs[1][j], pairs[2][j], pairs[3][j]);
    }
}

// Where this thread's results lie. With d from a product: for s < 4, j < 4, i < 2 and half < 2, d[16 s + 4 j + 2 half + i]
// belongs to row `row` + 8 half of a tile and column `column` + 32 s + 2 j + i of the matrix.
struct Place {
    int team, side, row, column, blocks, first_tile, tiles;

    __device__ __forceinline__ Place(int rows) {
        const int lane = threadIdx.x % WARP;
        // The same in a whole warp, and the compiler is to know it.
        const int group = __shfl_sync(ALL_LANES, threadIdx.x / 128, 0);
        team = group / 2;
        side = group % 2;
        row = 16 * (threadIdx.x / WARP % 4) + lane / 4;
        column = (int)(blockIdx.x % PANELS) * PANEL + side * SIDE + 8 * (lane % 4);
        blocks = (int)(gridDim.x / PANELS);
        first_tile = (int)(blockIdx.x / PANELS) + team * blocks;
        tiles = (rows + TILE - 1) / TILE;
    }

    // The tile that is multiplied as number t, the last first: what reads the results begins with the first rows, and finds
    // them in the cache.
    __device__ __forceinline__ int tile(int t) const { return t < tiles ? tiles - 1 - t : t; }

    // Whether the other team multiplies after this team's tile t; every team does once, though it be beyond the last row.
    __device__ __forceinline__ bool other_follows(int t) const {
        return t + blocks < tiles || (team == 0 && t == first_tile);
    }
};

// Multiplies this block's rows of x[rows, INNER] with its panel of w. `begin(t)` is done before the product of tile t, `end(t)` with
// the product in d. ACROSS: w is [INNER, COLUMNS], else [COLUMNS, INNER].
template <int ACROSS, class Begin, class End>
__device__ __forceinline__ void multiply_rows(const Place& place, const half_t* x, const half_t* w, int rows, float (&d)[64],
                                              Begin begin, End end) {
    extern __shared__ __align__(1024) unsigned char panel[];
    // Three tiles: the two that are multiplied, and the next. A tile takes the place of the one multiplied before the last.
    unsigned char* const tiles = panel + PANEL_BYTES;
    if (ACROSS)
        fetch_panel_of_columns(panel, w, blockIdx.x % PANELS * PANEL);
    else
        fetch_panel_of_rows(panel, w, blockIdx.x % PANELS * PANEL);
    // Weights were written by the step before.
    await_previous();
    int at = place.team, t = place.first_tile;
    fetch_tile(tiles + at * TILE_BYTES, x, place.tile(t) * TILE, rows);
    do {
        await_copies();
        // `begin` follows what shows the copies, because that waits for everything that is being loaded.
        if (t == place.first_tile) {
            if (ACROSS) {
                __syncthreads();
                order_columns(panel);
            }
            show_to_matrix_units();
            begin(place.tile(t));
            __syncthreads();
            if (place.team == 1) pass_turn(1);
        } else {
            show_to_matrix_units();
            begin(place.tile(t));
            meet_team(place.team);
        }
        await_turn(place.team);
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        const u32 left = shared_at(tiles + at * TILE_BYTES);
        // Computed in the loop, because of the order that the compiler then finds: the gradient's kernel takes 28.7 µs for R1 at
        // batch 256 on an H200, and 33.3 with this line before the loop.
        const u32 right = shared_at(panel) + place.side * SIDE * (ACROSS ? INNER * 2 : 128);
#pragma unroll
        for (int k = 0; k < INNER; k += 16) {
            const u64 a = operand(left + k / BLOCK * TILE * 128 + k % BLOCK * 2, 0);
            const u64 b = ACROSS ? operand(right + k * 128, INNER * 128)
                                 : operand(right + k / BLOCK * PANEL * 128 + k % BLOCK * 2, 0);
            multiply_wide<ACROSS>(d, a, b, k > 0);
        }
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        const int next = t + 2 * place.blocks;
        at = at == 0 ? 2 : at - 1;
        if (next < place.tiles) fetch_tile(tiles + at * TILE_BYTES, x, place.tile(next) * TILE, rows);
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll
        for (int i = 0; i < 64; ++i) asm volatile("" : "+f"(d[i])::"memory");
        if (place.other_follows(t)) pass_turn(place.team);
        end(place.tile(t));
        t = next;
    } while (t < place.tiles);
}

// Derivatives of GELU lie between −0.13 and 1.13. In steps of 1/200 they fit into a byte, 0 and 1 exactly, and are as exact as
// bf16 is near 1.
#define STEPS 200.0f
#define ZERO 26.0f
// Added to a whole number below 2^23, it leaves the number in the lowest bits.
#define WHOLE 8388608.0f

__device__ __forceinline__ uint2 pack_slopes(const float (&slopes)[8]) {
    u32 bits[8];
#pragma unroll
    for (int e = 0; e < 8; ++e)
        bits[e] = __float_as_uint(fmaf(__saturatef(fmaf(slopes[e], STEPS / 255, ZERO / 255)), 255.0f, WHOLE));
    const auto four = [](const u32* b) {
        return __byte_perm(__byte_perm(b[0], b[1], 0x0040), __byte_perm(b[2], b[3], 0x0040), 0x5410);
    };
    return make_uint2(four(bits), four(bits + 4));
}

// Slope e of eight, in steps.
__device__ __forceinline__ float slope_in_steps(uint2 packed, int e) {
    const u32 four = e < 4 ? packed.x : packed.y;
    return __uint_as_float(__byte_perm(four, 0x4b000000u, 0x7440 | e % 4)) - (WHOLE + ZERO);
}

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

// The place in d of value e of the eight neighbours in group s of a half.
#define AT(s, half, e) (16 * (s) + 4 * ((e) / 2) + 2 * (half) + (e) % 2)
#define FOR_S _Pragma("unroll") for (int s = 0; s < SIDE / 32; ++s)
#define FOR_HALVES _Pragma("unroll") for (int half = 0; half < 2; ++half)
#define FOR_EIGHT _Pragma("unroll") for (int e = 0; e < 8; ++e)

// out = gelu(z) and slope = gelu'(z) where z[rows, COLUMNS] = x[rows, INNER] · w[INNER, COLUMNS] + bias.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    wide_gelu(half_t* out, unsigned char* slope, const half_t* x, const half_t* w, const half_t* bias, int rows) {
    const Place place(rows);
    float d[64];
    uint4 biases[SIDE / 32];
    FOR_S biases[s] = *reinterpret_cast<const uint4*>(bias + place.column + 32 * s);
    multiply_rows<1>(place, x, w, rows, d, [](int) {}, [&](int t) {
        FOR_S {
            float b[8], values[8], slopes[8];
            unpack8(b, biases[s]);
            FOR_HALVES {
                FOR_EIGHT gelu_with_slope(d[AT(s, half, e)] + b[e], values[e], slopes[e]);
                const int row = t * TILE + place.row + 8 * half;
                if (row < rows) {
                    const u64 at = (u64)row * COLUMNS + place.column + 32 * s;
                    *reinterpret_cast<uint4*>(out + at) = pack8(values);
                    *reinterpret_cast<uint2*>(slope + at) = pack_slopes(slopes);
                }
            }
        }
    });
}

// Adds up v[0 … 7] over the eight lanes whose numbers differ in bits 2, 3 and 4; the lane with bits e there returns the sum of v[e].
__device__ __forceinline__ float sum_of_rows(float (&v)[8]) {
    const int e = threadIdx.x / 4 % 8;
#pragma unroll
    for (int n = 4; n > 0; n /= 2)
#pragma unroll
        for (int i = 0; i < n; ++i) {
            const float other = __shfl_xor_sync(ALL_LANES, e & n ? v[i] : v[i + n], 4 * n);
            v[i] = (e & n ? v[i + n] : v[i]) + other;
        }
    return v[0];
}

// d[rows, COLUMNS] = dout[rows, INNER] · w[COLUMNS, INNER]ᵀ ∘ slope, and its sums over rows in parts:
// partials[8 · blocks / PANELS, COLUMNS], one row for each warp of one side.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    wide_gelu_backward(half_t* d, float* partials, const half_t* dout, const half_t* w, const unsigned char* slope, int rows) {
    const Place place(rows);
    float p[64], sums[SIDE / 32];
    uint2 slopes[2][SIDE / 32];
    FOR_S sums[s] = 0;
    const auto load_slopes = [&](int t) {
        FOR_HALVES FOR_S {
            // Rows beyond the last multiply zeros.
            const int row = min(t * TILE + place.row + 8 * half, rows - 1);
            slopes[half][s] = *reinterpret_cast<const uint2*>(slope + (u64)row * COLUMNS + place.column + 32 * s);
        }
    };
    multiply_rows<0>(place, dout, w, rows, p, load_slopes, [&](int t) {
        FOR_S {
            float over_rows[8], v[8];
            FOR_EIGHT over_rows[e] = 0;
            FOR_HALVES {
                FOR_EIGHT {
                    v[e] = p[AT(s, half, e)] * (1 / STEPS) * slope_in_steps(slopes[half][s], e);
                    over_rows[e] += v[e];
                }
                const int row = t * TILE + place.row + 8 * half;
                if (row < rows) *reinterpret_cast<uint4*>(d + (u64)row * COLUMNS + place.column + 32 * s) = pack8(v);
            }
            sums[s] += sum_of_rows(over_rows);
        }
    });
    const int warp = 4 * place.team + threadIdx.x / WARP % 4;
    float* part = partials + (u64)(blockIdx.x / PANELS * 8 + warp) * COLUMNS + place.column + threadIdx.x % WARP / 4;
    FOR_S part[32 * s] = sums[s];
}

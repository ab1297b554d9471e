// Rows of an activation replaced by others.

// Which row of the activation takes which row of the values.
struct Taken {
    int row, from;
};

// out[row, first + c] = values[from, c] (+ base[row, first + c]) for c < columns; without values 0 in their place. One block per row that
// is replaced; rows of `out` and `base` have `width` values, rows of `values` have `pitch`.
template <typename Out, typename Values>
__device__ __forceinline__ void patch(Out* out, const float* base, const Taken* taken, const Values* values, int width, int first,
                                      int columns, int pitch) {
    const Taken t = taken[blockIdx.x];
    for (int c = threadIdx.x; c < columns; c += blockDim.x) {
        const u64 at = (u64)t.row * width + first + c;
        float value = values ? to_float(values[(u64)t.from * pitch + c]) : 0.0f;
        if (base) value += base[at];
        if constexpr (sizeof(Out) == sizeof(float)) out[at] = value;
        else out[at] = to_storage(value);
    }
}

// A residual stream, which is float32.
extern "C" __global__ void patch_stream(float* out, const float* base, const Taken* taken, const float* values, int width, int first,
                                        int columns, int pitch) {
    patch(out, base, taken, values, width, first, columns, pitch);
}

// An activation in the storage type, from values of the host, which are float32.
extern "C" __global__ void patch_storage(storage_t* out, const float* base, const Taken* taken, const float* values, int width,
                                         int first, int columns, int pitch) {
    patch(out, base, taken, values, width, first, columns, pitch);
}

// The same from another network's activation.
extern "C" __global__ void patch_storage_from(storage_t* out, const float* base, const Taken* taken, const storage_t* values,
                                              int width, int first, int columns, int pitch) {
    patch(out, base, taken, values, width, first, columns, pitch);
}

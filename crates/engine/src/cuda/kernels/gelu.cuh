// GELU in its tanh form is z (1 + tanh u) / 2 with u = √(2/π) (z + 0.044715 z³).
#define GELU_SCALE 0.7978845608f
#define GELU_CUBIC 0.044715f

__device__ __forceinline__ float tanh_of(float x) {
#if PRECISION == BF16
    // One instruction, to 2^-11: more than bf16 holds.
    float y;
    asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#else
    return tanhf(x);
#endif
}

// GELU and its derivative, which share their tanh.
__device__ __forceinline__ void gelu_with_derivative(float z, float& value, float& derivative) {
    const float square = z * z;
    const float t = tanh_of(z * fmaf(GELU_SCALE * GELU_CUBIC, square, GELU_SCALE));
    // With w = (1 + t) / 2: 1 − t² = 4 w (1 − w).
    const float w = fmaf(0.5f, t, 0.5f);
    value = z * w;
    derivative = fmaf(value * fmaf(6.0f * GELU_SCALE * GELU_CUBIC, square, 2.0f * GELU_SCALE), fmaf(-0.5f, t, 0.5f), w);
}

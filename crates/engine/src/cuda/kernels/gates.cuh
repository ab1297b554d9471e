// Activations of an LSTM's gates.

#if PRECISION == FLOAT32
__device__ __forceinline__ float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }
__device__ __forceinline__ float tanh_gate(float x) { return tanhf(x); }
#else
__device__ __forceinline__ float sigmoid(float x) { return __fdividef(1.0f, 1.0f + __expf(-x)); }
__device__ __forceinline__ float tanh_gate(float x) { return 1.0f - __fdividef(2.0f, 1.0f + __expf(2.0f * x)); }
#endif

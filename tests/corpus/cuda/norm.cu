// arch: sm_75 sm_80 sm_90a
// Softmax and layer norm over rows, one block a row.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

struct Sum {
    __device__ float operator()(float a, float b) const { return a + b; }
};
struct Max {
    __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

template <class Op> __device__ float all_reduce(float v, Op op)
{
    __shared__ float partial[32];
    for (int mask = 16; mask > 0; mask /= 2)
        v = op(v, __shfl_xor_sync(0xffffffff, v, mask));
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        partial[threadIdx.x / 32] = v;
    __syncthreads();
    v = partial[0];
    for (int i = 1; i < blockDim.x / 32; ++i)
        v = op(v, partial[i]);
    return v;
}

__device__ float load(const float *p) { return *p; }
__device__ float load(const __half *p) { return __half2float(*p); }
__device__ float load(const __nv_bfloat16 *p) { return __bfloat162float(*p); }
__device__ void store(float *p, float v) { *p = v; }
__device__ void store(__half *p, float v) { *p = __float2half(v); }
__device__ void store(__nv_bfloat16 *p, float v) { *p = __float2bfloat16(v); }

template <class T> __device__ void softmax(int columns, const T *in, T *out)
{
    const T *row = in + blockIdx.x * (size_t)columns;
    float top = __int_as_float(0xff800000), sum = 0;
    for (int i = threadIdx.x; i < columns; i += blockDim.x)
        top = fmaxf(top, load(row + i));
    top = all_reduce(top, Max());
    for (int i = threadIdx.x; i < columns; i += blockDim.x)
        sum += __expf(load(row + i) - top);
    sum = all_reduce(sum, Sum());
    for (int i = threadIdx.x; i < columns; i += blockDim.x)
        store(out + blockIdx.x * (size_t)columns + i, __fdividef(__expf(load(row + i) - top), sum));
}

extern "C" __global__ void softmax_f32(int n, const float *in, float *out) { softmax(n, in, out); }
extern "C" __global__ void softmax_f16(int n, const __half *in, __half *out) { softmax(n, in, out); }
extern "C" __global__ void softmax_bf16(int n, const __nv_bfloat16 *in, __nv_bfloat16 *out)
{
    softmax(n, in, out);
}

extern "C" __global__ void layer_norm(int columns, float epsilon, const float *in,
                                      const float *weight, const float *bias, float *out)
{
    const float *row = in + blockIdx.x * (size_t)columns;
    float sum = 0;
    for (int i = threadIdx.x; i < columns; i += blockDim.x)
        sum += row[i];
    float mean = all_reduce(sum, Sum()) / columns;
    float squares = 0;
    for (int i = threadIdx.x; i < columns; i += blockDim.x) {
        float d = row[i] - mean;
        squares = fmaf(d, d, squares);
    }
    float scale = rsqrtf(all_reduce(squares, Sum()) / columns + epsilon);
    for (int i = threadIdx.x; i < columns; i += blockDim.x)
        out[blockIdx.x * (size_t)columns + i] = (row[i] - mean) * scale * weight[i] + bias[i];
}

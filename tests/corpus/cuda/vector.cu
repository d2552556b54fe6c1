// arch: sm_75 sm_80 sm_90a
// Streams of memory: scalar, vector and hinted accesses.

extern "C" __global__ void saxpy(int n, float a, const float *__restrict__ x, float *__restrict__ y)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = a * x[i] + y[i];
}

// A grid-stride loop over float4 with streaming hints; n counts float4.
extern "C" __global__ void scale4(int n, float a, const float4 *x, float4 *y)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        float4 v = __ldcs(x + i);
        v.x *= a;
        v.y *= a;
        v.z *= a;
        v.w *= a;
        __stcg(y + i, v);
    }
}

// Bytes, halfwords, structures of odd sizes.
struct Record {
    unsigned char tag;
    short delta;
    double weight;
    long long count;
};

extern "C" __global__ void records(int n, const Record *in, Record *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    Record r = in[n - 1 - i];
    r.tag ^= 0xff;
    r.delta = (short)(r.delta * 3);
    r.weight = r.weight * 0.5 + r.delta;
    r.count -= r.tag;
    out[i] = r;
}

__constant__ float taps[5] = {0.1f, 0.2f, 0.4f, 0.2f, 0.1f};
__device__ int calls;
__device__ const char *names[2] = {"even", "odd"};

// A stencil with constant coefficients and module variables.
extern "C" __global__ void stencil(int n, const float *in, float *out, char *letters)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float sum = 0;
#pragma unroll
    for (int k = -2; k <= 2; ++k) {
        int at = min(max(i + k, 0), n - 1);
        sum += taps[k + 2] * __ldg(in + at);
    }
    out[i] = sum;
    letters[i] = names[i & 1][i % 3];
    atomicAdd(&calls, 1);
}

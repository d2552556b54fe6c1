// arch: sm_75 sm_80 sm_90a
// Reductions: by shuffles, in shared memory, by atomics, in one pass with the last block finishing.

__device__ float warp_sum(float v)
{
    for (int offset = 16; offset > 0; offset /= 2)
        v += __shfl_down_sync(0xffffffff, v, offset);
    return v;
}

__device__ float block_sum(float v)
{
    __shared__ float partial[32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    v = warp_sum(v);
    if (lane == 0)
        partial[warp] = v;
    __syncthreads();
    int warps = (blockDim.x + 31) / 32;
    v = threadIdx.x < warps ? partial[lane] : 0.0f;
    if (warp == 0)
        v = warp_sum(v);
    return v;
}

extern "C" __global__ void dot(int n, const float *x, const float *y, float *out)
{
    float sum = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        sum += x[i] * y[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        atomicAdd(out, sum);
}

__device__ unsigned int tickets;

// The last block to arrive adds what all blocks left.
extern "C" __global__ void sum_once(int n, const float *x, volatile float *partial, float *out)
{
    __shared__ bool last;
    float sum = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        sum += x[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = sum;
        __threadfence();
        last = atomicInc(&tickets, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last) {
        __threadfence();
        float total = 0;
        for (int i = threadIdx.x; i < gridDim.x; i += blockDim.x)
            total += partial[i];
        __syncthreads();
        total = block_sum(total);
        if (threadIdx.x == 0)
            *out = total;
    }
}

// Counts, minimum and maximum with the barrier's reductions and integer atomics.
extern "C" __global__ void summary(int n, const int *x, int *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int value = i < n ? x[i] : 0;
    int even = __syncthreads_count(i < n && value % 2 == 0);
    int any = __syncthreads_or(i < n && value == 7);
    int all = __syncthreads_and(i >= n || value > -1000);
    if (threadIdx.x == 0) {
        atomicAdd(out, even);
        atomicOr(out + 1, any != 0);
        atomicAnd(out + 2, all != 0);
    }
    if (i < n) {
        atomicMin(out + 3, value);
        atomicMax(out + 4, value);
    }
}

extern __shared__ double tree[];

// A tree in dynamic shared memory, of doubles.
extern "C" __global__ void sum_tree(const double *x, double *out)
{
    tree[threadIdx.x] = x[blockIdx.x * blockDim.x + threadIdx.x];
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half)
            tree[threadIdx.x] += tree[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        out[blockIdx.x] = tree[0];
}

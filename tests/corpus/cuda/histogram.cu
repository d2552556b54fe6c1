// arch: sm_75 sm_80 sm_90a
// A histogram with one copy a block, merged by global atomics.

extern "C" __global__ void histogram(int n, const unsigned char *in, unsigned int *bins)
{
    __shared__ unsigned int own[256];
    for (int i = threadIdx.x; i < 256; i += blockDim.x)
        own[i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n / 4; i += gridDim.x * blockDim.x) {
        unsigned int four = reinterpret_cast<const unsigned int *>(in)[i];
        for (int byte = 0; byte < 4; ++byte)
            atomicAdd(&own[(four >> (8 * byte)) & 255], 1u);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += blockDim.x)
        if (own[i] != 0)
            atomicAdd(&bins[i], own[i]);
}

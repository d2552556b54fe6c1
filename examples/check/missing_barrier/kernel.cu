// Reverses blocks of 256 elements through shared memory.
extern "C" __global__ void reverse(const float *x, float *y) {
    __shared__ float tile[256];
    int at = blockIdx.x * 256 + threadIdx.x;
    tile[threadIdx.x] = x[at];
    // __syncthreads() is missing
    y[at] = tile[255 - threadIdx.x];
}

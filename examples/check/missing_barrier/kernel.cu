// Reverses rows of 256 elements through shared memory, four rows a block.
extern "C" __global__ void reverse(const float *x, float *y) {
    __shared__ float tile[256];
    for (int row = 0; row < 4; row++) {
        int at = (blockIdx.x * 4 + row) * 256 + threadIdx.x;
        tile[threadIdx.x] = x[at];
        __syncthreads();
        y[at] = tile[255 - threadIdx.x];
        // A second __syncthreads() is missing: the next row may overwrite what is still read.
    }
}

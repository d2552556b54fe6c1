// Transposes a square matrix in tiles of 32 by 32, by blocks of 32 by 8 threads.
extern "C" __global__ void transpose(const float *x, float *y, int n) {
    __shared__ float tile[32][32]; // [32][33] has no bank conflicts
    int column = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * 32 + threadIdx.y;
    for (int i = 0; i < 32; i += 8) tile[threadIdx.y + i][threadIdx.x] = x[(row + i) * n + column];
    __syncthreads();
    column = blockIdx.y * 32 + threadIdx.x, row = blockIdx.x * 32 + threadIdx.y;
    for (int i = 0; i < 32; i += 8) y[(row + i) * n + column] = tile[threadIdx.x][threadIdx.y + i];
}

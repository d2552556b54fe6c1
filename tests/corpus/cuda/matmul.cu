// arch: sm_75 sm_80 sm_90a
// Matrix products through shared tiles, plain arithmetic: row-major, edges masked.

template <class T, int TILE> __device__ void matmul(int m, int n, int k, const T *a, const T *b, T *c)
{
    __shared__ T as[TILE][TILE], bs[TILE][TILE];
    int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
    T sum = 0;
    for (int base = 0; base < k; base += TILE) {
        int ka = base + threadIdx.x, kb = base + threadIdx.y;
        as[threadIdx.y][threadIdx.x] = row < m && ka < k ? a[row * k + ka] : T(0);
        bs[threadIdx.y][threadIdx.x] = column < n && kb < k ? b[kb * n + column] : T(0);
        __syncthreads();
#pragma unroll
        for (int i = 0; i < TILE; ++i)
            sum += as[threadIdx.y][i] * bs[i][threadIdx.x];
        __syncthreads();
    }
    if (row < m && column < n)
        c[row * n + column] = sum;
}

extern "C" __global__ void matmul_f32(int m, int n, int k, const float *a, const float *b, float *c)
{
    matmul<float, 16>(m, n, k, a, b, c);
}

extern "C" __global__ void matmul_f64(int m, int n, int k, const double *a, const double *b,
                                      double *c)
{
    matmul<double, 8>(m, n, k, a, b, c);
}

extern "C" __global__ void matmul_i64(int m, int n, int k, const long long *a, const long long *b,
                                      long long *c)
{
    matmul<long long, 8>(m, n, k, a, b, c);
}

// Each thread keeps 4x4 results in registers and reads float4; sizes are multiples of 64.
extern "C" __global__ void matmul_blocked(int n, int k, const float *a, const float *b, float *c)
{
    __shared__ __align__(16) float as[16][64 + 4], bs[16][64];
    int t = threadIdx.x, tx = t % 16 * 4, ty = t / 16 * 4;
    float sum[4][4] = {};
    for (int base = 0; base < k; base += 16) {
        int r = t / 4, q = t % 4 * 4;
        float4 v = *reinterpret_cast<const float4 *>(a + (blockIdx.y * 64 + r) * k + base + q);
        as[q][r] = v.x;
        as[q + 1][r] = v.y;
        as[q + 2][r] = v.z;
        as[q + 3][r] = v.w;
        r = t / 16;
        q = t % 16 * 4;
        *reinterpret_cast<float4 *>(&bs[r][q]) =
            *reinterpret_cast<const float4 *>(b + (base + r) * n + blockIdx.x * 64 + q);
        __syncthreads();
#pragma unroll
        for (int i = 0; i < 16; ++i) {
            float4 x = *reinterpret_cast<float4 *>(&as[i][ty]);
            float4 y = *reinterpret_cast<float4 *>(&bs[i][tx]);
            float xs[4] = {x.x, x.y, x.z, x.w}, ys[4] = {y.x, y.y, y.z, y.w};
#pragma unroll
            for (int p = 0; p < 4; ++p)
#pragma unroll
                for (int q = 0; q < 4; ++q)
                    sum[p][q] = fmaf(xs[p], ys[q], sum[p][q]);
        }
        __syncthreads();
    }
    for (int p = 0; p < 4; ++p)
        *reinterpret_cast<float4 *>(c + (blockIdx.y * 64 + ty + p) * n + blockIdx.x * 64 + tx) =
            make_float4(sum[p][0], sum[p][1], sum[p][2], sum[p][3]);
}

// arch: sm_75 sm_80 sm_90a
// The nvcuda::wmma interface: fragments whose layout only the hardware knows.
#include <mma.h>

using namespace nvcuda;

// One warp a block: a 16 x 16 tile of C = A B, all row-major; extents are multiples of 16.
extern "C" __global__ void product(int n, int k, const __half *a, const __half *b, float *c)
{
    wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> x;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> y;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::fill_fragment(sum, 0.5f);
    for (int base = 0; base < k; base += 16) {
        wmma::load_matrix_sync(x, a + blockIdx.y * 16 * k + base, k);
        wmma::load_matrix_sync(y, b + base * n + blockIdx.x * 16, n);
        wmma::mma_sync(sum, x, y, sum);
    }
    for (int i = 0; i < sum.num_elements; ++i)
        sum.x[i] *= 2;
    wmma::store_matrix_sync(c + blockIdx.y * 16 * n + blockIdx.x * 16, sum, n, wmma::mem_row_major);
}

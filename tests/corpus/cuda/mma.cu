// arch: sm_80 sm_90a
// Tensor cores by mma.sync: a double-buffered product with cp.async and ldmatrix, and wmma.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ unsigned int address(const void *p) { return (unsigned int)__cvta_generic_to_shared(p); }

// C = A B^T, A row-major m x k, B row-major n x k, in 64 x 64 tiles of 4 warps; k a multiple of 32.
extern "C" __global__ void __launch_bounds__(128)
gemm_bf16(int n, int k, const __nv_bfloat16 *a, const __nv_bfloat16 *b, float *c)
{
    constexpr int TILE = 64, STEP = 32, PITCH = STEP + 8;
    __shared__ __align__(16) __nv_bfloat16 as[2][TILE][PITCH], bs[2][TILE][PITCH];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int row0 = blockIdx.y * TILE, column0 = blockIdx.x * TILE;
    auto fetch = [&](int stage, int base) {
        for (int i = threadIdx.x; i < TILE * STEP / 8; i += 128) {
            int r = i / (STEP / 8), q = i % (STEP / 8) * 8;
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address(&as[stage][r][q])),
                         "l"(a + (size_t)(row0 + r) * k + base + q));
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address(&bs[stage][r][q])),
                         "l"(b + (size_t)(column0 + r) * k + base + q));
        }
        asm volatile("cp.async.commit_group;");
    };
    float sum[8][4] = {};
    fetch(0, 0);
    for (int base = 0, stage = 0; base < k; base += STEP, stage ^= 1) {
        if (base + STEP < k) {
            fetch(stage ^ 1, base + STEP);
            asm volatile("cp.async.wait_group 1;" ::: "memory");
        } else {
            asm volatile("cp.async.wait_all;" ::: "memory");
        }
        __syncthreads();
#pragma unroll
        for (int step = 0; step < STEP; step += 16) {
            unsigned int x[4];
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                         : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                         : "r"(address(&as[stage][warp * 16 + lane % 16][step + lane / 16 * 8])));
#pragma unroll
            for (int j = 0; j < 8; ++j) {
                unsigned int y[2];
                asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                             : "=r"(y[0]), "=r"(y[1])
                             : "r"(address(&bs[stage][j * 8 + lane % 8][step + lane / 8 % 2 * 8])));
                asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
                             "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                             : "+f"(sum[j][0]), "+f"(sum[j][1]), "+f"(sum[j][2]), "+f"(sum[j][3])
                             : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
            }
        }
        __syncthreads();
    }
    for (int j = 0; j < 8; ++j) {
        float *to = c + (size_t)(row0 + warp * 16 + lane / 4) * n + column0 + j * 8 + lane % 4 * 2;
        *reinterpret_cast<float2 *>(to) = make_float2(sum[j][0], sum[j][1]);
        *reinterpret_cast<float2 *>(to + 8 * n) = make_float2(sum[j][2], sum[j][3]);
    }
}

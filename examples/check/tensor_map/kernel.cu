// Doubles a matrix of 50 by 60 elements in tiles of 16 rows by 32 columns, which a tensor copy
// brings. Blocks that share rows are a cluster.
struct __align__(64) TensorMap { char bytes[128]; };

__device__ void double_tile(const TensorMap *map, float *y) {
    __shared__ __align__(128) float tile[16][32];
    __shared__ unsigned long long full;
    unsigned to = (unsigned)__cvta_generic_to_shared(tile), barrier = (unsigned)__cvta_generic_to_shared(&full);
    int column = blockIdx.x * 32, row = blockIdx.y * 16;
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(barrier) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(barrier), "r"(2048) : "memory");
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                     " [%0], [%1, {%2, %3}], [%4];"
                     :: "r"(to), "l"(map), "r"(column), "r"(row), "r"(barrier) : "memory");
    }
    __syncthreads();
    asm volatile("{ .reg .pred done;\n"
                 "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0;\n"
                 "@!done bra again; }" :: "r"(barrier) : "memory");
    for (int i = 0; i < 16; i++) {
        if (row + i < 50 && column + threadIdx.x < 60) {
            y[(row + i) * 60 + column + threadIdx.x] = 2 * tile[i][threadIdx.x];
        }
    }
}

extern "C" __global__ void by_value(const __grid_constant__ TensorMap map, float *y) {
    double_tile(&map, y);
}

extern "C" __global__ void by_pointer(const TensorMap *map, float *y) {
    double_tile(map, y);
}

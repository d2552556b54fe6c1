// arch: sm_90a
// Hopper by inline PTX: mbarriers, bulk and tensor copies, clusters, wgmma.
#include <cooperative_groups.h>
#include <cuda_fp16.h>

namespace cg = cooperative_groups;

struct alignas(64) TensorMap {
    unsigned long long words[16];
};

__device__ unsigned int address(const void *p) { return (unsigned int)__cvta_generic_to_shared(p); }

__device__ void init(unsigned long long *barrier, int count)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address(barrier)), "r"(count) : "memory");
}

__device__ void expect(unsigned long long *barrier, int bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address(barrier)), "r"(bytes)
                 : "memory");
}

__device__ void arrive(unsigned long long *barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address(barrier)) : "memory");
}

__device__ void wait(unsigned long long *barrier, int parity)
{
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@done bra.uni over;\n"
                 "bra.uni again;\n"
                 "over:\n"
                 "}" ::"r"(address(barrier)),
                 "r"(parity)
                 : "memory");
}

// A tile goes in by a bulk copy, is doubled, and goes out by another; 1024 floats a block.
extern "C" __global__ void bulk(const float *in, float *out)
{
    __shared__ alignas(128) float tile[1024];
    __shared__ alignas(8) unsigned long long full;
    if (threadIdx.x == 0) {
        init(&full, 1);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        expect(&full, sizeof(tile));
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                         address(tile)),
                     "l"(in + 1024 * blockIdx.x), "r"((int)sizeof(tile)), "r"(address(&full))
                     : "memory");
    }
    wait(&full, 0);
    for (int i = threadIdx.x; i < 1024; i += blockDim.x)
        tile[i] *= 2;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(out + 1024 * blockIdx.x),
                     "r"(address(tile)), "r"((int)sizeof(tile))
                     : "memory");
        asm volatile("cp.async.bulk.commit_group;");
        asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    }
}

// A 32 x 32 tile of a matrix by a tensor map, transposed through registers, stored by another.
extern "C" __global__ void tiles(const __grid_constant__ TensorMap in, const __grid_constant__ TensorMap out)
{
    __shared__ alignas(128) float tile[32][32];
    __shared__ alignas(8) unsigned long long full;
    if (threadIdx.x == 0) {
        asm volatile("prefetch.tensormap [%0];" ::"l"(&in) : "memory");
        init(&full, 1);
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        expect(&full, sizeof(tile));
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                     " [%0], [%1, {%2, %3}], [%4];" ::"r"(address(tile)),
                     "l"(&in), "r"(blockIdx.x * 32), "r"(blockIdx.y * 32), "r"(address(&full))
                     : "memory");
    }
    __syncthreads();
    wait(&full, 0);
    float own[4];
    for (int k = 0; k < 4; ++k)
        own[k] = tile[threadIdx.x % 32][threadIdx.x / 32 + 8 * k];
    __syncthreads();
    for (int k = 0; k < 4; ++k)
        tile[threadIdx.x / 32 + 8 * k][threadIdx.x % 32] = own[k];
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&out),
                     "r"(blockIdx.y * 32), "r"(blockIdx.x * 32), "r"(address(tile))
                     : "memory");
        asm volatile("cp.async.bulk.commit_group;");
        asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
    }
}

// A histogram over the shared memory of four blocks.
extern "C" __global__ void __cluster_dims__(4, 1, 1) cluster_histogram(int n, const int *in, int *bins)
{
    __shared__ int own[64];
    cg::cluster_group cluster = cg::this_cluster();
    for (int i = threadIdx.x; i < 64; i += blockDim.x)
        own[i] = 0;
    cluster.sync();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        int bin = in[i];
        int *far = cluster.map_shared_rank(own, bin / 64);
        atomicAdd(far + bin % 64, 1);
    }
    cluster.sync();
    for (int i = threadIdx.x; i < 64; i += blockDim.x)
        atomicAdd(bins + cluster.block_rank() * 64 + i, own[i]);
}

// Each block reads its neighbour's tile.
extern "C" __global__ void __cluster_dims__(2, 1, 1) cluster_swap(const float *in, float *out)
{
    extern __shared__ float tile[];
    cg::cluster_group cluster = cg::this_cluster();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    tile[threadIdx.x] = in[i];
    cluster.sync();
    const float *other = cluster.map_shared_rank(tile, cluster.block_rank() ^ 1);
    out[i] = other[blockDim.x - 1 - threadIdx.x] + cluster.num_blocks();
    cluster.sync();
}

// The descriptor of a tile without swizzle: 8 x 8 matrices, K-major.
__device__ unsigned long long descriptor(const void *tile, int leading, int stride)
{
    return ((unsigned long long)address(tile) & 0x3ffff) >> 4 | (unsigned long long)(leading >> 4) << 16 |
           (unsigned long long)(stride >> 4) << 32;
}

// D (64 x 8, f32) = A B^T of halves, k = 64; rows of A and B have 64 elements.
extern "C" __global__ void __launch_bounds__(128) product(const __half *a, const __half *b, float *d)
{
    // Matrices of 8 rows by 16 bytes, contiguous; along K beside each other.
    __shared__ alignas(128) __half as[8][8][8][8], bs[8][8][8];
    for (int i = threadIdx.x; i < 64 * 64; i += 128) {
        int r = i / 64, k = i % 64;
        as[r / 8][k / 8][r % 8][k % 8] = a[i];
        if (r < 8)
            bs[k / 8][r][k % 8] = b[i];
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    float sum[4] = {};
    // The zeros must be in the registers before the fence.
    for (int i = 0; i < 4; ++i)
        asm volatile("" : "+f"(sum[i])::"memory");
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        unsigned long long x = descriptor(&as[0][2 * k], 128, 1024), y = descriptor(&bs[2 * k], 128, 1024);
        asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"
                     : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                     : "l"(x), "l"(y));
    }
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, column = threadIdx.x % 4 * 2;
    d[row * 8 + column] = sum[0];
    d[row * 8 + column + 1] = sum[1];
    d[(row + 8) * 8 + column] = sum[2];
    d[(row + 8) * 8 + column + 1] = sum[3];
}

// A producer warp feeds two warpgroups through a ring of three stages; registers move over.
extern "C" __global__ void __launch_bounds__(384, 1) ring(int tiles, const float *in, float *out)
{
    constexpr int STAGES = 3, ELEMENTS = 512;
    __shared__ alignas(128) float stage[STAGES][ELEMENTS];
    __shared__ alignas(8) unsigned long long full[STAGES], empty[STAGES];
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) {
            init(&full[s], 1);
            init(&empty[s], 256);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    if (threadIdx.x < 128) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
        if (threadIdx.x == 0) {
            for (int t = 0; t < tiles; ++t) {
                int s = t % STAGES;
                wait(&empty[s], (t / STAGES + 1) % 2);
                expect(&full[s], ELEMENTS * 4);
                asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                             " [%0], [%1], %2, [%3];" ::"r"(address(stage[s])),
                             "l"(in + t * ELEMENTS), "r"(ELEMENTS * 4), "r"(address(&full[s]))
                             : "memory");
            }
        }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
        int me = threadIdx.x - 128;
        float sum = 0;
        for (int t = 0; t < tiles; ++t) {
            int s = t % STAGES;
            wait(&full[s], t / STAGES % 2);
            for (int k = 0; k < ELEMENTS; k += 128)
                sum += stage[s][(me + k + t) % ELEMENTS];
            arrive(&empty[s]);
        }
        out[me] = sum;
    }
}

// arch: sm_80 sm_90a
// cp.async behind CUDA's pipelines and barriers.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cuda/barrier>
#include <cuda/pipeline>
#include <cuda_pipeline.h>

namespace cg = cooperative_groups;

// Two stages of 16-byte copies with the plain primitives; n is a multiple of 4 * blockDim.x.
extern "C" __global__ void stream(int n, const float *in, float *out)
{
    __shared__ __align__(16) float stage[2][256 * 4];
    int tiles = n / (4 * blockDim.x);
    float sum = 0;
    auto fetch = [&](int tile) {
        if (tile < tiles)
            __pipeline_memcpy_async(&stage[tile % 2][4 * threadIdx.x],
                                    in + (size_t)tile * 4 * blockDim.x + 4 * threadIdx.x, 16);
        __pipeline_commit();
    };
    fetch(0);
    for (int tile = 0; tile < tiles; ++tile) {
        fetch(tile + 1);
        __pipeline_wait_prior(1);
        __syncthreads();
        for (int k = 0; k < 4; ++k)
            sum += stage[tile % 2][(4 * threadIdx.x + 17 * k) % (4 * blockDim.x)];
        __syncthreads();
    }
    out[threadIdx.x] = sum;
}

// The same with 4-byte copies, of which some fill with zeros.
extern "C" __global__ void ragged(int n, const float *in, float *out)
{
    __shared__ float stage[256];
    int i = threadIdx.x;
    __pipeline_memcpy_async(&stage[i], in + i, 4, i < n ? 0 : 4);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    out[i] = stage[blockDim.x - 1 - i];
}

// memcpy_async that completes on a barrier of the block.
extern "C" __global__ void barriered(const int *in, int *out)
{
    __shared__ __align__(16) int tile[512];
    __shared__ cuda::barrier<cuda::thread_scope_block> barrier;
    if (threadIdx.x == 0)
        init(&barrier, blockDim.x);
    __syncthreads();
    for (int round = 0; round < 3; ++round) {
        cuda::memcpy_async(tile + 4 * threadIdx.x, in + (round * blockDim.x + threadIdx.x) * 4,
                           cuda::aligned_size_t<16>(16), barrier);
        barrier.arrive_and_wait();
        int sum = 0;
        for (int k = 0; k < 4; ++k)
            sum += tile[(threadIdx.x + k * blockDim.x + round) % (4 * blockDim.x)];
        out[round * blockDim.x + threadIdx.x] = sum;
        barrier.arrive_and_wait();
    }
}

// Half of the block feeds the other through two barriers a stage.
extern "C" __global__ void roles(int rounds, const int *in, int *out)
{
    __shared__ int stage[2][32];
    __shared__ cuda::barrier<cuda::thread_scope_block> full[2], empty[2];
    if (threadIdx.x < 2) {
        init(full + threadIdx.x, 64);
        init(empty + threadIdx.x, 64);
    }
    __syncthreads();
    int lane = threadIdx.x % 32;
    if (threadIdx.x < 32) {
        for (int i = 0; i < rounds; ++i) {
            empty[i % 2].arrive_and_wait();
            stage[i % 2][lane] = in[i * 32 + lane];
            auto token = full[i % 2].arrive();
            (void)token;
        }
    } else {
        int sum = 0;
        auto first = empty[0].arrive();
        auto second = empty[1].arrive();
        (void)first;
        (void)second;
        for (int i = 0; i < rounds; ++i) {
            full[i % 2].arrive_and_wait();
            sum = sum * 3 + stage[i % 2][31 - lane];
            if (i + 2 < rounds) {
                auto token = empty[i % 2].arrive();
                (void)token;
            }
        }
        out[lane] = sum;
    }
}

// cuda::pipeline with two stages.
extern "C" __global__ void pipelined(int tiles, const int *in, int *out)
{
    __shared__ __align__(16) int stage[2][128];
    auto pipeline = cuda::make_pipeline();
    auto fetch = [&](int tile) {
        pipeline.producer_acquire();
        if (tile < tiles)
            cuda::memcpy_async(&stage[tile % 2][threadIdx.x], in + tile * blockDim.x + threadIdx.x,
                               cuda::aligned_size_t<4>(4), pipeline);
        pipeline.producer_commit();
    };
    int sum = 0;
    fetch(0);
    for (int tile = 0; tile < tiles; ++tile) {
        fetch(tile + 1);
        cuda::pipeline_consumer_wait_prior<1>(pipeline);
        __syncthreads();
        sum = sum * 5 + stage[tile % 2][blockDim.x - 1 - threadIdx.x];
        __syncthreads();
        pipeline.consumer_release();
    }
    out[threadIdx.x] = sum;
}

// A whole block's copy by cooperative groups.
extern "C" __global__ void staged(const int *in, int *out)
{
    extern __shared__ int buffer[];
    cg::thread_block block = cg::this_thread_block();
    const int *from = in + blockIdx.x * blockDim.x;
    cg::memcpy_async(block, buffer, from, sizeof(int) * blockDim.x);
    cg::wait(block);
    out[blockIdx.x * blockDim.x + threadIdx.x] = buffer[blockDim.x - 1 - threadIdx.x];
}

// arch: sm_75 sm_90a
// printf of every kind of argument, and assert.
#include <cuda/std/cassert>

extern "C" __global__ void print(const char *name)
{
    if (threadIdx.x == 0 && blockIdx.x == 0)
        printf("%s: %d %u %5.2f %c %lld %x %%\n", name, -5, 7u, 2.5, 'c', 1ll << 40, 0xbeefu);
    __syncthreads();
    if (threadIdx.x == 33)
        printf("thread %d of block %d\n", threadIdx.x, blockIdx.x);
    printf("");
}

extern "C" __global__ void check(int limit)
{
    assert((int)threadIdx.x < limit && "too many threads");
}

// arch: sm_75 sm_80 sm_90a -- --device-int128
// Atomic operations of every kind, in global and shared memory, with scopes and orders.
#include <cuda/atomic>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

struct Counters {
    int add, sub, low, high;
    unsigned int bits_and, bits_or, bits_xor, wraps, drops;
    float sum;
    double wide_sum;
    unsigned long long wide_add, wide_high;
    long long wide_low;
    __half2 halves;
    unsigned int exchanged;
    unsigned int by_cas;
    unsigned short narrow;
    __half half;
    unsigned long long wide_cas;
};

extern "C" __global__ void operations(Counters *c)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(&c->add, i);
    atomicSub(&c->sub, 2);
    atomicMin(&c->low, -i);
    atomicMax(&c->high, i * 3);
    atomicAnd(&c->bits_and, ~(1u << (i % 5)));
    atomicOr(&c->bits_or, 1u << (i % 20));
    atomicXor(&c->bits_xor, i);
    atomicInc(&c->wraps, 6);
    atomicDec(&c->drops, 9);
    atomicAdd(&c->sum, 0.5f);
    atomicAdd(&c->wide_sum, 0.25);
    atomicAdd(&c->wide_add, 1ull << 33);
    atomicMax(&c->wide_high, (unsigned long long)i << 40);
    atomicMin(&c->wide_low, -((long long)i << 40));
    atomicAdd(&c->halves, __floats2half2_rn(1, 0.5f));
    atomicAdd(&c->half, __float2half(1));
    if (atomicExch(&c->exchanged, 7) > 7)
        c->exchanged = 1000;
    // Read as volatile: a plain read would race with the others' exchanges.
    unsigned int seen = *(volatile unsigned int *)&c->by_cas, expected;
    do {
        expected = seen;
        seen = atomicCAS(&c->by_cas, expected, expected + 3);
    } while (seen != expected);
    unsigned short was = *(volatile unsigned short *)&c->narrow, guess;
    do {
        guess = was;
        was = atomicCAS(&c->narrow, guess, (unsigned short)(guess + 1));
    } while (was != guess);
    unsigned long long old = *(volatile unsigned long long *)&c->wide_cas, want;
    do {
        want = old;
        old = atomicCAS(&c->wide_cas, want, want + (1ull << 32));
    } while (old != want);
}

extern "C" __global__ void shared_operations(int *out, float *sums)
{
    __shared__ int add, low;
    __shared__ unsigned int wraps;
    __shared__ float sum;
    __shared__ double wide;
    __shared__ unsigned long long count;
    if (threadIdx.x == 0) {
        add = 0;
        low = 1000;
        wraps = 0;
        sum = 0;
        wide = 0;
        count = 0;
    }
    __syncthreads();
    atomicAdd_block(&add, (int)threadIdx.x);
    atomicMin(&low, 50 - (int)threadIdx.x);
    atomicInc(&wraps, 9);
    atomicAdd(&sum, 1.0f);
    atomicAdd_block(&wide, 0.5);
    atomicAdd(&count, 1ull << 32);
    __syncthreads();
    if (threadIdx.x == 0) {
        out[0] = add;
        out[1] = low;
        out[2] = wraps;
        out[3] = (int)(count >> 32);
        sums[0] = sum;
        sums[1] = (float)wide;
    }
}

// A lock and a flag with the standard's orders.
extern "C" __global__ void ordered(int *lock, int *guarded, int *flag, int *data, int *out)
{
    cuda::atomic_ref<int, cuda::thread_scope_device> held(*lock);
    if (threadIdx.x == 0) {
        int expected = 0;
        while (!held.compare_exchange_weak(expected, 1, cuda::memory_order_acquire))
            expected = 0;
        *guarded += 1;
        held.store(0, cuda::memory_order_release);
    }
    cuda::atomic_ref<int, cuda::thread_scope_system> ready(*flag);
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        *data = 42;
        ready.store(1, cuda::memory_order_release);
        ready.notify_all();
    }
    if (blockIdx.x == gridDim.x - 1 && threadIdx.x == 0) {
        while (ready.load(cuda::memory_order_acquire) == 0)
            __nanosleep(20);
        cuda::atomic_thread_fence(cuda::memory_order_seq_cst, cuda::thread_scope_device);
        *out = *data;
    }
    cuda::atomic_ref<float, cuda::thread_scope_block> sum(*reinterpret_cast<float *>(out + 1));
    if (blockIdx.x == 0)
        sum.fetch_add(0.5f, cuda::memory_order_relaxed);
}

#if __CUDA_ARCH__ >= 900
// Vector forms, and 128 bits at once.
extern "C" __global__ void vectors(float4 *sums, float2 *pairs, __nv_bfloat162 *halves,
                                   __int128 *wide)
{
    float4 old = atomicAdd(sums, make_float4(1, 2, 3, 4));
    (void)old;
    atomicAdd(pairs, make_float2(0.5f, 0.25f));
    atomicAdd(halves, __floats2bfloat162_rn(1, 2));
    __int128 seen = 0, expected;
    do {
        expected = seen;
        seen = atomicCAS(wide, expected, expected + 1 + (((__int128)1) << 64));
    } while (seen != expected);
}
#endif

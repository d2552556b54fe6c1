// A block's largest element: each warp finds its own, and the first warp that of all.
extern "C" __global__ void largest(const int *x, int *y) {
    __shared__ int of_warp[8];
    int value = __reduce_max_sync(0xffffffff, x[threadIdx.x]);
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
    if (threadIdx.x >= 32) return; // these warps never come to the barrier below ..
    asm volatile("barrier.sync 1, 256;" ::: "memory"); // .. which counts 256 threads
    if (threadIdx.x == 0) {
        for (int warp = 1; warp < 8; warp++) value = max(value, of_warp[warp]);
        *y = value;
    }
}

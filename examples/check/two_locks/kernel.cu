// Moves money between accounts, each behind a lock of its own: one transfer a warp.
__device__ void lock(int *at) {
    while (atomicCAS(at, 0, 1) != 0) {}
}

extern "C" __global__ void transfer(int *locks, int *money, int accounts) {
    if (threadIdx.x % 32 != 0) return;
    int warp = threadIdx.x / 32;
    int from = warp % accounts, to = (warp + 1) % accounts;
    lock(&locks[from]); // whoever locks the lower number first cannot wait in a circle
    lock(&locks[to]);
    atomicSub(&money[from], 1);
    atomicAdd(&money[to], 1);
    atomicExch(&locks[to], 0);
    atomicExch(&locks[from], 0);
}

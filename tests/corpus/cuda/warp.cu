// arch: sm_75 sm_80 sm_90a
// What lanes of a warp do together.

extern "C" __global__ void collectives(const int *in, unsigned int *out)
{
    int lane = threadIdx.x % 32;
    int value = in[threadIdx.x];
    unsigned int *to = out + 16 * threadIdx.x;
    to[0] = __shfl_sync(0xffffffff, value, 31 - lane);
    to[1] = __shfl_up_sync(0xffffffff, value, 3, 8);
    to[2] = __shfl_down_sync(0xffffffff, value, 2, 16);
    to[3] = __shfl_xor_sync(0xffffffff, value, 5);
    to[4] = __ballot_sync(0xffffffff, value & 1);
    to[5] = __any_sync(0xffffffff, value == 3) | __all_sync(0xffffffff, value < 1000) << 1;
    to[6] = __match_any_sync(0xffffffff, value % 4);
    int same;
    to[7] = __match_all_sync(0xffffffff, value / 1000, &same);
    to[8] = same;
    long long wide = ((long long)value << 33) + lane;
    wide = __shfl_xor_sync(0xffffffff, wide, 1);
    to[9] = (unsigned int)(wide >> 32);
    double half = value * 0.5;
    half = __shfl_down_sync(0xffffffff, half, 1);
    to[10] = (unsigned int)(long long)(half * 2);
    to[11] = 0;
    if (lane % 3 == 0) {
        unsigned int members = __activemask();
        to[11] = __popc(members) * 100 + __popc(members & ((1u << lane) - 1));
        to[11] += __shfl_sync(members, value, 0) << 16;
    }
    __syncwarp();
#if __CUDA_ARCH__ >= 800
    to[12] = __reduce_add_sync(0xffffffff, value);
    to[13] = __reduce_max_sync(0xffffffff, (unsigned)value);
    to[14] = __reduce_min_sync(0xffffffff, value);
    to[15] = __reduce_xor_sync(0xffffffff, (unsigned)value);
#else
    unsigned int sum = value, top = value, bits = value;
    int low = value;
    for (int mask = 16; mask > 0; mask /= 2) {
        sum += __shfl_xor_sync(0xffffffff, sum, mask);
        top = max(top, __shfl_xor_sync(0xffffffff, top, mask));
        low = min(low, __shfl_xor_sync(0xffffffff, low, mask));
        bits ^= __shfl_xor_sync(0xffffffff, bits, mask);
    }
    to[12] = sum;
    to[13] = top;
    to[14] = low;
    to[15] = bits;
#endif
}

// An inclusive scan of a block by warps.
extern "C" __global__ void scan(int *data)
{
    __shared__ int totals[32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int value = data[threadIdx.x];
    for (int offset = 1; offset < 32; offset *= 2) {
        int below = __shfl_up_sync(0xffffffff, value, offset);
        if (lane >= offset)
            value += below;
    }
    if (lane == 31)
        totals[warp] = value;
    __syncthreads();
    if (warp == 0) {
        int total = lane < blockDim.x / 32 ? totals[lane] : 0;
        for (int offset = 1; offset < 32; offset *= 2) {
            int below = __shfl_up_sync(0xffffffff, total, offset);
            if (lane >= offset)
                total += below;
        }
        totals[lane] = total;
    }
    __syncthreads();
    if (warp > 0)
        value += totals[warp - 1];
    data[threadIdx.x] = value;
}

// Lanes that want the same counter add once for all.
extern "C" __global__ void aggregated(const int *keys, int *counters, int *places)
{
    int key = keys[threadIdx.x];
    unsigned int peers = __match_any_sync(__activemask(), key);
    int leader = __ffs(peers) - 1;
    int rank = __popc(peers & ((1u << (threadIdx.x % 32)) - 1));
    int base = 0;
    if (rank == 0)
        base = atomicAdd(counters + key, __popc(peers));
    base = __shfl_sync(peers, base, leader);
    places[threadIdx.x] = base + rank;
}

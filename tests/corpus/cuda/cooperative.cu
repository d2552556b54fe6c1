// arch: sm_75 sm_80 sm_90a
// Cooperative groups: tiles, coalesced groups, reductions and scans, clocks.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>

namespace cg = cooperative_groups;

extern "C" __global__ void tiles(const int *in, int *out)
{
    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<8> tile = cg::tiled_partition<8>(block);
    int value = in[block.thread_rank()];
    int *to = out + 8 * block.thread_rank();
    to[0] = cg::reduce(tile, value, cg::plus<int>());
    to[1] = cg::reduce(tile, value, cg::greater<int>());
    to[2] = tile.shfl(value, 3) + tile.thread_rank() + 1000 * tile.meta_group_rank();
    to[3] = tile.ballot(value % 2);
    to[4] = cg::inclusive_scan(tile, value);
    to[5] = cg::exclusive_scan(tile, value, cg::bit_xor<int>());
    to[6] = 0;
    if (value % 3 == 0) {
        cg::coalesced_group active = cg::coalesced_threads();
        to[6] = active.size() * 100 + active.thread_rank();
    }
    cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);
    auto parity = cg::labeled_partition(warp, value % 2);
    to[7] = cg::reduce(parity, value, cg::plus<int>());
    block.sync();
}

// Tiles wider than a warp, and of a float.
extern "C" __global__ void block_tiles(const float *in, float *out)
{
    __shared__ cg::block_tile_memory<256> scratch;
    cg::thread_block block = cg::this_thread_block(scratch);
    auto tile = cg::tiled_partition<64>(block);
    float value = in[block.thread_rank()];
    float sum = cg::reduce(tile, value, cg::plus<float>());
    tile.sync();
    out[block.thread_rank()] = sum + tile.thread_rank();
}

extern "C" __global__ void clocks(long long *out)
{
    long long start = clock64();
    unsigned long long now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    __nanosleep(100);
    unsigned int sm, slot;
    asm volatile("mov.u32 %0, %smid;" : "=r"(sm));
    asm volatile("mov.u32 %0, %warpid;" : "=r"(slot));
    long long stop = clock64();
    out[threadIdx.x] = (stop > start) + 2 * (now != ~0ull) + 4 * (sm < 1024) + 8 * (slot < 64) + 16 * (clock() >= 0 || true);
}

// arch: sm_75 sm_90a
// Block-wide primitives of CUB, as programs use them.
#include <cub/block/block_histogram.cuh>
#include <cub/block/block_load.cuh>
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/block/block_store.cuh>
#include <cub/warp/warp_reduce.cuh>

extern "C" __global__ void sort(const unsigned int *in, unsigned int *out)
{
    typedef cub::BlockLoad<unsigned int, 128, 4, cub::BLOCK_LOAD_TRANSPOSE> Load;
    typedef cub::BlockRadixSort<unsigned int, 128, 4> Sort;
    typedef cub::BlockStore<unsigned int, 128, 4, cub::BLOCK_STORE_TRANSPOSE> Store;
    __shared__ union {
        typename Load::TempStorage load;
        typename Sort::TempStorage sort;
        typename Store::TempStorage store;
    } shared;
    unsigned int keys[4];
    Load(shared.load).Load(in + blockIdx.x * 512, keys);
    __syncthreads();
    Sort(shared.sort).Sort(keys);
    __syncthreads();
    Store(shared.store).Store(out + blockIdx.x * 512, keys);
}

extern "C" __global__ void scan(const int *in, int *out, int *total)
{
    typedef cub::BlockScan<int, 128, cub::BLOCK_SCAN_RAKING> Scan;
    __shared__ typename Scan::TempStorage shared;
    int items[2] = {in[2 * threadIdx.x], in[2 * threadIdx.x + 1]}, sum;
    Scan(shared).ExclusiveSum(items, items, sum);
    out[2 * threadIdx.x] = items[0];
    out[2 * threadIdx.x + 1] = items[1];
    if (threadIdx.x == 0)
        *total = sum;
}

extern "C" __global__ void reduce(const double *in, double *out)
{
    typedef cub::BlockReduce<double, 96, cub::BLOCK_REDUCE_WARP_REDUCTIONS> Reduce;
    __shared__ typename Reduce::TempStorage shared;
    double sum = Reduce(shared).Sum(in[threadIdx.x]);
    if (threadIdx.x == 0)
        *out = sum;
}

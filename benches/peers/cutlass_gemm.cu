// Products by CUTLASS for sm_80, as a peer of our kernels for it: `device::Gemm`, whose kernels copy
// by `cp.async` and multiply by `mma.sync`. `scripts/gpu/cutlass_gemm` compiles this once for each
// tile and type (the macros below), and once with TABLE for what Rust loads.

#include <cuda_runtime.h>

// One compiled tile of one type.
struct Product {
  // `128x256x32_s4_r8`: tile, stages, tiles of a row that are computed together.
  const char* name;
  bool is_bf16;
  // Of as many tiles.
  int raster;
  // d[m, n] = a[m, k] @ b[n, k]^T, row-major. 0, or why not (cutlass::Status).
  int (*launch)(int raster, int m, int n, int k, const void* a, const void* b, void* d,
                cudaStream_t stream);
};

#ifdef TABLE

// The script's: `PRODUCTS(ENTRY)` names all of them.
#include "products.h"

#define DECLARE(function, name, is_bf16, raster) \
  int function(int, int, int, int, const void*, const void*, void*, cudaStream_t);
#define ENTRY(function, name, is_bf16, raster) {name, is_bf16, raster, function},
PRODUCTS(DECLARE)
static const Product products[] = {PRODUCTS(ENTRY)};
static const unsigned count = sizeof(products) / sizeof(*products);

extern "C" {

unsigned cutlass_gemm_count() { return count; }

const char* cutlass_gemm_version() { return VERSION; }

const char* cutlass_gemm_name(unsigned idx) { return products[idx].name; }

int cutlass_gemm_is_bf16(unsigned idx) { return products[idx].is_bf16; }

int cutlass_gemm_launch(unsigned idx, int m, int n, int k, const void* a, const void* b, void* d,
                        void* stream) {
  const Product& product = products[idx];
  return product.launch(product.raster, m, n, k, a, b, d, static_cast<cudaStream_t>(stream));
}
}

#else

#include <cutlass/cutlass.h>
#include <cutlass/gemm/device/gemm.h>

namespace {

int raster_log = 0;

// The library's, but for the tiles of a row that are computed together: chosen at run time, which
// only the host needs to know, so that one kernel serves all.
struct Raster : cutlass::gemm::threadblock::GemmIdentityThreadblockSwizzle<8> {
  using Base = cutlass::gemm::threadblock::GemmIdentityThreadblockSwizzle<8>;
  using Base::Base;

  static int get_log_tile(cutlass::gemm::GemmCoord) { return raster_log; }

  static dim3 get_grid_shape(cutlass::gemm::GemmCoord tiles) {
    int together = 1 << raster_log;
    return dim3(tiles.m() * together, (tiles.n() + together - 1) / together, tiles.k());
  }
};

using Gemm = cutlass::gemm::device::Gemm<
    ELEMENT, cutlass::layout::RowMajor, ELEMENT, cutlass::layout::ColumnMajor,  //
    ELEMENT, cutlass::layout::RowMajor, float,                                  //
    cutlass::arch::OpClassTensorOp, cutlass::arch::Sm80,                        //
    cutlass::gemm::GemmShape<TILE_M, TILE_N, TILE_K>,                           //
    cutlass::gemm::GemmShape<64, 64, TILE_K>,                                   //
    cutlass::gemm::GemmShape<16, 8, 16>,                                        //
    cutlass::epilogue::thread::LinearCombination<ELEMENT, 8, float, float>,     //
    Raster, STAGES>;

}  // namespace

int FUNCTION(int raster, int m, int n, int k, const void* a, const void* b, void* d,
             cudaStream_t stream) {
  raster_log = 0;
  while ((1 << raster_log) < raster) {
    raster_log++;
  }
  auto* in_a = static_cast<const ELEMENT*>(a);
  auto* in_b = static_cast<const ELEMENT*>(b);
  auto* out = static_cast<ELEMENT*>(d);
  typename Gemm::Arguments arguments({m, n, k}, {in_a, k}, {in_b, k}, {out, n}, {out, n}, {1.f, 0.f});
  cutlass::Status status = Gemm::can_implement(arguments);
  if (status == cutlass::Status::kSuccess) {
    status = Gemm()(arguments, nullptr, stream);
  }
  return static_cast<int>(status);
}

#endif

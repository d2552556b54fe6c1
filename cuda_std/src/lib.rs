//! The device library: write GPU kernels in Rust and compile them with stock rustc.
//!
//! All inline PTX of warpsmith is in this crate. A crate of kernels starts with
//!
//! ```
//! #![cfg_attr(target_arch = "nvptx64", no_std, feature(abi_ptx))]
//! use cuda_std::prelude::*;
//! ```
//!
//! A panic (`assert!`, an index out of bounds) becomes a trap: the launch ends and the host gets an
//! error. A panic prints nothing; [`println!`] does.
//!
//! | to | see |
//! |---|---|
//! | mark a kernel's entry point | [`macro@kernel`] |
//! | write a kernel without `unsafe` | [`safe`] |
//! | get thread and block indices, synchronise the block | [`thread`] |
//! | allocate shared memory | [`shared_array!`], [`dynamic_shared!`] |
//! | cooperate in a warp, a block, a grid | [`warp`], [`block`], [`barrier`], [`grid`], [`atomic`] |
//! | read a `static` that the host writes | [`Global`] |
//! | compute | [`math`], [`convert`], [`dot`], [`bits`] |
//! | apply a function to every element of tensors | [`map`](mod@map), [`walk`] |
//! | write a function that the host composes into kernels at run time | [`macro@fragment`], [`hole!`] |
//! | index into a by-value struct parameter at run time | [`param`] |
//! | make vector accesses of 8 and 16 bytes, or typed element accesses | [`mem`], [`element`] |
//! | build a producer/consumer pipeline for tensor cores | [`pipeline`], [`tile`], [`panels`], [`accumulator`] |
//! | find maxima, sums and exponentials of an accumulator's rows | [`accumulator_rows`] |
//! | process results before they are stored | [`epilogue`] |
//! | copy asynchronously | [`cp_async`], [`tma`], with [`mbarrier`] to wait |
//! | multiply on tensor cores | [`mma`] with [`ldmatrix`], [`wgmma`] |
//! | use Hopper's clusters, fences, register allocation, dependent launches | [`cluster`], [`fence`], [`elect`], [`regs`], [`grid`] |
//!
//! A *block* is a thread block (PTX's CTA). A *warpgroup* is four consecutive warps, the first of
//! which has an index that is a multiple of 4.
//!
//! # How an instruction is documented
//!
//! In the modules of the last three rows, each function is one PTX instruction, named as PTX names
//! it. The docs of a function that adds more, such as a predicate or a loop, state this. Its
//! documentation gives:
//!
//! - the PTX instruction and what it does;
//! - *Scope*: who executes it. "Thread" instructions may be executed by any subset of a warp's
//!   lanes. "Converged" means that all lanes of the warp execute the same instruction together, as
//!   PTX's `.aligned` demands;
//! - *Proxy*: whether it accesses memory through the generic or the async proxy (see [`fence`]);
//! - *Ordering*: which other memory accesses it orders, if any;
//! - *Since*: the oldest PTX ISA version and architecture that have it. A kernel that uses it
//!   declares that architecture, as in `#[kernel(arch = "sm_90a")]`.
//!
//! LLVM may duplicate or move `asm!` across branches unless it is marked convergent, which stock
//! rustc does not do. A function that "relies on cuda_builder to keep it convergent" is correct
//! only if the crate is built by cuda_builder, which adds the attribute.
//!
//! # On the host
//!
//! The crate also compiles for other targets than `nvptx64`, so that `cargo check` and clippy cover
//! kernels with the ordinary toolchain. There, a function that needs a GPU panics with its name.
//! Its documentation has the line "Panics: on the host".
#![cfg_attr(target_arch = "nvptx64", no_std)]
#![cfg_attr(
    target_arch = "nvptx64",
    feature(asm_experimental_arch, core_float_math, stdarch_nvptx)
)]
// On the device `cuda_std` itself uses its macros.
extern crate self as cuda_std;

#[macro_use]
mod host;

pub mod accumulator;
pub mod accumulator_rows;
pub mod atomic;
pub mod barrier;
pub mod bits;
pub mod block;
pub mod cluster;
pub mod convert;
pub mod cp_async;
pub mod dot;
pub mod elect;
pub mod element;
pub mod epilogue;
pub mod fence;
mod global;
pub mod grid;
pub mod hint;
pub mod hole;
pub mod ldmatrix;
pub mod map;
pub mod math;
pub mod mbarrier;
pub mod mem;
#[doc(hidden)]
pub mod meta;
pub mod mma;
pub mod panels;
pub mod param;
pub mod pipeline;
pub mod prelude;
pub mod print;
pub mod regs;
pub mod safe;
pub mod shared;
pub mod thread;
pub mod tile;
pub mod tma;
pub mod walk;
pub mod warp;
pub mod wgmma;

/// A parameter type that has a destructor, or is aligned to more than 8 bytes, is refused too:
/// ```compile_fail
/// #[cuda_std::kernel]
/// pub unsafe fn owns_something(x: Vec<f32>) {}
/// ```
/// ```compile_fail
/// #[repr(C, align(64))]
/// pub struct TensorMap([u64; 16]);
/// #[cuda_std::kernel]
/// pub unsafe fn over_aligned(map: TensorMap) {}
/// ```
/// ```compile_fail
/// #[repr(C)]
/// pub struct NotCopy(u32);
/// #[cuda_std::kernel]
/// pub unsafe fn one_for_all_threads(x: NotCopy) {}
/// ```
/// ```compile_fail
/// #[derive(Clone, Copy)]
/// pub struct NotReprC(u8, u64);
/// #[cuda_std::kernel]
/// pub unsafe fn without_a_layout(x: NotReprC) {}
/// ```
/// ```compile_fail
/// #[cuda_std::kernel]
/// pub unsafe fn tuple(x: (u32, u32)) {}
/// ```
/// ```compile_fail
/// #[cuda_std::kernel(max_threads = 2048)]
/// pub unsafe fn too_many_threads(x: *mut f32) {}
/// ```
/// ```compile_fail
/// #[cuda_std::kernel(cluster = (4, 4, 2))]
/// pub unsafe fn too_large_a_cluster(x: *mut f32) {}
/// ```
/// ```
/// #[repr(C)]
/// #[derive(Clone, Copy)]
/// pub struct Params(u64, [u32; 2]);
/// #[cuda_std::kernel(max_threads = 1024, cluster = (4, 2, 1))]
/// pub unsafe fn within_the_limits(x: *mut f32, params: Params, c: char, small: bool) {}
/// ```
/// ```
/// #[repr(C, align(64))]
/// pub struct TensorMap([u64; 16]);
/// #[cuda_std::kernel]
/// pub unsafe fn by_pointer(map: *const TensorMap) {}
/// ```
pub use cuda_std_macros::kernel;

pub use cuda_std_macros::fragment;

pub use global::Global;

/// Declares a struct that host and kernels share: `#[repr(C)]`, `Copy`, without padding. A safe kernel
/// takes it by value, and a launch holds the fields of both sides against each other.
///
/// ```
/// use cuda_std::prelude::*;
///
/// kernel_param! {
///     /// Parameters of a line.
///     pub struct Line { pub slope: f32, pub offset: f32 }
/// }
///
/// /// `y = slope * x + offset`.
/// #[kernel(requires = "x.len() >= y.len()", grid = "y")]
/// pub fn on_line(line: Line, x: &[f32], mut y: Disjoint<'_, f32, Index1>) {
///     let i = Index1::here();
///     if let Some(y) = y.get_mut(&i) {
///         *y = line.slope * x[i.get()] + line.offset;
///     }
/// }
/// ```
pub use abi::kernel_param;

/// What kernels and hosts agree on: layouts of fragments, swizzles, parameters of the library's own
/// kernels.
pub use abi;

/// A panic on the device traps: the launch fails and the host sees the error.
#[cfg(target_arch = "nvptx64")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: `trap` has no precondition.
    unsafe { core::arch::nvptx::trap() }
}

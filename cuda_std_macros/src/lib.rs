//! Macros of `cuda_std`, which re-exports them: depend on that crate, not on this one.
//!
//! - [`macro@kernel`] turns a function into a GPU entry point.
//! - [`macro@fragment`] turns a function into PTX text from which a host composes kernels at run
//!   time.
#![forbid(unsafe_code)]

mod attributes;
mod contract;
mod fragment;
mod generic;
mod kernel;
mod metadata;
mod names;
mod passed;
mod safe;

use proc_macro::TokenStream;

/// Makes a function an entry point of the GPU module.
///
/// ```text
/// #[kernel]
/// pub fn vector_add(a: &[f32], b: &[f32], c: Disjoint<'_, f32, Index1>) { .. }
///
/// #[kernel(max_threads = 256)]
/// pub unsafe fn vector_add(a: *const f32, b: *const f32, c: *mut f32, len: usize) { .. }
/// ```
///
/// # Attributes, all optional, each a constant expression
/// - `block = N`, `block = (x, y)` or `block = (x, y, z)`: the block of each launch has these extents
///   (`.reqntid`). It stands instead of `max_threads`.
/// - `max_threads = N`: no launch has more threads per block (`.maxntid`). ptxas may then use up to
///   `65536 / N` registers per thread, within the limit of the architecture.
/// - `min_blocks = N`: ptxas limits the registers so that this many blocks fit on an SM
///   (`.minnctapersm`). Requires `max_threads` or `block`.
/// - `cluster = (x, y, z)`: the cluster's dimensions in blocks (`.reqnctapercluster`), sm_90 and
///   newer.
/// - `dynamic_shared = N`: the least dynamic shared memory of a launch, in bytes. It stands in the
///   manifest alone, since PTX cannot express it. A launch with fewer bytes is refused where the
///   module was loaded with its manifest (`Device::load_built`), and elsewhere it is not.
/// - `arch = "sm_90a"`: the kernel uses instructions that older architectures lack. It is built for
///   this architecture only, whichever architectures a build asks for, so kernels for several
///   generations can be in one crate.
/// - `requires = ".."`, `grid = ".."`: what a launch has to meet, and its grid: the book, "Contracts".
/// - `allow_local`: the kernel may use local memory and spill registers, which a build otherwise refuses.
/// - `cooperative`: its blocks wait for each other, by flags or by a barrier of its own. The host
///   library launches it cooperatively (`cuda_std::grid::assert_cooperative`). A kernel with
///   `grid::sync` needs no attribute.
/// - `axpy_f32 = <f32, 4>`, once or more: an entry of this name, which calls the generic function with
///   these arguments. A generic function is not an entry itself. The other arguments may name its
///   parameters: `block = N`, `requires = "x.len() % N == 0"`.
///
/// # What it expands to
/// On `nvptx64`: a `#[no_mangle] extern "ptx-kernel"` function under its own name (so entry names
/// must be unique in a crate), and metadata for cuda_builder. On other targets: the plain function,
/// so that kernels can be type-checked and linted, and can call host implementations in tests.
///
/// The metadata is a static `__WARPSMITH_KERNEL_<name>` in section `.warpsmith.kernel`. Its bytes
/// are one JSON object, `{"name", "module", "params": [{"name", "type", "alias"}], "max_threads",
/// "min_blocks", "dynamic_shared_bytes", "arch", "cluster": [x, y, z], "block": [x, y, z], "requires", "grid",
/// "allow_local", "safe"}`, with `null` or nothing for what is not given. `alias` is that of a safe kernel's pointer: 1 if no thread writes
/// what it points to, 2 if nothing else points to it, else 0. Numbers are padded with spaces on the left, which JSON allows: their values come from
/// constant evaluation, after the macro has run.
///
/// # Parameters of a safe kernel
/// `cuda_std::safe` lists them. The entry is an `unsafe fn` of addresses and shapes, which makes the
/// parameters of them:
///
/// | Rust | PTX | in the manifest |
/// |---|---|---|
/// | `x: &[T]` | two `.u64` | `x: *const T`, `x.len: usize` |
/// | `x: View2<'_, T>` | `.u64`, `.b8[32]` | `x: *const T`, `x.shape: Shape2` |
/// | `y: Disjoint<'_, T, W>`, a `W` with one index | two `.u64` | `y: *mut T`, `y.len: usize` |
/// | `y: Disjoint<'_, T, W>`, a `W` with row and column | `.u64`, `.b8[32]` | `y: *mut T`, `y.shape: Shape2` |
/// | `y: Disjoint<'_, T, Index3>` | `.u64`, `.b8[48]` | `y: *mut T`, `y.shape: Shape3` |
/// | `Block<'_, THREADS>`, `SharedTile<'_, T, N>` | none | none |
/// | a number, a struct of `abi::kernel_param!` | as below | as below |
///
/// A launch passes memory of `u32` for `&[AtomicU32]`.
///
/// # Parameters of an unsafe kernel
/// How rustc 1.96 passes them (`extern "ptx-kernel"`):
///
/// | Rust | PTX |
/// |---|---|
/// | `*const T`, `*mut T`, `&T` | one `.u64`, `.ptr` |
/// | `&[T]` | two `.u64`: `x: *const T`, `x.len: usize` in the manifest |
/// | integers up to 64 bits, `f32`, `f64`, `bool`, `char` | one scalar of that width |
/// | `#[repr(C)]` struct, array in a struct | one `.b8[size]`, aligned as the type |
///
/// Sizes and alignments in the manifest come from the PTX signature.
///
/// # Compile errors
/// - A generic kernel without entries, one that is `async`, `const`, a method, variadic, that returns something or has an
///   ABI of its own.
/// - A safe kernel with raw pointers, with references other than `&[T]`, with named lifetimes.
/// - A name that is a raw identifier (`r#loop`).
/// - Parameters that are patterns, have a `cfg`, or are `impl Trait`.
/// - In an unsafe kernel, `&mut [T]` and pointers to slices, `str` or trait objects. They would become
///   two parameters: pass pointer and length.
/// - `&mut T`: every thread would hold the same one. Pass `*mut T`.
/// - What is not `Copy`, or is aligned to more than 8 bytes (rustc crashes from 32 on; a tensor map
///   is a `TensorMapParam`, or goes by pointer).
/// - What has no layout that host and device share: tuples, `Option`, structs without `#[repr(C)]`.
///   rustc says this as it does of an `extern` function: "not FFI-safe".
/// - An `arch` that cuda_builder cannot build for.
/// - Attributes that no launch can have: more than 1024 threads, 227 KiB of shared memory, 16 blocks
///   of a cluster.
#[proc_macro_attribute]
pub fn kernel(attribute: TokenStream, item: TokenStream) -> TokenStream {
    kernel::expand(attribute.into(), item.into())
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}

/// Makes a `fn` of scalars a fragment: a function that a host can insert into kernels at run time.
///
/// ```text
/// #[fragment]
/// pub fn f32_relu(x: f32) -> f32 { if x < 0.0 { 0.0 } else { x } }
/// ```
///
/// cuda_builder compiles it to a PTX `.func` and lists it in the manifest by name and signature.
/// The host (`warpsmith::fuse`) replaces a hole in a kernel (`cuda_std::hole!`) by the function's
/// instructions. Which functions are fused is thus decided at run time, without the cost of a call.
///
/// Parameters and result are `f32`, `f64`, `i32`, `i64`, `u32` or `u64`. The function may depend on
/// nothing but its arguments: cuda_builder refuses one that reads or writes memory (other than its
/// own constants), makes calls, or waits for other threads. Its name is a symbol and must be unique
/// in the crate; by convention it begins with the type that the function computes in.
///
/// `arch = "sm_89"`, as for [`macro@kernel`], builds it for that architecture only.
///
/// On `nvptx64` it expands to a `#[no_mangle] extern "C"` function and a static
/// `__WARPSMITH_FRAGMENT_<name>` in section `.warpsmith.fragment`, which holds the JSON object
/// `{"name", "module", "params": [{"name", "type"}], "result", "arch"}`. On other targets it
/// expands to the plain function, which tests can call.
#[proc_macro_attribute]
pub fn fragment(attribute: TokenStream, item: TokenStream) -> TokenStream {
    fragment::expand(attribute.into(), item.into())
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}

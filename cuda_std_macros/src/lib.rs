//! Macros of `cuda_std`, which re-exports them: depend on that crate, not on this one.
//!
//! - [`macro@kernel`] turns a function into a GPU entry point.
//! - [`macro@fragment`] turns a function into text that hosts compose kernels of.
#![forbid(unsafe_code)]

mod attributes;
mod fragment;
mod kernel;
mod metadata;

use proc_macro::TokenStream;

/// Makes an `unsafe fn` an entry point of the GPU module.
///
/// ```text
/// #[kernel(max_threads = 256)]
/// pub unsafe fn vector_add(a: *const f32, b: *const f32, c: *mut f32, len: usize) { .. }
/// ```
///
/// # Attributes, all optional, each a constant expression
/// - `max_threads = N`: no launch has more threads a block (`.maxntid`); lets ptxas use
///   `65536 / N` registers a thread.
/// - `min_blocks = N`: ptxas keeps registers low enough for that many blocks on a multiprocessor
///   (`.minnctapersm`). Needs `max_threads`.
/// - `cluster = (x, y, z)`: blocks of a cluster (`.reqnctapercluster`), sm_90 and newer.
/// - `dynamic_shared = N`: bytes of dynamic shared memory that a launch must give.
/// - `arch = "sm_90a"`: the kernel uses instructions that older architectures lack. It is built for
///   that architecture whatever a build is asked for, and for no other; so kernels for several
///   generations stand in one crate.
///
/// # What it expands to
/// On `nvptx64`: a `#[no_mangle] extern "ptx-kernel"` function under its own name (so entry names
/// are unique in a crate), and metadata for cuda_builder. Anywhere else: the plain function, so
/// that kernels type-check, lint and can call host implementations in tests.
///
/// The metadata is a static `__WARPSMITH_KERNEL_<name>` of bytes in section `.warpsmith.kernel`.
/// The bytes are one JSON object, `{"name", "module", "params": [{"name", "type"}],
/// "max_threads", "min_blocks", "dynamic_shared_bytes", "arch", "cluster": [x, y, z]}`, where what was not
/// given is `null`. Numbers are padded with spaces on the left (their values come from constant
/// evaluation, after the macro ran), which JSON allows.
///
/// # Parameters
/// How rustc 1.96 passes them (`extern "ptx-kernel"`):
///
/// | Rust | PTX |
/// |---|---|
/// | `*const T`, `*mut T`, `&T`, `&mut T` | one `.u64`, `.ptr` |
/// | integers up to 64 bits, `f32`, `f64`, `bool`, `char` | one scalar of that width |
/// | `#[repr(C)]` struct, array in a struct | one `.b8[size]`, aligned as the type |
///
/// Sizes and alignments in the manifest come from the PTX signature.
///
/// # Compile errors
/// A kernel that is generic, `async`, `const`, a method, safe, variadic, that returns something or
/// has an ABI of its own; parameters that are patterns, slices or `str` references (they would
/// become two parameters: pass pointer and length), `impl Trait`, own something (`Drop`), or are
/// aligned to more than 8 bytes (rustc crashes from 32 on; a tensor map goes by pointer).
#[proc_macro_attribute]
pub fn kernel(attribute: TokenStream, item: TokenStream) -> TokenStream {
    kernel::expand(attribute.into(), item.into())
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}

/// Makes a `fn` of scalars a fragment: a function that a host composes kernels of, at run time.
///
/// ```text
/// #[fragment]
/// pub fn f32_relu(x: f32) -> f32 { if x < 0.0 { 0.0 } else { x } }
/// ```
///
/// cuda_builder compiles it to a PTX `.func` and lists it in the manifest, by name and signature. A
/// host (`warpsmith::fuse`) puts the function's instructions in the place of a hole of a kernel
/// (`cuda_std::hole!`); so what is fused is known at run time only, and yet nothing is called.
///
/// Parameters and result are `f32`, `f64`, `i32`, `i64`, `u32` or `u64`. The function is one of its
/// arguments and nothing else: cuda_builder refuses one that reads or writes memory (but for its own
/// constants), that calls, or that waits for other threads. Its name is a symbol: unique in a crate,
/// and by custom begins with the type that it computes in.
///
/// `arch = "sm_89"` as for [`macro@kernel`]: it is built for that architecture alone.
///
/// On `nvptx64` it expands to a `#[no_mangle] extern "C"` function and a static
/// `__WARPSMITH_FRAGMENT_<name>` in section `.warpsmith.fragment`, which holds the JSON object
/// `{"name", "module", "params": [{"name", "type"}], "result", "arch"}`. Anywhere else: the plain
/// function, which tests call.
#[proc_macro_attribute]
pub fn fragment(attribute: TokenStream, item: TokenStream) -> TokenStream {
    fragment::expand(attribute.into(), item.into())
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}

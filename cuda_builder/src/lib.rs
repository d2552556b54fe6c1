//! Compiles a Rust crate of GPU kernels to PTX, with stock rustc and LLVM tools.
//!
//! ```no_run
//! use cuda_builder::{Arch, CudaBuilder};
//! CudaBuilder::new("kernels").arch(Arch::Sm75).copy_to("ptx").build()?;
//! # Ok::<(), cuda_builder::Error>(())
//! ```
//!
//! A build has these steps:
//!
//! 1. cargo and rustc compile the crate to unoptimised bitcode, and `core` once for all crates.
//! 2. llvm-link links it to one module.
//! 3. A typed pass over the module's text ([`ir`]) adds what rustc cannot express, such as launch
//!    bounds, shared memory, and that barriers are convergent.
//! 4. opt and llc compile each family of kernels to PTX.
//! 5. Passes over the PTX give every float operation an explicit rounding and every store a
//!    register of its width. LLVM's comments go, its names stay.
//! 6. The PTX is checked against rules ([`Refusal`]), assembled by ptxas where there is one, and
//!    described by a manifest ([`ptx_syntax::manifest`]).
//!
//! # In a build script
//! ```no_run
//! // build.rs of a crate of kernels
//! fn main() -> Result<(), cuda_builder::Error> {
//!     cuda_builder::CudaBuilder::new(".").build_script()
//! }
//! ```
//! writes `$OUT_DIR/ptx`, with the PTX, the manifest, and `kernels.rs`, which has a typed function for
//! the launch of each kernel. Tests and programs include it:
//! `mod kernels { include!(concat!(env!("OUT_DIR"), "/ptx/kernels.rs")); }`. The build script of
//! another crate names the folder of the kernels instead. The build of the kernels is separate: the
//! outer cargo's toolchain, flags and target folder do not affect it. If Cargo.toml of the kernels
//! has `links = "a-name"`, that build compiles neither their build script nor its dependencies.
//!
//! # Which toolchain
//! [`toolchain`] documents where the builder looks for its tools, and reports which are missing.
//! Users of finished PTX need none.
//!
//! # Reproducible builds
//! The same source gives the same PTX, wherever the crate is and whatever else is installed, as
//! long as rustc and LLVM are of the same release. The manifest records which releases these were.
#![forbid(unsafe_code)]

mod arch;
mod assemble;
mod builder;
mod codegen;
mod collectives;
mod comments;
mod compile;
mod divergence;
mod duplicates;
mod error;
mod features;
mod fold;
mod graph;
mod inlined;
pub mod ir;
mod launches;
mod link;
mod lint;
mod manifest;
mod narrow;
mod pipeline;
mod preamble;
mod process;
mod rounding;
mod sysroot;
pub mod toolchain;
mod uniform;
mod write;

pub use arch::{Arch, UnknownArch};
pub use assemble::{Assembled, Usage, assemble, assemble_to};
pub use builder::{BuildReport, BuiltModule, CudaBuilder, Profile, PtxasCheck};
pub use divergence::Threads;
pub use error::{Error, Step};
pub use launches::LAUNCHES;
pub use lint::{Parting, Place, Refusal};
pub use sysroot::CACHE_VARIABLE;
pub use write::MANIFEST;

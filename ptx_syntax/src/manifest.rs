//! `manifest.json`, which accompanies compiled modules and says how each entry is launched.
//!
//! cuda_builder writes it; the host checks a module against it when it loads the module.

use serde::{Deserialize, Serialize};

use crate::contract::{Grid, Requirement};

pub mod file;

/// Version of this format; a reader refuses any other.
pub const FORMAT: u32 = 4;

/// All modules that one build made.
///
/// [`file::File`] is how it is written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "file::File", into = "file::File")]
pub struct Manifest {
    /// The format's version, [`FORMAT`].
    pub format: u32,
    /// Name of the crate that the modules were built from, as Rust code names it (`my_kernels`).
    pub krate: String,
    /// The tools that built the modules.
    pub toolchain: Toolchain,
    /// One entry for each `.ptx` file.
    pub modules: Vec<ModuleEntry>,
}

/// Versions of the tools, as they print them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Toolchain {
    /// Version number in the first line of `rustc --version` (`1.96.0`).
    pub rustc: String,
    /// LLVM version of opt and llc (`22.1.2`).
    pub llvm: String,
    /// Version of cuda_builder.
    pub cuda_builder: String,
}

/// One PTX file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModuleEntry {
    /// Path relative to the manifest, with `/` as separator: `sm_75/gemm.ptx`.
    pub path: String,
    /// Architecture that it was compiled for, the lowest it runs on (`sm_75`); `sm_90a` runs on 9.0
    /// only.
    pub arch: String,
    /// FNV-1a hash (64 bits) of the PTX text, in hex.
    pub hash: String,
    /// Kernels in the file.
    pub kernels: Vec<KernelEntry>,
    /// Fragments in the file: functions from which the host composes kernels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fragments: Vec<FragmentEntry>,
}

/// A fragment: a `.func` whose instructions the host inserts into a hole of a kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FragmentEntry {
    /// Name of the function.
    pub name: String,
    /// Types of its parameters as in the Rust source (`f32`, `u64`).
    pub params: Vec<String>,
    /// Type of its result.
    pub result: String,
}

/// One kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelEntry {
    /// Entry name.
    pub name: String,
    /// The kernel of bf16 in the same file whose text is this kernel's but for the type
    /// ([`as_f16`](crate::twin::as_f16)); `None` if the file has a text of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text_of: Option<String>,
    /// Parameters in order.
    pub params: Vec<ParamEntry>,
    /// Most threads per block that it may be launched with; `None` if the kernel does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_threads: Option<u32>,
    /// Least number of blocks that an SM should hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_blocks: Option<u32>,
    /// Cluster size in blocks (x, y, z), if the kernel requires one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<[u32; 3]>,
    /// Static shared memory in bytes.
    pub static_shared_bytes: u32,
    /// Least dynamic shared memory of a launch in bytes, if the kernel states it: a launch with
    /// less is refused. Its PTX does not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dynamic_shared_bytes: Option<u32>,
    /// Registers per thread that ptxas assigned for `arch`, if a ptxas was available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registers: Option<u32>,
    /// Whether it is a `fn` without `unsafe`: whatever a launch passes, it accesses its arguments
    /// alone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub safe: bool,
    /// What each launch has to meet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requires: Vec<Requirement>,
    /// Block and grid of a launch that states none, if the kernel has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grid: Option<Grid>,
}

/// One kernel parameter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ParamEntry {
    /// Its name in the Rust source.
    pub name: String,
    /// Its type in the Rust source, without white space (`*const f32`, `GemmParams`).
    #[serde(rename = "type")]
    pub ty: String,
    /// Size in bytes.
    pub size: u32,
    /// Alignment in bytes.
    pub align: u32,
    /// `abi::KernelParam::LAYOUT` of a struct that a safe kernel takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout: Option<u64>,
}

/// FNV-1a hash (64 bits) of `text`: enough to notice that a file and its manifest are of different
/// builds.
pub fn hash(text: &str) -> String {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("{hash:016x}")
}

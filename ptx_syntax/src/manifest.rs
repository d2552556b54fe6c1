//! `manifest.json`: what stands beside compiled modules and says of each entry how to launch it.
//!
//! cuda_builder writes it, the host holds a module against it when it loads.

use serde::{Deserialize, Serialize};

/// Version of this format; a reader refuses any other.
pub const FORMAT: u32 = 1;

/// All modules that one build made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// [`FORMAT`].
    pub format: u32,
    /// What built it.
    pub toolchain: Toolchain,
    /// One for each `.ptx` file.
    pub modules: Vec<ModuleEntry>,
}

/// Versions of the tools, as they print them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Toolchain {
    /// First line of `rustc --version`, the version number alone (`1.96.0`).
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
    /// Path relative to the manifest, with `/`: `sm_75/gemm.ptx`.
    pub path: String,
    /// Architecture it was compiled for: the least it runs on (`sm_75`); `sm_90a` runs on 9.0 only.
    pub arch: String,
    /// FNV-1a 64 of the PTX text, in hex.
    pub hash: String,
    /// Kernels in it.
    pub kernels: Vec<KernelEntry>,
    /// Fragments in it: functions that hosts compose kernels of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fragments: Vec<FragmentEntry>,
}

/// One fragment: a `.func` whose instructions a host puts into a kernel's hole.
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelEntry {
    /// Entry name.
    pub name: String,
    /// Parameters in order.
    pub params: Vec<ParamEntry>,
    /// Most threads of a block that it may be launched with; `None` where the kernel did not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_threads: Option<u32>,
    /// Fewest blocks a multiprocessor should hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_blocks: Option<u32>,
    /// Cluster extents, where the kernel demands them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<[u32; 3]>,
    /// Bytes of statically declared shared memory.
    pub static_shared_bytes: u32,
    /// Bytes of dynamic shared memory it must be launched with, where the kernel said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dynamic_shared_bytes: Option<u32>,
    /// Registers a thread, by ptxas for `arch`, where a ptxas was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registers: Option<u32>,
}

/// One kernel parameter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ParamEntry {
    /// Its name in the Rust source.
    pub name: String,
    /// Its type in the Rust source, without white space (`*const f32`, `GemmParams`).
    #[serde(rename = "type")]
    pub ty: String,
    /// Bytes.
    pub size: u32,
    /// Alignment in bytes.
    pub align: u32,
}

/// FNV-1a 64 of `text`: enough to notice that a file and its manifest are of different builds.
pub fn hash(text: &str) -> String {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("{hash:016x}")
}

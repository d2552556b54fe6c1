//! The metadata of `#[kernel]`.
//!
//! The macro emits one static for each kernel in section `.warpsmith.kernel`; its bytes are one
//! JSON object (documented at `cuda_std::kernel`). The statics are read here and removed from the
//! module, as are `llvm.used` and `llvm.compiler.used`, so that only kernels and what they reach
//! get into the PTX.

use ptx_syntax::contract::{Grid, Requirement};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Global, Item, Module};
use crate::arch::{Arch, UnknownArch};

/// Section of the metadata statics.
pub const SECTION: &str = ".warpsmith.kernel";

/// Metadata of one kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kernel {
    /// Entry name.
    pub name: String,
    /// `module_path!()` of the kernel.
    pub module: String,
    /// Parameters in order.
    pub params: Vec<KernelParam>,
    /// The largest number of threads in a block.
    pub max_threads: Option<u32>,
    /// The number of blocks that an SM should be able to hold at least.
    pub min_blocks: Option<u32>,
    /// The cluster's dimensions in blocks.
    pub cluster: Option<[u32; 3]>,
    /// The only extents of a block in threads that it is launched with.
    #[serde(default)]
    pub block: Option<[u32; 3]>,
    /// Least dynamic shared memory of a launch, in bytes.
    pub dynamic_shared_bytes: Option<u32>,
    /// The only architecture that it is built for; `None` for those that the build asks for.
    #[serde(default)]
    pub arch: Option<Arch>,
    /// Whether it is a `fn` without `unsafe`.
    #[serde(default)]
    pub safe: bool,
    /// Whether it may use local memory and spill registers.
    #[serde(default)]
    pub allow_local: bool,
    /// What each launch has to meet.
    #[serde(default)]
    pub requires: Vec<Requirement>,
    /// Block and grid of a launch that states none.
    #[serde(default)]
    pub grid: Option<Grid>,
}

/// A parameter as the source declares it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelParam {
    /// Its name.
    pub name: String,
    /// Its type, without white space.
    #[serde(rename = "type")]
    pub ty: String,
    /// Of a safe kernel's pointer: 1 if no thread writes what it points to, 2 if nothing else points to
    /// it, else 0.
    #[serde(default)]
    pub alias: u8,
    /// Of a safe kernel's struct: `abi::KernelParam::LAYOUT`.
    #[serde(default)]
    pub layout: Option<u64>,
}

/// Why metadata could not be read.
#[derive(Debug, thiserror::Error)]
pub enum MetadataError {
    /// The static does not hold plain bytes.
    #[error("the metadata static `{symbol}` is not an array of bytes: `{definition}`")]
    NotBytes {
        /// The static.
        symbol: String,
        /// Its definition in IR.
        definition: String,
    },
    /// The bytes are not the JSON that `#[kernel]` or `#[fragment]` writes.
    #[error(
        "the metadata static `{symbol}` does not hold the JSON of a kernel or fragment ({source}); \
         cuda_std and cuda_builder must be of the same release: `{text}`"
    )]
    NotJson {
        /// The static.
        symbol: String,
        /// What it holds.
        text: String,
        /// What serde says.
        source: serde_json::Error,
    },
    /// A kernel or a fragment for an architecture that there is not.
    #[error("`{name}`: arch = {source}")]
    UnknownArch {
        /// The kernel or fragment.
        name: String,
        /// The architecture given, and those there are.
        source: UnknownArch,
    },
    /// A kernel was described that the crate does not define.
    #[error("`{kernel}` has metadata but no `extern \"ptx-kernel\"` function of that name")]
    NoFunction {
        /// Kernel name of the metadata.
        kernel: String,
    },
    /// A launch bound that no device accepts.
    #[error("kernel `{kernel}`: {what} is {got}; it must be {want}")]
    OutOfRange {
        /// The kernel.
        kernel: String,
        /// The attribute.
        what: &'static str,
        /// Its value.
        got: u32,
        /// Allowed values.
        want: &'static str,
    },
    /// `min_blocks` without `max_threads` does nothing.
    #[error("kernel `{kernel}`: min_blocks = {min_blocks} has no effect without max_threads")]
    MinBlocksAlone {
        /// The kernel.
        kernel: String,
        /// The value given.
        min_blocks: u32,
    },
}

/// Reads and removes the metadata; the kernels are sorted by name. A kernel without metadata (a
/// plain `extern "ptx-kernel"` function) gets an entry with only its name, in module `crate_name`.
///
/// # Errors
/// [`MetadataError`]
pub fn extract(module: &mut Module, crate_name: &str) -> Result<Vec<Kernel>, MetadataError> {
    let mut kernels = Vec::new();
    for global in module
        .globals()
        .filter(|global| in_section(global, SECTION))
    {
        let kernel: Kernel = read(global)?;
        check(&kernel)?;
        kernels.push(kernel);
    }
    module.items.retain(|item| match item {
        Item::Global(global) => {
            !in_section(global, SECTION)
                && !matches!(global.name.as_str(), "llvm.used" | "llvm.compiler.used")
        }
        _ => true,
    });
    for kernel in &kernels {
        if !module
            .function(&kernel.name)
            .is_some_and(|function| function.is_kernel())
        {
            return Err(MetadataError::NoFunction {
                kernel: kernel.name.clone(),
            });
        }
    }
    for function in module.functions().filter(|function| function.is_kernel()) {
        if kernels.iter().all(|kernel| kernel.name != function.name) {
            kernels.push(bare(&function.name, crate_name));
        }
    }
    kernels.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(kernels)
}

pub(super) fn in_section(global: &Global, section: &str) -> bool {
    global
        .definition
        .contains(&format!(", section \"{section}\""))
}

fn bare(name: &str, crate_name: &str) -> Kernel {
    Kernel {
        name: name.to_owned(),
        module: crate_name.to_owned(),
        ..Kernel::default()
    }
}

/// Parses the JSON object that a metadata static holds.
pub(super) fn read<T: DeserializeOwned>(global: &Global) -> Result<T, MetadataError> {
    let bytes = constant_bytes(&global.definition).ok_or_else(|| MetadataError::NotBytes {
        symbol: global.name.clone(),
        definition: global.definition.clone(),
    })?;
    let not_json = |source| MetadataError::NotJson {
        symbol: global.name.clone(),
        text: String::from_utf8_lossy(&bytes).into_owned(),
        source,
    };
    let value: Value = serde_json::from_slice(&bytes).map_err(not_json)?;
    let word = |key: &str| value.get(key).and_then(Value::as_str);
    if let Some(Err(source)) = word("arch").map(str::parse::<Arch>) {
        let name = word("name").unwrap_or(&global.name).to_owned();
        return Err(MetadataError::UnknownArch { name, source });
    }
    T::deserialize(value).map_err(not_json)
}

/// Bytes of the one `c".."` literal in a definition; `\xx` is an escaped byte.
pub(super) fn constant_bytes(definition: &str) -> Option<Vec<u8>> {
    let (_, rest) = definition.split_once(" c\"")?;
    let (literal, _) = rest.split_once('"')?;
    let mut bytes = Vec::with_capacity(literal.len());
    let mut rest = literal.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || char::from(rest.next()?).to_digit(16);
        bytes.push(u8::try_from(digit()? * 16 + digit()?).ok()?);
    }
    Some(bytes)
}

fn check(kernel: &Kernel) -> Result<(), MetadataError> {
    let out_of_range = |what, got, want| {
        Err(MetadataError::OutOfRange {
            kernel: kernel.name.clone(),
            what,
            got,
            want,
        })
    };
    match (kernel.max_threads, kernel.min_blocks) {
        (Some(got), _) if got == 0 || got > 1024 => {
            return out_of_range("max_threads", got, "1 to 1024");
        }
        (_, Some(got)) if got == 0 || got > 32 => {
            return out_of_range("min_blocks", got, "1 to 32");
        }
        (None, Some(min_blocks)) if kernel.block.is_none() => {
            return Err(MetadataError::MinBlocksAlone {
                kernel: kernel.name.clone(),
                min_blocks,
            });
        }
        _ => {}
    }
    let blocks = kernel
        .cluster
        .map(|[x, y, z]| x.saturating_mul(y).saturating_mul(z));
    match blocks {
        Some(got) if got == 0 || got > 16 => {
            out_of_range("the number of blocks in a cluster", got, "1 to 16")
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const META: &str = concat!(
        r#"@llvm.used = appending global [1 x ptr] [ptr @M], section "llvm.metadata""#,
        "\n",
        r#"@M = constant [9 x i8] c"{\22name\22:\22k\22,\22module\22:\22c::gemm\22,"#,
        r#"\22params\22:[{\22name\22:\22x\22,\22type\22:\22*const f32\22}],"#,
        r#"\22max_threads\22:       256,\22min_blocks\22:null,\22dynamic_shared_bytes\22:null,"#,
        r#"\22cluster\22:[         2,         1,         1]}", section ".warpsmith.kernel", align 1"#,
        "\ndefine ptx_kernel void @k(ptr %0) #0 {\n  ret void\n}\n",
    );

    #[test]
    fn metadata_is_read_and_removed() {
        let mut module = Module::parse(META);
        let kernels = extract(&mut module, "c").expect("the metadata is valid");
        assert_eq!(kernels.len(), 1);
        assert_eq!(kernels[0].max_threads, Some(256));
        assert_eq!(kernels[0].cluster, Some([2, 1, 1]));
        assert_eq!(kernels[0].params[0].ty, "*const f32");
        assert_eq!(module.globals().count(), 0);
    }

    #[test]
    fn a_kernel_without_metadata_is_still_a_kernel() {
        let mut module = Module::parse("define ptx_kernel void @bare() {\n  ret void\n}\n");
        let kernels = extract(&mut module, "c").expect("no metadata is no error");
        assert_eq!(
            (kernels[0].name.as_str(), kernels[0].module.as_str()),
            ("bare", "c")
        );
    }

    #[test]
    fn nonsense_is_refused_with_its_value() {
        let extract = |text: &str| {
            let message = extract(&mut Module::parse(text), "c").map_err(|error| error.to_string());
            message.expect_err("must be refused")
        };
        let two_thousand = extract(&META.replace("   256", "  2048"));
        assert!(two_thousand.contains("max_threads is 2048; it must be 1 to 1024"));
        assert!(extract(&META.replace("void @k(", "void @other(")).contains("`k` has metadata"));
        assert!(extract(&META.replace("module", "modul")).contains("unknown field `modul`"));
        let arch = r#"\22arch\22:\22sm_12\22,\22cluster"#;
        let unknown = extract(&META.replace(r"\22cluster", arch));
        assert!(
            unknown.starts_with("`k`: arch = `sm_12` is not an architecture")
                && unknown.contains("sm_90a"),
            "{unknown}"
        );
        assert!(extract(&META.replace("c\"{", "x\"{")).contains("not an array of bytes"));
    }
}

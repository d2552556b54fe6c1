//! The manifest as it stands in its file, where kernels of the same parameters share them: a family
//! has dozens, and the parameters were three quarters of the file.

use serde::{Deserialize, Serialize};

use crate::contract::{Grid, Requirement};

use super::{FragmentEntry, KernelEntry, Manifest, ModuleEntry, ParamEntry, Toolchain};

/// `manifest.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// [`FORMAT`](super::FORMAT).
    pub format: u32,
    /// What it was built from.
    #[serde(rename = "crate")]
    pub krate: String,
    /// What built it.
    pub toolchain: Toolchain,
    /// Parameters in order, each list once.
    pub signatures: Vec<Vec<Param>>,
    /// One for each `.ptx` file.
    pub modules: Vec<Module>,
}

/// A [`ModuleEntry`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the fields are those of `ModuleEntry`")]
pub struct Module {
    pub path: String,
    pub arch: String,
    pub hash: String,
    pub kernels: Vec<Kernel>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fragments: Vec<FragmentEntry>,
}

/// A [`ParamEntry`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the other fields are those of `ParamEntry`")]
pub struct Param {
    pub name: String,
    #[serde(rename = "type")]
    pub ty: String,
    /// Left out if it is that of an address, as is the alignment.
    #[serde(default = "address_bytes", skip_serializing_if = "is_of_address")]
    pub size: u32,
    #[serde(default = "address_bytes", skip_serializing_if = "is_of_address")]
    pub align: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout: Option<u64>,
}

impl From<ParamEntry> for Param {
    fn from(entry: ParamEntry) -> Self {
        let ParamEntry {
            name,
            ty,
            size,
            align,
            layout,
        } = entry;
        Self {
            name,
            ty,
            size,
            align,
            layout,
        }
    }
}

impl From<Param> for ParamEntry {
    fn from(param: Param) -> Self {
        let Param {
            name,
            ty,
            size,
            align,
            layout,
        } = param;
        Self {
            name,
            ty,
            size,
            align,
            layout,
        }
    }
}

const fn address_bytes() -> u32 {
    8
}

fn is_of_address(bytes: &u32) -> bool {
    *bytes == address_bytes()
}

fn is_zero(bytes: &u32) -> bool {
    *bytes == 0
}

/// A [`KernelEntry`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the other fields are those of `KernelEntry`")]
pub struct Kernel {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text_of: Option<String>,
    /// Which of the signatures its parameters are.
    pub signature: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_threads: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_blocks: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<[u32; 3]>,
    /// Left out if there is none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub static_shared_bytes: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dynamic_shared_bytes: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registers: Option<u32>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub safe: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requires: Vec<Requirement>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grid: Option<Grid>,
}

impl From<Manifest> for File {
    fn from(manifest: Manifest) -> Self {
        let mut signatures: Vec<Vec<Param>> = Vec::new();
        let mut kernel = |kernel: KernelEntry| {
            let params: Vec<Param> = kernel.params.into_iter().map(Param::from).collect();
            let known = signatures.iter().position(|own| *own == params);
            let signature = known.unwrap_or_else(|| {
                signatures.push(params);
                signatures.len() - 1
            });
            Kernel {
                name: kernel.name,
                text_of: kernel.text_of,
                signature,
                max_threads: kernel.max_threads,
                min_blocks: kernel.min_blocks,
                cluster: kernel.cluster,
                static_shared_bytes: kernel.static_shared_bytes,
                dynamic_shared_bytes: kernel.dynamic_shared_bytes,
                registers: kernel.registers,
                safe: kernel.safe,
                requires: kernel.requires,
                grid: kernel.grid,
            }
        };
        let module = |module: ModuleEntry| Module {
            path: module.path,
            arch: module.arch,
            hash: module.hash,
            kernels: module.kernels.into_iter().map(&mut kernel).collect(),
            fragments: module.fragments,
        };
        let modules = manifest.modules.into_iter().map(module).collect();
        Self {
            format: manifest.format,
            krate: manifest.krate,
            toolchain: manifest.toolchain,
            signatures,
            modules,
        }
    }
}

impl TryFrom<File> for Manifest {
    type Error = String;

    fn try_from(file: File) -> Result<Self, String> {
        let signatures = &file.signatures;
        let kernel = |kernel: Kernel| {
            let params = signatures.get(kernel.signature).ok_or_else(|| {
                let (name, got, want) = (&kernel.name, kernel.signature, signatures.len());
                format!("`{name}` has signature {got}, want one of {want}, counted from 0")
            })?;
            Ok(KernelEntry {
                params: params.iter().cloned().map(ParamEntry::from).collect(),
                name: kernel.name,
                text_of: kernel.text_of,
                max_threads: kernel.max_threads,
                min_blocks: kernel.min_blocks,
                cluster: kernel.cluster,
                static_shared_bytes: kernel.static_shared_bytes,
                dynamic_shared_bytes: kernel.dynamic_shared_bytes,
                registers: kernel.registers,
                safe: kernel.safe,
                requires: kernel.requires,
                grid: kernel.grid,
            })
        };
        let module = |module: Module| {
            let kernels = module.kernels.into_iter().map(kernel);
            Ok(ModuleEntry {
                path: module.path,
                arch: module.arch,
                hash: module.hash,
                kernels: kernels.collect::<Result<_, String>>()?,
                fragments: module.fragments,
            })
        };
        let modules = file.modules.into_iter().map(module);
        Ok(Self {
            format: file.format,
            krate: file.krate,
            toolchain: file.toolchain,
            modules: modules.collect::<Result<_, String>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Manifest {
        let param = |name: &str| ParamEntry {
            name: name.to_owned(),
            ty: "u32".to_owned(),
            size: 4,
            align: 4,
            ..ParamEntry::default()
        };
        let kernel = |name: &str, params: &[&str]| KernelEntry {
            name: name.to_owned(),
            params: params.iter().map(|name| param(name)).collect(),
            max_threads: Some(128),
            cluster: Some([2, 1, 1]),
            static_shared_bytes: 16,
            dynamic_shared_bytes: Some(1024),
            safe: name == "f",
            ..KernelEntry::default()
        };
        let module = |path: &str, kernels| ModuleEntry {
            path: path.to_owned(),
            arch: "sm_75".to_owned(),
            hash: "0".to_owned(),
            kernels,
            fragments: Vec::new(),
        };
        Manifest {
            format: crate::manifest::FORMAT,
            krate: "kernels".to_owned(),
            toolchain: Toolchain {
                rustc: "1".to_owned(),
                llvm: "2".to_owned(),
                cuda_builder: "3".to_owned(),
            },
            modules: vec![
                module(
                    "sm_75/a.ptx",
                    vec![kernel("f", &["x"]), kernel("g", &["x"])],
                ),
                module(
                    "sm_75/b.ptx",
                    vec![kernel("h", &["x", "y"]), kernel("i", &["x"])],
                ),
            ],
        }
    }

    #[test]
    fn each_list_of_parameters_is_written_once() {
        let file = File::from(manifest());
        assert_eq!(file.signatures.len(), 2);
        let kernels = file.modules.iter().flat_map(|module| &module.kernels);
        let signatures: Vec<usize> = kernels.map(|kernel| kernel.signature).collect();
        assert_eq!(signatures, [0, 0, 1, 0]);
        assert_eq!(Manifest::try_from(file), Ok(manifest()));
    }

    #[test]
    fn what_most_parameters_and_kernels_have_is_left_out() {
        let mut manifest = manifest();
        let kernel = &mut manifest.modules[0].kernels[0];
        kernel.static_shared_bytes = 0;
        (kernel.params[0].size, kernel.params[0].align) = (8, 8);
        let text = serde_json::to_string(&File::from(manifest.clone())).expect("plain fields");
        assert!(text.contains(r#"[{"name":"x","type":"u32"}]"#), "{text}");
        let of_kernel = r#"{"name":"f","signature":0,"max_threads":128,"cluster":[2,1,1],"dyn"#;
        assert!(text.contains(of_kernel), "{text}");
        let file: File = serde_json::from_str(&text).expect("its own text");
        assert_eq!(Manifest::try_from(file), Ok(manifest));
    }

    #[test]
    fn a_signature_that_is_not_there_is_refused() {
        let mut file = File::from(manifest());
        file.signatures.pop();
        let error = Manifest::try_from(file).expect_err("`h` has no parameters");
        assert_eq!(error, "`h` has signature 1, want one of 1, counted from 0");
    }
}

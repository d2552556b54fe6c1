//! What a manifest says of the kernels of a module, and PTX does not.

use super::Module;
use super::contract::Contract;
use super::global::declared;
use super::signature::{ParamInfo, Signature, parse, signatures};
use crate::device::Device;
use crate::error::{Error, KernelError, Result};
use ptx_syntax::cut::Cut;
use ptx_syntax::manifest::{FORMAT, KernelEntry, Manifest, ModuleEntry, hash};

/// The name of its file.
pub(super) const FILE: &str = "manifest.json";

/// Reads the text of a manifest.
pub(super) fn read(text: &str) -> Result<Manifest, Box<str>> {
    let manifest: Manifest = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if manifest.format != FORMAT {
        return Err(format!("format is {}, want {FORMAT}", manifest.format).into());
    }
    Ok(manifest)
}

pub(super) fn mismatch(module: &str, detail: impl AsRef<str>) -> Error {
    Error::Kernel(KernelError::Manifest {
        module: module.into(),
        detail: detail.as_ref().into(),
    })
}

/// Holds a kernel of the module `path` against its entry, and adds what only the entry says.
pub(super) fn describe(path: &str, entry: &KernelEntry, signature: &mut Signature) -> Result<()> {
    hold_against(entry, signature)
        .map_err(|detail| mismatch(path, format!("kernel `{}`: {detail}", entry.name)))?;
    signature.dynamic_shared_bytes = entry.dynamic_shared_bytes.unwrap_or(0);
    Ok(())
}

fn hold_against(kernel: &KernelEntry, signature: &Signature) -> Result<(), String> {
    let want: Vec<ParamInfo> = kernel
        .params
        .iter()
        .map(|param| ParamInfo {
            size_bytes: param.size,
            align_bytes: param.align,
        })
        .collect();
    if want != *signature.params {
        return Err(format!(
            "parameters are {:?}, the manifest has {want:?}",
            signature.params
        ));
    }
    if signature.cluster != kernel.cluster {
        let (got, want) = (signature.cluster, kernel.cluster);
        return Err(format!("cluster is {got:?}, the manifest has {want:?}"));
    }
    Ok(())
}

impl Device {
    /// Loads a module that `warpsmith build` or `CudaBuilder` made, with the text of the
    /// `manifest.json` beside it. Launches of its kernels are then held to what the manifest alone
    /// says:
    ///
    /// - the Rust types of the parameters ([`KernelError::ArgumentType`]);
    /// - the dynamic shared memory of `#[kernel(dynamic_shared = N)]`;
    /// - the conditions of `#[kernel(requires = "..")]` ([`KernelError::Requirement`]).
    ///
    /// A `&[T]`, a `View2`, a `View3` or a `Disjoint` of a safe kernel takes a tensor or a buffer, whose
    /// shape the launch passes along.
    ///
    /// # Errors
    /// [`KernelError::Manifest`] where the manifest cannot be read, describes no module of this
    /// text, or another one than the text is, and the errors of [`load_ptx`](Self::load_ptx).
    pub fn load_built(&self, ptx: &str, manifest: &str) -> Result<Module> {
        let manifest = read(manifest).map_err(|detail| mismatch(FILE, detail))?;
        let own_hash = hash(ptx);
        let mut modules = manifest.modules.iter();
        let module = modules.find(|module| module.hash == own_hash);
        let module = module.ok_or_else(|| {
            let known: Vec<String> = manifest
                .modules
                .iter()
                .map(|module| format!("{} ({})", module.path, module.hash))
                .collect();
            let detail = format!(
                "no module has the text's hash {own_hash}; there are {}",
                known.join(", ")
            );
            mismatch(FILE, detail)
        })?;
        load(self, ptx, module)
    }
}

/// Loads the text of a module that a manifest describes.
pub(super) fn load(device: &Device, ptx: &str, module: &ModuleEntry) -> Result<Module> {
    let own_hash = hash(ptx);
    if own_hash != module.hash {
        let detail = format!(
            "the text's hash is {own_hash}, the manifest has {}",
            module.hash
        );
        return Err(mismatch(&module.path, detail));
    }
    let ptx = &Cut::new(ptx.into()).with_all(&module.kernels);
    let parsed = parse(ptx)?;
    let mut found = signatures(&parsed)?;
    for signature in &mut found {
        let mut entries = module.kernels.iter();
        let entry = entries.find(|entry| *entry.name == *signature.name);
        let entry = entry.ok_or_else(|| {
            let detail = format!("kernel `{}` is not in the manifest", signature.name);
            mismatch(&module.path, detail)
        })?;
        describe(&module.path, entry, signature)?;
        signature.is_safe = entry.safe;
        let declared = entry.params.iter();
        signature.declared = declared
            .map(|param| (param.name.as_str().into(), param.ty.as_str().into()))
            .collect();
        signature.layouts = entry.params.iter().map(|param| param.layout).collect();
        signature.contract = Contract::of(entry).map_err(|detail| {
            let detail = format!("kernel `{}`: {detail}", entry.name);
            mismatch(&module.path, detail)
        })?;
    }
    Module::load_parsed(device, ptx, found, declared(&parsed))
}

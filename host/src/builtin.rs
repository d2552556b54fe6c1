//! Kernels that this build carries, and which of them a device uses.
//!
//! The files of `ptx/` are embedded compressed. A module is unpacked, parsed and held against the
//! manifest when the first of its kernels is asked for, once a process. On the emulator it is then
//! loaded as a whole, so that reports give the lines of the file; a GPU's driver compiles what it
//! loads, so it gets one kernel at a time.

use crate::device::{Device, lock};
use crate::error::{Error, Result};
use crate::module::{Kernel, Module};
use crate::signature::{ParamInfo, Signature, parse, signatures};
use flate2::read::ZlibDecoder;
use ptx_syntax::ast::{self, FunctionKind};
use ptx_syntax::manifest::{self, KernelEntry, Manifest, ModuleEntry};
use std::collections::HashMap;
use std::io::Read;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

mod embedded {
    include!(concat!(env!("OUT_DIR"), "/embedded.rs"));
}

/// Kernels that a device has loaded.
#[derive(Default)]
pub(crate) struct Cache {
    kernels: RwLock<HashMap<Box<str>, Kernel>>,
    /// Whole modules, by path.
    modules: Mutex<HashMap<&'static str, Module>>,
}

impl Device {
    /// The embedded kernel of that name in its best version for this device; loaded on first use,
    /// and kept.
    ///
    /// # Errors
    /// [`Error::MissingKernel`] where this build has none that runs on the device,
    /// [`Error::ManifestMismatch`] where the embedded files contradict each other, and the errors
    /// of loading PTX.
    pub fn builtin_kernel(&self, name: &str) -> Result<Kernel> {
        let cache = self.builtin();
        let known = cache
            .kernels
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(name)
            .cloned();
        if let Some(kernel) = known {
            return Ok(kernel);
        }
        // One thread loads at a time; another may have been faster.
        let mut modules = lock(&cache.modules);
        let known = cache
            .kernels
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(name)
            .cloned();
        if let Some(kernel) = known {
            return Ok(kernel);
        }
        let kernel = self.load_builtin(name, &mut modules)?;
        let mut kernels = cache
            .kernels
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        kernels.insert(name.into(), kernel.clone());
        Ok(kernel)
    }

    fn load_builtin(
        &self,
        name: &str,
        modules: &mut HashMap<&'static str, Module>,
    ) -> Result<Kernel> {
        let entry = best_module(name, self.arch())?.ok_or_else(|| Error::MissingKernel {
            name: name.into(),
            device: self.info().to_string().into(),
        })?;
        let parsed = parsed_module(entry)?;
        if !self.is_emulator() {
            let text = alone(&parsed.tree, name).to_string();
            let mut signatures = parsed.signatures.clone();
            signatures.retain(|signature| *signature.name == *name);
            return Module::load_parsed(self, &text, signatures)?.kernel(name);
        }
        if let Some(module) = modules.get(entry.path.as_str()) {
            return module.kernel(name);
        }
        let module = Module::load_parsed(self, &parsed.text, parsed.signatures.clone())?;
        modules.insert(&entry.path, module.clone());
        module.kernel(name)
    }
}

/// The embedded manifest; empty where this build carries no kernels.
///
/// # Errors
/// [`Error::ManifestMismatch`] where it cannot be read.
pub fn builtin_manifest() -> Result<&'static Manifest> {
    static MANIFEST: OnceLock<Result<Manifest, Box<str>>> = OnceLock::new();
    MANIFEST
        .get_or_init(read_manifest)
        .as_ref()
        .map_err(|detail| mismatch(MANIFEST_FILE, detail))
}

const MANIFEST_FILE: &str = "manifest.json";

fn read_manifest() -> Result<Manifest, Box<str>> {
    let Some(text) = file(MANIFEST_FILE)? else {
        return Err("this build embeds no kernels: there was no ptx/manifest.json".into());
    };
    let manifest: Manifest = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    if manifest.format != manifest::FORMAT {
        let (got, want) = (manifest.format, manifest::FORMAT);
        return Err(format!("format is {got}, want {want}").into());
    }
    Ok(manifest)
}

/// Text of an embedded file; `None` where there is none of that path.
fn file(path: &str) -> Result<Option<String>, Box<str>> {
    let Some((_, packed)) = embedded::FILES.iter().find(|(name, _)| *name == path) else {
        return Ok(None);
    };
    let mut text = String::new();
    match ZlibDecoder::new(*packed).read_to_string(&mut text) {
        Ok(_) => Ok(Some(text)),
        Err(error) => Err(format!("cannot be unpacked: {error}").into()),
    }
}

fn mismatch(module: &str, detail: impl AsRef<str>) -> Error {
    Error::ManifestMismatch {
        module: module.into(),
        detail: detail.as_ref().into(),
    }
}

/// The module with the kernel `name` whose architecture is the highest that runs on `arch`.
fn best_module(name: &str, arch: (u32, u32)) -> Result<Option<&'static ModuleEntry>> {
    let mut best: Option<(u32, &'static ModuleEntry)> = None;
    for module in &builtin_manifest()?.modules {
        let Some(rank) = rank(&module.arch, arch) else {
            continue;
        };
        let has_it = module.kernels.iter().any(|kernel| kernel.name == name);
        if has_it && best.is_none_or(|(best_rank, _)| rank > best_rank) {
            best = Some((rank, module));
        }
    }
    Ok(best.map(|(_, module)| module))
}

/// How well PTX for `target` suits a device of `arch`: higher is better, `None` does not run.
/// `sm_75` runs on 7.5 and later, `sm_90a` on 9.0 only, `sm_100f` on 10.x from 10.0 on.
fn rank(target: &str, arch: (u32, u32)) -> Option<u32> {
    let number = target.strip_prefix("sm_")?;
    let digits = number.trim_end_matches(char::is_alphabetic);
    let sm: u32 = digits.parse().ok()?;
    let device = arch.0 * 10 + arch.1;
    let (runs, bonus) = match &number[digits.len()..] {
        "" => (device >= sm, 0),
        "f" => (device >= sm && arch.0 == sm / 10, 1),
        "a" => (device == sm, 2),
        _ => (false, 0),
    };
    runs.then_some(sm * 4 + bonus)
}

/// An embedded module, unpacked.
struct Parsed {
    text: String,
    tree: ast::Module,
    signatures: Vec<Signature>,
}

/// Unpacks and parses once a process.
fn parsed_module(entry: &'static ModuleEntry) -> Result<Arc<Parsed>> {
    static PARSED: Mutex<Option<HashMap<&'static str, Arc<Parsed>>>> = Mutex::new(None);
    let mut parsed = lock(&PARSED);
    let parsed = parsed.get_or_insert_default();
    if let Some(known) = parsed.get(entry.path.as_str()) {
        return Ok(known.clone());
    }
    let text = file(&entry.path).map_err(|detail| mismatch(&entry.path, detail))?;
    let text = text.ok_or_else(|| mismatch(&entry.path, "the file is not embedded"))?;
    let tree = parse(&text)?;
    let signatures = signatures(&tree)?;
    hold_against(entry, &text, &signatures)?;
    let module = Arc::new(Parsed {
        text,
        tree,
        signatures,
    });
    parsed.insert(&entry.path, module.clone());
    Ok(module)
}

/// A module must be the one that its manifest describes, kernel for kernel.
fn hold_against(entry: &ModuleEntry, text: &str, signatures: &[Signature]) -> Result<()> {
    let hash = manifest::hash(text);
    if hash != entry.hash {
        let detail = format!("the text's hash is {hash}, the manifest has {}", entry.hash);
        return Err(mismatch(&entry.path, detail));
    }
    for kernel in &entry.kernels {
        let Some(signature) = signatures.iter().find(|known| *known.name == *kernel.name) else {
            return Err(mismatch(
                &entry.path,
                format!("no kernel `{}`", kernel.name),
            ));
        };
        hold_kernel_against(kernel, signature).map_err(|detail| {
            mismatch(&entry.path, format!("kernel `{}`: {detail}", kernel.name))
        })?;
    }
    let unknown = signatures.iter().find(|signature| {
        entry
            .kernels
            .iter()
            .all(|kernel| *kernel.name != *signature.name)
    });
    match unknown {
        Some(signature) => Err(mismatch(
            &entry.path,
            format!("`{}` is not in the manifest", signature.name),
        )),
        None => Ok(()),
    }
}

fn hold_kernel_against(kernel: &KernelEntry, signature: &Signature) -> Result<(), String> {
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

/// The module with one kernel only, and all that kernels share.
fn alone(module: &ast::Module, name: &str) -> ast::Module {
    let is_wanted =
        |function: &&ast::Function| function.kind == FunctionKind::Func || function.name == name;
    ast::Module {
        version: module.version,
        targets: module.targets.clone(),
        address_size: module.address_size,
        files: module.files.clone(),
        pragmas: module.pragmas.clone(),
        variables: module.variables.clone(),
        functions: module.functions.iter().filter(is_wanted).cloned().collect(),
        aliases: module.aliases.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn portable_code_runs_on_everything_newer_and_arch_specific_code_on_its_own() {
        assert!(rank("sm_75", (7, 5)).is_some());
        assert!(rank("sm_75", (7, 0)).is_none());
        assert!(rank("sm_75", (10, 0)).is_some());
        assert!(rank("sm_90a", (9, 0)) > rank("sm_90", (9, 0)));
        assert!(rank("sm_90", (9, 0)) > rank("sm_89", (9, 0)));
        assert!(rank("sm_90a", (10, 0)).is_none());
        assert!(rank("sm_100f", (10, 3)).is_some());
        assert!(rank("sm_100f", (12, 0)).is_none());
        assert!(rank("sm_90x", (9, 0)).is_none());
        assert!(rank("compute_90", (9, 0)).is_none());
    }
}

//! The kernels that are embedded in this build, and which version of them a device uses.
//!
//! The files of `ptx/` are embedded compressed. A file is decompressed when the first of its
//! kernels is needed, once per process, and its hash is checked against the manifest.

use super::features::{FEATURES, Feature, lacking};
use super::files::file;
use super::manifest::{FILE as MANIFEST_FILE, describe, mismatch};
use super::signature::{Signature, parse, signatures};
use crate::device::lock;
use crate::error::{Error, KernelError, Result};
use ptx_syntax::ast;
use ptx_syntax::cut::Cut;
use ptx_syntax::manifest::{self, KernelEntry, Manifest, ModuleEntry};
use ptx_syntax::target::Target;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

/// The manifest of the embedded kernels: the families and architectures whose features are on.
///
/// # Errors
/// [`KernelError::Manifest`](crate::KernelError::Manifest) where it cannot be read.
pub fn builtin_manifest() -> Result<&'static Manifest> {
    Ok(&builtin()?.manifest)
}

fn builtin() -> Result<&'static Builtin> {
    static BUILTIN: OnceLock<Result<Builtin, Box<str>>> = OnceLock::new();
    let read = BUILTIN.get_or_init(|| Builtin::with(FEATURES)).as_ref();
    read.map_err(|detail| mismatch(MANIFEST_FILE, detail))
}

/// The modules of `ptx/`.
struct Builtin {
    /// Those of this build.
    manifest: Manifest,
    /// Those that need a feature which is off.
    left_out: Vec<ModuleEntry>,
    features: &'static [Feature],
}

impl Builtin {
    fn with(features: &'static [Feature]) -> Result<Self, Box<str>> {
        let Some(text) = file(MANIFEST_FILE)? else {
            return Err("there was no ptx/manifest.json when this library was built".into());
        };
        let mut manifest = super::manifest::read(&text)?;
        let is_left_out = |module: &mut ModuleEntry| !lacking(&module.path, features).is_empty();
        let left_out = manifest.modules.extract_if(.., is_left_out).collect();
        Ok(Self {
            manifest,
            left_out,
            features,
        })
    }

    fn newest<'a, T>(
        &'a self,
        name: &str,
        arch: (u32, u32),
        find: impl Fn(&'a ModuleEntry) -> Option<&'a T>,
    ) -> Result<(&'a ModuleEntry, &'a T)> {
        let newest_of = |modules: &'a [ModuleEntry]| {
            let with_it = modules
                .iter()
                .filter_map(|module| Some((target_for(module, arch)?, (module, find(module)?))));
            with_it.max_by_key(|(target, _)| *target)
        };
        if let Some((_, found)) = newest_of(&self.manifest.modules) {
            return Ok(found);
        }
        let name = name.into();
        Err(Error::Kernel(match newest_of(&self.left_out) {
            Some((_, (module, _))) => KernelError::LeftOut {
                name,
                features: lacking(&module.path, self.features),
            },
            None => KernelError::Missing { name, arch },
        }))
    }
}

/// The kernel `name` in the module that has the newest architecture among those that `arch` runs.
///
/// # Errors
/// As [`newest`].
pub(crate) fn best(
    name: &str,
    arch: (u32, u32),
) -> Result<(&'static ModuleEntry, &'static KernelEntry)> {
    newest(name, arch, |module| {
        module.kernels.iter().find(|kernel| kernel.name == name)
    })
}

/// What `find` finds in the module that has the newest architecture among those that `arch` runs.
///
/// # Errors
/// [`KernelError::LeftOut`] where only a module that this build leaves out has it,
/// [`KernelError::Missing`] where none has.
pub(crate) fn newest<T>(
    name: &str,
    arch: (u32, u32),
    find: impl Fn(&'static ModuleEntry) -> Option<&'static T>,
) -> Result<(&'static ModuleEntry, &'static T)> {
    builtin()?.newest(name, arch, find)
}

/// What a module was built for, if a device of compute capability `arch` runs it. Of two, the
/// greater one is the better choice.
pub(crate) fn target_for(module: &ModuleEntry, arch: (u32, u32)) -> Option<Target> {
    let target: Target = module.arch.parse().ok()?;
    target.runs_on(arch).then_some(target)
}

/// One kernel of a module, which is as the manifest says.
pub(super) fn kernel(
    module: &'static ModuleEntry,
    entry: &KernelEntry,
) -> Result<(ast::Module, Signature)> {
    let ast = parse(&unpacked(module)?.one_kernel(entry))?;
    let mut found = signatures(&ast)?;
    match (found.pop(), found.is_empty()) {
        (Some(mut signature), true) if *signature.name == *entry.name => {
            describe(&module.path, entry, &mut signature)?;
            Ok((ast, signature))
        }
        _ => Err(mismatch(
            &module.path,
            format!("kernel `{}` is not in the text", entry.name),
        )),
    }
}

/// The text of one kernel of a module, which is as the manifest says.
pub(crate) fn kernel_text(module: &'static ModuleEntry, entry: &KernelEntry) -> Result<String> {
    Ok(unpacked(module)?.one_kernel(entry))
}

/// The text of a module, which is the one that the manifest describes.
pub(crate) fn module_text(module: &'static ModuleEntry) -> Result<Arc<str>> {
    Ok(unpacked(module)?.text())
}

/// A module, which is the one that the manifest describes. Unpacked once a process.
fn unpacked(module: &'static ModuleEntry) -> Result<Arc<Cut>> {
    static MODULES: Mutex<Option<HashMap<&'static str, Arc<Cut>>>> = Mutex::new(None);
    let mut modules = lock(&MODULES);
    let modules = modules.get_or_insert_default();
    if let Some(known) = modules.get(module.path.as_str()) {
        return Ok(known.clone());
    }
    let text = file(&module.path).map_err(|detail| mismatch(&module.path, detail))?;
    let text = text.ok_or_else(|| mismatch(&module.path, "the file is not embedded"))?;
    let hash = manifest::hash(&text);
    if hash != module.hash {
        let detail = format!(
            "the text's hash is {hash}, the manifest has {}",
            module.hash
        );
        return Err(mismatch(&module.path, detail));
    }
    let unpacked = Arc::new(Cut::new(text.into()));
    modules.insert(&module.path, unpacked.clone());
    Ok(unpacked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use abi::entry::tables;
    use ptx_syntax::ast::Instruction;
    use ptx_syntax::twin::as_f16;

    #[test]
    fn every_embedded_kernel_is_what_its_manifest_says() {
        let manifest = builtin_manifest().expect("kernels are embedded");
        assert!(!manifest.modules.is_empty());
        for module in &manifest.modules {
            let entries = module.kernels.len() + module.fragments.len();
            assert!(entries > 0, "{}", module.path);
            let whole = module_text(module).expect("of the manifest's hash");
            let lines: Vec<&str> = whole.lines().collect();
            for entry in &module.kernels {
                let (ast, _) = kernel(module, entry).expect("as the manifest says");
                let mut instructions = ast.functions.iter().flat_map(|it| it.instructions());
                let same_line = |it: &Instruction| {
                    let line = lines[it.line as usize - 1];
                    match entry.text_of {
                        Some(_) => as_f16(line).contains(&it.opcode),
                        None => line.contains(&it.opcode),
                    }
                };
                assert!(instructions.all(same_line), "{}", entry.name);
            }
        }
    }

    #[test]
    fn the_tables_of_entries_name_every_embedded_kernel() {
        let mut embedded: Vec<&str> = kernels().map(|kernel| &*kernel.name).collect();
        let mut named: Vec<&str> = tables().flat_map(|table| table.names).copied().collect();
        embedded.sort_unstable();
        named.sort_unstable();
        assert_eq!(named, embedded);
    }

    #[test]
    fn kernels_take_pointers_and_then_the_parameter_blocks_of_their_table() {
        for kernel in kernels() {
            let table = tables().find(|table| table.names.contains(&&*kernel.name));
            let table = table.expect("a table names it");
            let types = kernel.params.iter().map(|param| block_of(&param.ty));
            let mut got = types.skip_while(Option::is_none).peekable();
            for (block, is_in_all) in table.blocks() {
                let is_there = got.next_if_eq(&Some(block)).is_some();
                assert!(is_there || !is_in_all, "{} lacks {block}", kernel.name);
            }
            assert_eq!(got.next(), None, "{} has another parameter", kernel.name);
        }
    }

    fn kernels() -> impl Iterator<Item = &'static KernelEntry> {
        let manifest = builtin_manifest().expect("kernels are embedded");
        manifest.modules.iter().flat_map(|module| &module.kernels)
    }

    /// The parameter block that a Rust type of a parameter is; `None` for pointers and tensor maps.
    fn block_of(ty: &str) -> Option<&str> {
        let of_value = ty
            .strip_prefix("ByValue<")
            .and_then(|of| of.split(',').next());
        let is_memory = ty.starts_with('*') || ty == "TensorMapParam";
        (!is_memory).then_some(of_value.unwrap_or(ty))
    }

    #[test]
    fn a_module_that_contradicts_its_manifest_is_refused() {
        let module = &builtin_manifest().expect("kernels are embedded").modules[0];
        let entry = &module.kernels[0];
        let mut renamed = entry.clone();
        renamed.name.push('x');
        let mut longer = entry.clone();
        longer.params.push(entry.params[0].clone());
        let mut wider = entry.clone();
        wider.params[0].size += 4;
        let mut clustered = entry.clone();
        clustered.cluster = Some([7, 7, 7]);
        for wrong in [renamed, longer, wider, clustered] {
            let refused = kernel(module, &wrong).expect_err("not what the text says");
            assert!(
                matches!(refused, Error::Kernel(KernelError::Manifest { .. })),
                "{refused}"
            );
        }
    }

    #[test]
    fn a_kernel_that_is_left_out_is_named_with_its_features() {
        const SOME: &[Feature] = &[("norm", false), ("softmax", true), ("sm_90", false)];
        let builtin = Builtin::with(SOME).expect("a manifest");
        let left_out = |name: &str| {
            let found = builtin.newest(name, (9, 0), |module| {
                module.kernels.iter().find(|kernel| kernel.name == name)
            });
            let error = found.err()?;
            let said = error.to_string();
            match error {
                Error::Kernel(KernelError::LeftOut { features, .. }) => {
                    assert!(said.ends_with(&features.join(", ")), "{said}");
                    Some(features.to_vec())
                }
                other => panic!("another error: {other}"),
            }
        };
        assert_eq!(left_out("norm_bf16_cluster"), Some(vec!["norm", "sm_90"]));
        assert_eq!(left_out("norm_bf16_streaming"), Some(vec!["norm"]));
        assert_eq!(left_out("softmax_bf16_cluster"), Some(vec!["sm_90"]));
        assert_eq!(left_out("cross_entropy_bf16_streaming"), None);
        assert_eq!(left_out("copy_b128"), None);
    }

    #[test]
    fn a_device_gets_the_newest_version_that_it_runs() {
        let arch_of = |name, arch| {
            let best = best(name, arch).ok();
            best.map(|(module, _)| module.arch.as_str())
        };
        let portable = "norm_grad_finish";
        assert_eq!(arch_of(portable, (7, 5)), Some("sm_75"));
        assert_eq!(arch_of(portable, (10, 0)), Some("sm_75"));
        assert_eq!(arch_of(portable, (7, 0)), None);
        assert_eq!(arch_of("nothing", (9, 0)), None);
        let target = |name: &str| name.parse::<Target>().expect("known");
        assert!(target("sm_90a") > target("sm_90") && target("sm_90") > target("sm_89"));
    }
}

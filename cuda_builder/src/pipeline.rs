//! The steps of a build, in order: once for the crate, then for each family and architecture.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::arch::Arch;
use crate::assemble::assemble_text;
use crate::builder::{BuiltModule, CudaBuilder, Profile, build_script_folder};
use crate::codegen::Codegen;
use crate::collectives;
use crate::compile::{self, Request};
use crate::error::{Error, Step};
use crate::features;
use crate::fold;
use crate::ir::families::{self, Family};
use crate::ir::fragments::Fragment;
use crate::ir::kernels::Kernel;
use crate::ir::{self, Module};
use crate::link;
use crate::lint;
use crate::manifest;
use crate::toolchain::{DeviceToolchain, Ptxas};
use crate::uniform;

/// The build of one crate.
pub(crate) struct CrateBuild<'a> {
    pub(crate) options: &'a CudaBuilder,
    pub(crate) krate: &'a Path,
    pub(crate) toolchain: &'a DeviceToolchain,
    pub(crate) ptxas: Option<&'a Ptxas>,
    /// For temporary files.
    pub(crate) work: &'a Path,
}

/// A crate's code, which all architectures are built from.
pub(crate) struct CrateCode {
    /// Name of the crate.
    pub(crate) name: String,
    module: Module,
    kernels: Vec<Kernel>,
    fragments: Vec<Fragment>,
    /// Source folders of the crate.
    pub(crate) sources: Vec<PathBuf>,
}

impl CrateCode {
    /// Architectures that kernels name.
    pub(crate) fn named(&self) -> impl Iterator<Item = Arch> {
        let of_kernels = self.kernels.iter().filter_map(|kernel| kernel.arch);
        let of_fragments = self.fragments.iter().filter_map(|fragment| fragment.arch);
        of_kernels.chain(of_fragments)
    }

    /// The families of what is built for `arch`: kernels that name it, and if it was asked for,
    /// those that name none.
    pub(crate) fn families(&self, arch: Arch, asked_for: bool) -> Result<Vec<Family>, Error> {
        let is_built = |named: Option<Arch>| named.map_or(asked_for, |named| named == arch);
        let mut kernels = self.kernels.clone();
        let mut fragments = self.fragments.clone();
        kernels.retain(|kernel| is_built(kernel.arch));
        fragments.retain(|fragment| is_built(fragment.arch));
        let clustered = kernels.iter().find(|kernel| kernel.cluster.is_some());
        if let (Some(kernel), true) = (clustered, arch < Arch::Sm90) {
            let kernel = kernel.name.clone();
            return Err(Error::ClusterUnsupported { kernel, arch });
        }
        Ok(families::split(&self.module, &kernels, &fragments))
    }
}

impl CrateBuild<'_> {
    /// Compiles and links the crate, and applies the steps of the typed pass that concern all of it.
    pub(crate) fn code(&self) -> Result<CrateCode, Error> {
        let mut features = self.options.features.clone();
        let mut default_features = self.options.default_features;
        if default_features
            && let Some(instead) =
                features::of_families(self.toolchain, self.krate, &self.options.families)?
        {
            features.extend(instead);
            default_features = false;
        }
        let (target_dir, lock) = self.target_dir()?;
        let compiled = compile::compile(&Request {
            toolchain: self.toolchain,
            krate: self.krate,
            target_dir: &target_dir,
            features: &features,
            default_features,
            checked: self.options.profile == Profile::Checked,
            line_info: self.options.has_line_info(),
            locked: self.options.locked,
        })?;
        let mut module = link::link(self.toolchain, &compiled, self.work)?;
        drop(lock);
        let (kernels, fragments) = patch(&mut module, &compiled.crate_name, self.options)?;
        Ok(CrateCode {
            name: compiled.crate_name,
            module,
            kernels,
            fragments,
            sources: compiled.sources,
        })
    }

    /// Cargo's target folder and a lock on it. The lock is held until the rlibs have been read,
    /// because a build with other flags would overwrite them.
    fn target_dir(&self) -> Result<(PathBuf, File), Error> {
        let folder = self.options.target_dir.clone().unwrap_or_else(|| {
            build_script_folder().map_or_else(
                || self.krate.join("target/warpsmith"),
                |folder| folder.join("warpsmith-target"),
            )
        });
        // Cargo keeps one copy of a crate whatever the flags.
        let flags = if self.options.has_line_info() {
            "lines"
        } else {
            "plain"
        };
        let folder = folder.join(flags);
        let locked = fs::create_dir_all(&folder)
            .and_then(|()| File::create(folder.join("warpsmith.lock")))
            .and_then(|file| file.lock().map(|()| file));
        match locked {
            Ok(file) => Ok((folder, file)),
            Err(source) => Err(Error::Io {
                step: Step::Compile,
                path: folder,
                source,
            }),
        }
    }

    /// Builds one family for one architecture.
    pub(crate) fn family(&self, arch: Arch, mut family: Family) -> Result<BuiltModule, Error> {
        ir::names::apply(&mut family.module);
        let work = &self.work.join(arch.name());
        fs::create_dir_all(work).map_err(|source| Error::Io {
            step: Step::Codegen,
            path: work.clone(),
            source,
        })?;
        let codegen = Codegen {
            toolchain: self.toolchain,
            arch,
            contract: self.options.contract,
            work,
            dump: self.options.dump_ir.as_deref(),
        };
        let ptx = codegen.ptx(&family)?;
        let name = family.name.clone();
        let module = ptx_syntax::parse(&ptx).map_err(|source| Error::Unreadable {
            arch,
            family: name.clone(),
            source,
        })?;
        let mut refusals = lint::check(&module, &family.kernels);
        refusals.extend(ir::fragments::check(&module, &family.fragments));
        refusals.extend(collectives::check(
            &module,
            &ir::collectives::count(&family.module),
        ));
        refusals.extend(uniform::check(&module, &family.kernels));
        let mut registers = BTreeMap::new();
        let mut assembled = None;
        if let (Some(ptxas), true) = (self.ptxas, refusals.is_empty()) {
            let said = assemble_text(ptxas, &name, &ptx, arch.name(), work)?;
            refusals.extend(said.refusals(|name| {
                let mut kernels = family.kernels.iter();
                kernels.any(|kernel| kernel.allow_local && kernel.name == name)
            }));
            if self.options.record_registers {
                let used = said
                    .kernels
                    .iter()
                    .map(|(name, usage)| (name.clone(), usage.registers));
                registers = used.collect();
            }
            assembled = Some(said);
        }
        if !refusals.is_empty() {
            let kept = self.options.dump_ir.as_ref();
            let kept = kept.map(|folder| folder.join(format!("{arch}/{name}.ptx")));
            return Err(Error::Refused {
                arch,
                family: name,
                lines: lint::where_lines_are(&refusals, kept.as_deref()),
                refusals,
            });
        }
        let mut entry = manifest::module_entry((arch, &family), &ptx, &module, &registers);
        let ptx = match self.options.fold_halves {
            true => fold::apply(&ptx, &mut entry),
            false => ptx,
        };
        Ok(BuiltModule {
            arch,
            family: name,
            ptx,
            entry,
            assembled,
        })
    }
}

/// Applies `work` to all `items` on as many threads as there are cores. The results are in the
/// order of the items; of several errors, it returns the first in that order.
pub(crate) fn side_by_side<T: Send, R: Send>(
    items: Vec<T>,
    work: impl Fn(T) -> Result<R, Error> + Sync,
) -> Result<Vec<R>, Error> {
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let todo = Mutex::new(items.into_iter().enumerate());
    let done = Mutex::new(BTreeMap::new());
    let worker = || {
        loop {
            // A statement of its own, so that the lock is released before the work.
            let next = todo.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some((index, item)) = next else { break };
            let result = work(item);
            let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
            done.insert(index, result);
        }
    };
    thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(worker);
        }
    });
    let done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.into_values().collect()
}

/// The steps of the typed pass that are applied to the whole module, before it is split into
/// families.
fn patch(
    module: &mut Module,
    crate_name: &str,
    options: &CudaBuilder,
) -> Result<(Vec<Kernel>, Vec<Fragment>), Error> {
    let kernels = ir::kernels::extract(module, crate_name)?;
    let fragments = ir::fragments::extract(module)?;
    if kernels.is_empty() && fragments.is_empty() {
        return Err(Error::NoKernels {
            krate: crate_name.to_owned(),
        });
    }
    ir::cpu::apply(module);
    if options.has_panic_messages() {
        ir::panics::apply(module);
    }
    ir::traps::apply(module);
    ir::spaces::apply(module)?;
    ir::convergent::apply(module);
    ir::by_value::apply(module, &kernels);
    ir::aliases::apply(module, &kernels);
    ir::bounds::apply(module, &kernels);
    Ok((kernels, fragments))
}

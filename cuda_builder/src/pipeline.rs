//! The steps of a build for one architecture, in order.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
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
use crate::ir::families::{self, Family};
use crate::ir::fragments::Fragment;
use crate::ir::kernels::Kernel;
use crate::ir::{self, Module};
use crate::link;
use crate::lint;
use crate::manifest;
use crate::toolchain::{DeviceToolchain, Ptxas};

/// The build for one architecture.
pub(crate) struct ArchBuild<'a> {
    pub(crate) options: &'a CudaBuilder,
    pub(crate) krate: &'a Path,
    pub(crate) toolchain: &'a DeviceToolchain,
    pub(crate) ptxas: Option<&'a Ptxas>,
    pub(crate) arch: Arch,
    /// Whether kernels that name no architecture are built for this one.
    pub(crate) asked_for: bool,
}

/// The results of the builds for one or several architectures.
#[derive(Default)]
pub(crate) struct ArchBuilt {
    pub(crate) modules: Vec<BuiltModule>,
    /// Source folders of the crate.
    pub(crate) sources: Vec<PathBuf>,
    /// Architectures that kernels of the crate name.
    pub(crate) named: Vec<Arch>,
    /// Families that the crate has for these architectures, built or not.
    pub(crate) families: BTreeSet<String>,
}

impl ArchBuild<'_> {
    /// Runs all steps, from the crate to its modules.
    pub(crate) fn run(&self) -> Result<ArchBuilt, Error> {
        let work = tempfile::tempdir().map_err(|source| Error::Io {
            step: Step::Link,
            path: env::temp_dir(),
            source,
        })?;
        let (target_dir, lock) = self.target_dir()?;
        let compiled = compile::compile(&Request {
            toolchain: self.toolchain,
            krate: self.krate,
            target_dir: &target_dir,
            arch: self.arch,
            features: &self.options.features,
            default_features: self.options.default_features,
            checked: self.options.profile == Profile::Checked,
            line_info: self.options.line_info,
            locked: self.options.locked,
        })?;
        let mut module = link::link(self.toolchain, &compiled, work.path())?;
        drop(lock);
        let (mut kernels, mut fragments) = patch(&mut module, &compiled.crate_name)?;
        let of_kernels = kernels.iter().filter_map(|kernel| kernel.arch);
        let of_fragments = fragments.iter().filter_map(|fragment| fragment.arch);
        let named = of_kernels.chain(of_fragments).collect();
        let is_built = |arch: Option<Arch>| arch.map_or(self.asked_for, |arch| arch == self.arch);
        kernels.retain(|kernel| is_built(kernel.arch));
        fragments.retain(|fragment| is_built(fragment.arch));
        let clustered = kernels.iter().find(|kernel| kernel.cluster.is_some());
        if let (Some(kernel), true) = (clustered, self.arch < Arch::Sm90) {
            let kernel = kernel.name.clone();
            return Err(Error::ClusterUnsupported {
                kernel,
                arch: self.arch,
            });
        }
        let mut split = families::split(&module, &kernels, &fragments);
        let families = split.iter().map(|family| family.name.clone()).collect();
        let asked_for = &self.options.families;
        split.retain(|family| asked_for.is_empty() || asked_for.contains(&family.name));
        Ok(ArchBuilt {
            modules: side_by_side(split, |family| self.family(family, work.path()))?,
            sources: compiled.sources,
            named,
            families,
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
        // Cargo keeps one copy of `core` whatever the flags, and the flags differ by architecture.
        let lines = if self.options.line_info { "-lines" } else { "" };
        let folder = folder.join(format!("{}{lines}", self.arch));
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

    fn family(&self, mut family: Family, work: &Path) -> Result<BuiltModule, Error> {
        ir::names::apply(&mut family.module);
        let codegen = Codegen {
            toolchain: self.toolchain,
            arch: self.arch,
            contract: self.options.contract,
            work,
            dump: self.options.dump_ir.as_deref(),
        };
        let ptx = codegen.ptx(&family)?;
        let (arch, name) = (self.arch, family.name.clone());
        let module = ptx_syntax::parse(&ptx).map_err(|source| Error::Unreadable {
            arch,
            family: name.clone(),
            source,
        })?;
        let mut refusals = lint::check(&module, &self.options.local);
        refusals.extend(ir::fragments::check(&module, &family.fragments));
        refusals.extend(collectives::check(
            &module,
            &ir::collectives::count(&family.module),
        ));
        let mut registers = BTreeMap::new();
        let mut assembled = None;
        if let (Some(ptxas), true) = (self.ptxas, refusals.is_empty()) {
            let said = assemble_text(ptxas, &name, &ptx, arch.name(), work)?;
            let local = &self.options.local;
            refusals.extend(said.refusals(|kernel| {
                local
                    .iter()
                    .any(|allowed| allowed == kernel || allowed == lint::EVERYWHERE)
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
            return Err(Error::Refused {
                arch,
                family: name,
                refusals,
            });
        }
        let entry = manifest::module_entry((arch, &family), &ptx, &module, &registers);
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
fn patch(module: &mut Module, crate_name: &str) -> Result<(Vec<Kernel>, Vec<Fragment>), Error> {
    let kernels = ir::kernels::extract(module, crate_name)?;
    let fragments = ir::fragments::extract(module)?;
    if kernels.is_empty() && fragments.is_empty() {
        return Err(Error::NoKernels {
            krate: crate_name.to_owned(),
        });
    }
    ir::traps::apply(module);
    ir::spaces::apply(module)?;
    ir::convergent::apply(module);
    ir::by_value::apply(module, &kernels);
    ir::bounds::apply(module, &kernels);
    Ok((kernels, fragments))
}

//! [`CudaBuilder`]: the options of a build, and its report.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::env;
use std::path::{Path, PathBuf};

use ptx_syntax::manifest::{FORMAT, Manifest, ModuleEntry, Toolchain};

use crate::arch::Arch;
use crate::assemble::Assembled;
use crate::compile::TARGET;
use crate::error::{Error, Step};
use crate::lint::Refusal;
use crate::pipeline::{CrateBuild, CrateCode, side_by_side};
use crate::toolchain::{DeviceToolchain, Ptxas};
use crate::write;

/// How the crate is compiled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// Optimised; arithmetic wraps.
    #[default]
    Release,
    /// Optimised, with debug assertions and overflow checks, which trap.
    Checked,
}

/// When ptxas is run on the result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PtxasCheck {
    /// If one is found.
    #[default]
    IfFound,
    /// Always; it is an error if none is found.
    Required,
    /// Never.
    Never,
}

/// Builds the kernels of a crate.
///
/// The crate is an ordinary library; nothing in its `Cargo.toml` has to be special.
///
/// ```no_run
/// use cuda_builder::{Arch, CudaBuilder};
/// let report = CudaBuilder::new("kernels").arch(Arch::Sm80).copy_to("ptx").build()?;
/// for module in &report.modules {
///     println!("{}: {} kernels", module.entry.path, module.entry.kernels.len());
/// }
/// # Ok::<(), cuda_builder::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing happens until `build`"]
pub struct CudaBuilder {
    krate: PathBuf,
    archs: Vec<Arch>,
    copy_to: Option<PathBuf>,
    pub(crate) dump_ir: Option<PathBuf>,
    pub(crate) target_dir: Option<PathBuf>,
    pub(crate) contract: bool,
    pub(crate) families: Vec<String>,
    pub(crate) profile: Profile,
    pub(crate) features: Vec<String>,
    pub(crate) default_features: bool,
    line_info: Option<bool>,
    panic_messages: Option<bool>,
    launches: Option<bool>,
    pub(crate) locked: bool,
    ptxas: PtxasCheck,
    pub(crate) record_registers: bool,
    pub(crate) fold_halves: bool,
    toolchain: Option<DeviceToolchain>,
}

/// The result of a build.
#[derive(Clone, Debug)]
pub struct BuildReport {
    /// The manifest, as written.
    pub manifest: Manifest,
    /// The modules, in the manifest's order.
    pub modules: Vec<BuiltModule>,
    /// Folder with `manifest.json` and `<arch>/<family>.ptx`, if the build wrote one.
    pub folder: Option<PathBuf>,
    /// The toolchain used.
    pub toolchain: DeviceToolchain,
    /// The ptxas that checked the result, if any.
    pub ptxas: Option<Ptxas>,
    /// Source folders of the crate and its path dependencies.
    pub sources: Vec<PathBuf>,
}

/// One PTX module.
#[derive(Clone, Debug)]
pub struct BuiltModule {
    /// Architecture.
    pub arch: Arch,
    /// Family of kernels.
    pub family: String,
    /// The PTX.
    pub ptx: String,
    /// Its entry in the manifest.
    pub entry: ModuleEntry,
    /// What ptxas reports on it, if it ran.
    pub assembled: Option<Assembled>,
}

impl CudaBuilder {
    /// A build of the crate in folder `krate` (or of the crate with that `Cargo.toml`), for
    /// [`Arch::Sm75`] unless [`arch`](Self::arch) or [`archs`](Self::archs) say otherwise.
    pub fn new(krate: impl Into<PathBuf>) -> Self {
        Self {
            krate: krate.into(),
            archs: vec![Arch::Sm75],
            copy_to: None,
            dump_ir: None,
            target_dir: None,
            contract: true,
            families: Vec::new(),
            profile: Profile::Release,
            features: Vec::new(),
            default_features: true,
            line_info: None,
            panic_messages: None,
            launches: None,
            locked: false,
            ptxas: PtxasCheck::IfFound,
            record_registers: false,
            fold_halves: false,
            toolchain: None,
        }
    }

    /// Builds for this architecture alone.
    pub fn arch(self, arch: Arch) -> Self {
        self.archs([arch])
    }

    /// Builds for these architectures; at least one. Kernels that name theirs
    /// (`#[kernel(arch = "sm_90a")]`) are built for it instead. The crate is compiled once for all of
    /// them, so `cfg(target_feature)` does not tell them apart.
    pub fn archs(mut self, archs: impl IntoIterator<Item = Arch>) -> Self {
        self.archs = archs.into_iter().collect();
        self.archs.sort_unstable();
        self.archs.dedup();
        self
    }

    /// Writes `manifest.json` and `<arch>/<family>.ptx` into this folder, and removes the files
    /// that an earlier build of this crate wrote there and this one does not. A folder with other
    /// files of these names is refused. Without this option, a build script writes to `$OUT_DIR/ptx`
    /// and any other program writes nothing.
    pub fn copy_to(mut self, folder: impl Into<PathBuf>) -> Self {
        self.copy_to = Some(folder.into());
        self
    }

    /// Whether to write [`LAUNCHES`](crate::LAUNCHES) beside the manifest: a Rust file with a
    /// function for the launch of each kernel, typed by its parameters. Default: in a build script.
    pub fn launches(mut self, launches: bool) -> Self {
        self.launches = Some(launches);
        self
    }

    /// Writes each module's IR before and after `opt` to `<folder>/<arch>/<family>.pre-opt.ll` and
    /// `.post-opt.ll`, and its PTX, also one that is refused, to `.ptx`.
    pub fn dump_ir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.dump_ir = Some(folder.into());
        self
    }

    /// Cargo's target folder for the device build. Default: `$OUT_DIR/warpsmith-target` in a
    /// build script, else `target/warpsmith` in the crate. It is never the outer cargo's own target
    /// folder: the build would wait forever for its lock.
    pub fn target_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.target_dir = Some(folder.into());
        self
    }

    /// Whether `a * b + c` is contracted to an `fma` (default: yes, as nvcc does). Either way the
    /// PTX determines the bits of the results: ptxas may not contract what is left.
    pub fn contract(mut self, contract: bool) -> Self {
        self.contract = contract;
        self
    }

    /// Builds only this family, in a fraction of the time. It may be called several times. The PTX
    /// and manifest entries of other families stay in [`copy_to`](Self::copy_to)'s folder as they
    /// are.
    ///
    /// Other families are not even compiled if the crate has a feature for each family, and one
    /// named `families`, among its default features, that lists them. The family's feature then
    /// stands for `families`.
    pub fn family(mut self, family: impl Into<String>) -> Self {
        self.families.push(family.into());
        self
    }

    /// How the crate is compiled.
    pub fn profile(mut self, profile: Profile) -> Self {
        self.profile = profile;
        self
    }

    /// [`Profile::Release`] or, with `false`, [`Profile::Checked`].
    pub fn release(self, release: bool) -> Self {
        self.profile(if release {
            Profile::Release
        } else {
            Profile::Checked
        })
    }

    /// Enables features of the crate.
    pub fn features<S: Into<String>>(mut self, features: impl IntoIterator<Item = S>) -> Self {
        self.features.extend(features.into_iter().map(Into::into));
        self
    }

    /// Whether the crate's default features are enabled (default: yes).
    pub fn default_features(mut self, default_features: bool) -> Self {
        self.default_features = default_features;
        self
    }

    /// Whether to emit `.loc` directives, which map PTX to source lines. Default: in a build script,
    /// if the crate is built with debug information, which debug builds are; elsewhere no.
    pub fn line_info(mut self, line_info: bool) -> Self {
        self.line_info = Some(line_info);
        self
    }

    pub(crate) fn has_line_info(&self) -> bool {
        self.line_info.unwrap_or_else(is_debugged)
    }

    /// Whether a panic calls `__assertfail`, as CUDA's `assert` does, so that drivers print its text with
    /// file and line. Else it is a trap alone. Default: in a checked build, and in a build script as for
    /// [`line_info`](Self::line_info).
    pub fn panic_messages(mut self, panic_messages: bool) -> Self {
        self.panic_messages = Some(panic_messages);
        self
    }

    pub(crate) fn has_panic_messages(&self) -> bool {
        let by_default = || self.profile == Profile::Checked || is_debugged();
        self.panic_messages.unwrap_or_else(by_default)
    }

    /// Whether to fail if `Cargo.lock` would have to change (default: no).
    pub fn locked(mut self, locked: bool) -> Self {
        self.locked = locked;
        self
    }

    /// When ptxas checks the result (default: if one is found).
    pub fn ptxas(mut self, check: PtxasCheck) -> Self {
        self.ptxas = check;
        self
    }

    /// Whether to record each kernel's register count in the manifest. This requires a ptxas, and
    /// the manifest then depends on its release. Default: no, so that machines with and without
    /// ptxas produce the same manifest.
    pub fn record_registers(mut self, record: bool) -> Self {
        self.record_registers = record;
        self
    }

    /// Whether kernels of bf16 and f16 that differ in the type alone are one text in the file. The
    /// manifest says which ([`KernelEntry::text_of`](ptx_syntax::manifest::KernelEntry::text_of)), so
    /// such a file is loaded with its manifest. Default: no.
    pub fn fold_halves(mut self, fold: bool) -> Self {
        self.fold_halves = fold;
        self
    }

    /// Uses this toolchain instead of looking for one.
    pub fn toolchain(mut self, toolchain: DeviceToolchain) -> Self {
        self.toolchain = Some(toolchain);
        self
    }

    /// Runs the build. In a build script it also prints `cargo:rerun-if-changed` for the sources
    /// of the crate and its path dependencies.
    ///
    /// # Errors
    /// [`Error`]: the toolchain is missing, the crate does not compile or has no kernel, or its PTX
    /// breaks a rule. In that case nothing is written.
    pub fn build(&self) -> Result<BuildReport, Error> {
        let krate = self.checked_crate()?;
        let toolchain = match &self.toolchain {
            Some(toolchain) => toolchain.clone(),
            None => DeviceToolchain::discover()?,
        };
        let ptxas = self.find_ptxas()?;
        let work = tempfile::tempdir().map_err(|source| Error::Io {
            step: Step::Link,
            path: env::temp_dir(),
            source,
        })?;
        let build = CrateBuild {
            options: self,
            krate: &krate,
            toolchain: &toolchain,
            ptxas: ptxas.as_ref(),
            work: work.path(),
        };
        let code = build.code()?;
        let folder = self
            .copy_to
            .clone()
            .or_else(|| Some(build_script_folder()?.join("ptx")));
        let output = folder.as_deref();
        let output = output
            .map(|path| write::Folder::of(path, &code.name))
            .transpose()?;
        let modules = self.modules(&build, &code);
        let modules = modules.map_err(|error| self.with_lines(error, &build))?;
        let mut manifest = Manifest {
            format: FORMAT,
            krate: code.name.clone(),
            toolchain: Toolchain {
                rustc: toolchain.rustc_version.clone(),
                llvm: toolchain.llvm_version.clone(),
                cuda_builder: env!("CARGO_PKG_VERSION").to_owned(),
            },
            modules: modules.iter().map(|module| module.entry.clone()).collect(),
        };
        if let (Some(folder), false) = (&folder, self.families.is_empty()) {
            write::keep_others(folder, &mut manifest, &self.families)?;
        }
        if let Some(output) = output {
            output.write(&manifest, &modules)?;
            if self.launches.unwrap_or(build_script_folder().is_some()) {
                output.write_launches(&manifest)?;
            }
        }
        let mut sources = code.sources;
        sources.sort();
        sources.dedup();
        let report = BuildReport {
            manifest,
            modules,
            folder,
            toolchain,
            ptxas,
            sources,
        };
        if build_script_folder().is_some() {
            report.print_rerun(&krate);
        }
        Ok(report)
    }

    /// [`build`](Self::build) in a build script, which may be that of the kernels' own crate: where
    /// the crate is compiled for the device, this does nothing.
    ///
    /// # Errors
    /// As [`build`](Self::build).
    pub fn build_script(&self) -> Result<(), Error> {
        if env::var_os("TARGET").is_some_and(|target| target == TARGET) {
            return Ok(());
        }
        self.build().map(drop)
    }

    /// The error with the lines of the source: that of the same build with line information, where a
    /// safe kernel is refused for its barriers and this build has none.
    fn with_lines(&self, error: Error, build: &CrateBuild<'_>) -> Error {
        let lacks_lines = match &error {
            Error::Refused { refusals, .. } => refusals.iter().any(Refusal::lacks_its_line),
            _ => false,
        };
        if !lacks_lines || self.has_line_info() {
            return error;
        }
        let options = &self.clone().line_info(true);
        let build = CrateBuild { options, ..*build };
        match build.code().and_then(|code| options.modules(&build, &code)) {
            Err(again @ Error::Refused { .. }) => again,
            _ => error,
        }
    }

    /// Builds the families asked for, for the architectures asked for and those that kernels name:
    /// the modules, sorted.
    fn modules(&self, build: &CrateBuild<'_>, code: &CrateCode) -> Result<Vec<BuiltModule>, Error> {
        let archs: BTreeSet<Arch> = self.archs.iter().copied().chain(code.named()).collect();
        let mut there = BTreeSet::new();
        let mut todo = Vec::new();
        for arch in archs {
            for family in code.families(arch, self.archs.contains(&arch))? {
                there.insert(family.name.clone());
                if self.families.is_empty() || self.families.contains(&family.name) {
                    todo.push((arch, family));
                }
            }
        }
        self.check_families(&there)?;
        // The longest first, so that no core waits for one that was begun last.
        todo.sort_by_key(|(_, family)| Reverse(family.module.lines()));
        let mut modules = side_by_side(todo, |(arch, family)| build.family(arch, family))?;
        modules.sort_by(|a, b| (a.arch, &a.family).cmp(&(b.arch, &b.family)));
        Ok(modules)
    }

    /// Checks that each family asked for exists in the crate.
    fn check_families(&self, there: &BTreeSet<String>) -> Result<(), Error> {
        let missing = self.families.iter().find(|family| !there.contains(*family));
        missing.map_or(Ok(()), |missing| {
            let there: Vec<&str> = there.iter().map(String::as_str).collect();
            Err(Error::Option {
                option: "family",
                reason: format!("no `{missing}` in the crate; it has {}", there.join(", ")),
            })
        })
    }

    fn checked_crate(&self) -> Result<PathBuf, Error> {
        let not_a_crate = |reason: &str| Error::NotACrate {
            path: self.krate.clone(),
            reason: reason.to_owned(),
        };
        if self.archs.is_empty() {
            let reason = "is empty; name at least one architecture".to_owned();
            return Err(Error::Option {
                option: "archs",
                reason,
            });
        }
        let folder = if self.krate.ends_with("Cargo.toml") {
            self.krate.parent().unwrap_or(Path::new(".")).to_owned()
        } else {
            self.krate.clone()
        };
        let folder = if folder.as_os_str().is_empty() {
            PathBuf::from(".")
        } else {
            folder
        };
        let folder = folder
            .canonicalize()
            .map_err(|error| not_a_crate(&error.to_string()))?;
        if !folder.join("Cargo.toml").is_file() {
            return Err(not_a_crate("it has no Cargo.toml"));
        }
        Ok(folder)
    }

    fn find_ptxas(&self) -> Result<Option<Ptxas>, Error> {
        match self.ptxas {
            PtxasCheck::Never if self.record_registers => Err(Error::Option {
                option: "record_registers",
                reason: "needs ptxas, which PtxasCheck::Never forbids".to_owned(),
            }),
            PtxasCheck::Never => Ok(None),
            PtxasCheck::IfFound if !self.record_registers => Ok(Ptxas::discover().ok()),
            _ => Ok(Some(Ptxas::discover()?)),
        }
    }
}

/// The value of `OUT_DIR`, if this runs in a build script.
pub(crate) fn build_script_folder() -> Option<PathBuf> {
    env::var_os("NUM_JOBS")?;
    env::var_os("OUT_DIR").map(PathBuf::from)
}

/// Whether this runs in the build script of a crate that is built with debug information.
fn is_debugged() -> bool {
    let debug = build_script_folder().and_then(|_| env::var_os("DEBUG"));
    debug.is_some_and(|debug| debug == "true")
}

impl BuildReport {
    fn print_rerun(&self, krate: &Path) {
        println!(
            "cargo:rerun-if-changed={}",
            krate.join("Cargo.toml").display()
        );
        for folder in &self.sources {
            println!("cargo:rerun-if-changed={}", folder.display());
        }
        use crate::toolchain::{LLVM_VARIABLE, PTXAS_VARIABLE, RUST_VARIABLE};
        for variable in [RUST_VARIABLE, LLVM_VARIABLE, PTXAS_VARIABLE] {
            println!("cargo:rerun-if-env-changed={variable}");
        }
    }
}

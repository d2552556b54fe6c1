//! Compiles a family's module to PTX with opt and llc.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::arch::Arch;
use crate::comments;
use crate::error::{Error, Step};
use crate::inlined;
use crate::ir::Module;
use crate::ir::atomics;
use crate::ir::families::Family;
use crate::ir::panics;
use crate::narrow::narrow;
use crate::process;
use crate::rounding;
use crate::toolchain::DeviceToolchain;

/// How to compile.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Codegen<'a> {
    pub(crate) toolchain: &'a DeviceToolchain,
    pub(crate) arch: Arch,
    /// Whether to contract `a * b + c` to an `fma`.
    pub(crate) contract: bool,
    pub(crate) work: &'a Path,
    /// Folder for the module's IR before and after opt, and for its PTX.
    pub(crate) dump: Option<&'a Path>,
}

impl Codegen<'_> {
    /// Compiles one family.
    pub(crate) fn ptx(&self, family: &Family) -> Result<String, Error> {
        let before = self.work.join(format!("{}.pre-opt.ll", family.name));
        let after = self.work.join(format!("{}.post-opt.ll", family.name));
        let out = self.work.join(format!("{}.ptx", family.name));
        let ir = inlined::join_folders(&family.module.to_string());
        fs::write(&before, ir).map_err(io(&before))?;
        self.dump(&before)?;
        self.optimise(family, &before, &after)?;
        self.order_atomics(&after)?;
        self.dump(&after)?;
        self.select(&after, &out)?;
        let ptx = panics::define(fs::read_to_string(&out).map_err(io(&out))?);
        let is_safe = |name: &str| {
            let mut kernels = family.kernels.iter();
            kernels.any(|kernel| kernel.safe && kernel.name == name)
        };
        let ptx = inlined::name_callers(&rounding::pin(&ptx), is_safe);
        let ptx = comments::strip(&narrow(&ptx));
        fs::write(&out, &ptx).map_err(io(&out))?;
        self.dump(&out)?;
        Ok(ptx)
    }

    fn optimise(&self, family: &Family, before: &Path, after: &Path) -> Result<(), Error> {
        let mut command = Command::new(self.toolchain.llvm_tool("opt"));
        command
            .arg("-passes=internalize,globaldce,default<O3>")
            .arg(format!(
                "-internalize-public-api-list={}",
                public(family).join(",")
            ))
            // With LLVM's default threshold, loops over an accumulator of 128 registers are not
            // unrolled, and the array ends up in local memory.
            .arg("-unroll-threshold=20000")
            .arg(format!("-mcpu={}", self.arch))
            .args(["-S", "-o"])
            .args([after, before]);
        process::run(Step::Optimise, before, &mut command).map(drop)
    }

    /// Applies [`atomics`] to the module in the file, which is left as it is if it has none.
    fn order_atomics(&self, ir: &Path) -> Result<(), Error> {
        let mut module = Module::parse(&fs::read_to_string(ir).map_err(io(ir))?);
        if !atomics::apply(&mut module)? {
            return Ok(());
        }
        let ordered = ir.with_extension("atomics.ll");
        fs::write(&ordered, module.to_string()).map_err(io(&ordered))?;
        let mut command = Command::new(self.toolchain.llvm_tool("opt"));
        command
            .args(["-passes=always-inline,globaldce", "-S", "-o"])
            .args([ir, &ordered]);
        process::run(Step::Optimise, &ordered, &mut command).map(drop)
    }

    fn select(&self, ir: &Path, out: &Path) -> Result<(), Error> {
        let (major, minor) = self.arch.ptx_version();
        let contract = if self.contract { "fast" } else { "off" };
        let mut command = Command::new(self.toolchain.llvm_tool("llc"));
        command
            .args(["-O3", "-mtriple=nvptx64-nvidia-cuda"])
            .arg(format!("-mcpu={}", self.arch))
            .arg(format!("-mattr=+ptx{major}{minor}"))
            .arg(format!("-fp-contract={contract}"))
            .arg("-o")
            .args([out, ir]);
        process::run(Step::Codegen, ir, &mut command).map(drop)
    }

    fn dump(&self, file: &Path) -> Result<(), Error> {
        let Some(folder) = self.dump else {
            return Ok(());
        };
        let folder = folder.join(self.arch.name());
        fs::create_dir_all(&folder).map_err(io(&folder))?;
        let name = file.file_name().unwrap_or_default();
        let to: PathBuf = folder.join(name);
        fs::copy(file, &to).map(drop).map_err(io(&to))
    }
}

/// Symbols that stay visible: kernels, fragments, and `#[no_mangle]` statics, which the host may
/// look up.
fn public(family: &Family) -> Vec<String> {
    let kernels = family.kernels.iter().map(|kernel| kernel.name.clone());
    let statics = family.module.globals().filter(|global| {
        let local = ["internal ", "private ", "external "];
        !local.iter().any(|word| global.definition.starts_with(word))
            && !global.name.starts_with("__")
            && !global.name.starts_with("llvm.")
    });
    let fragments = family.fragments.iter();
    kernels
        .chain(fragments.map(|fragment| fragment.name.clone()))
        .chain(statics.map(|global| global.name.clone()))
        .collect()
}

fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Io {
        step: Step::Codegen,
        path,
        source,
    }
}

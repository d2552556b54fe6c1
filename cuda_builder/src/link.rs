//! Links rlibs to one module of textual IR with llvm-ar and llvm-link.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::compile::Compiled;
use crate::error::{Error, Step};
use crate::ir::Module;
use crate::process;
use crate::toolchain::DeviceToolchain;

/// Links all of the crate's own code with the parts of the other rlibs that it needs.
pub(crate) fn link(
    toolchain: &DeviceToolchain,
    compiled: &Compiled,
    work: &Path,
) -> Result<Module, Error> {
    let own = unpack(toolchain, &compiled.own, &work.join("own"))?;
    let own = join_own(toolchain, &own, work)?;
    let mut others = Vec::new();
    for (index, rlib) in compiled.others.iter().enumerate() {
        others.extend(unpack(toolchain, rlib, &work.join(format!("rlib{index}")))?);
    }
    // With `--only-needed`, llvm-link takes from each input what is undefined when it reaches it.
    // Crates need each other in any order (core and compiler_builtins even mutually), so the inputs
    // are listed once more until no further symbol gets defined.
    let mut looks = 1;
    let mut open = None;
    loop {
        let module = link_once(toolchain, &own, &others, looks, work)?;
        let undefined = undefined(&module);
        if undefined.is_empty() || open.as_ref() == Some(&undefined) {
            return Ok(module);
        }
        open = Some(undefined);
        looks += 1;
    }
}

fn link_once(
    toolchain: &DeviceToolchain,
    own: &Path,
    others: &[PathBuf],
    looks: usize,
    work: &Path,
) -> Result<Module, Error> {
    let linked = work.join("linked.ll");
    let mut command = Command::new(toolchain.llvm_tool("llvm-link"));
    command.arg("-S").arg(own).arg("--only-needed");
    for _ in 0..looks {
        command.args(others);
    }
    command.arg("-o").arg(&linked);
    process::run(Step::Link, own, &mut command)?;
    let text = fs::read_to_string(&linked).map_err(|source| Error::Io {
        step: Step::Link,
        path: linked,
        source,
    })?;
    Ok(Module::parse(&text))
}

/// Functions and variables that are declared but not defined, except LLVM's own.
fn undefined(module: &Module) -> BTreeSet<String> {
    let functions = module
        .functions()
        .filter(|function| function.body.is_none());
    let functions = functions.map(|function| &function.name);
    let globals = module
        .globals()
        .filter(|global| global.definition.starts_with("external "));
    let names = functions.chain(globals.map(|global| &global.name));
    names
        .filter(|name| !name.starts_with("llvm."))
        .cloned()
        .collect()
}

/// Joins the crate's own modules into one: `--only-needed` applies to every input except the first.
fn join_own(toolchain: &DeviceToolchain, own: &[PathBuf], work: &Path) -> Result<PathBuf, Error> {
    let joined = work.join("own.bc");
    let mut command = Command::new(toolchain.llvm_tool("llvm-link"));
    command.args(own).arg("-o").arg(&joined);
    process::run(Step::Link, &joined, &mut command)?;
    Ok(joined)
}

/// Extracts the bitcode of an rlib. An object that is not bitcode is an error, as its code would
/// silently be missing.
fn unpack(toolchain: &DeviceToolchain, rlib: &Path, folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let io = |path: &Path| {
        let path = path.to_owned();
        move |source| Error::Io {
            step: Step::Unpack,
            path,
            source,
        }
    };
    fs::create_dir_all(folder).map_err(io(folder))?;
    let tool = toolchain.llvm_tool("llvm-ar");
    let mut command = Command::new(&tool);
    command.arg("x").arg("--output").arg(folder).arg(rlib);
    process::run(Step::Unpack, rlib, &mut command)?;
    let mut objects = Vec::new();
    for entry in folder.read_dir().map_err(io(folder))? {
        let path = entry.map_err(io(folder))?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "rmeta")
        {
            continue;
        }
        let bytes = fs::read(&path).map_err(io(&path))?;
        if !bytes.starts_with(b"BC\xc0\xde") {
            let cause = format!("{} in {} is not bitcode", path.display(), rlib.display());
            return Err(Error::Output {
                step: Step::Unpack,
                tool,
                cause,
            });
        }
        objects.push(path);
    }
    objects.sort();
    Ok(objects)
}

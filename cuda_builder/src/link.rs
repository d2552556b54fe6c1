//! llvm-ar and llvm-link: rlibs to one module of textual IR.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::compile::Compiled;
use crate::error::{Error, Step};
use crate::process;
use crate::toolchain::DeviceToolchain;

/// Links all of the crate's own code with what it needs of the others.
pub(crate) fn link(
    toolchain: &DeviceToolchain,
    compiled: &Compiled,
    work: &Path,
) -> Result<String, Error> {
    let mut objects = Vec::new();
    for (index, rlib) in compiled.rlibs.iter().enumerate() {
        objects.push(unpack(toolchain, rlib, &work.join(format!("rlib{index}")))?);
    }
    let (own, others) = objects
        .split_first()
        .map_or((&[][..], &[][..]), |(own, others)| (own.as_slice(), others));
    let all_own = join_own(toolchain, own, work)?;
    let linked = work.join("linked.ll");
    let mut command = Command::new(toolchain.llvm_tool("llvm-link"));
    command
        .arg("-S")
        .arg(&all_own)
        .arg("--only-needed")
        .args(others.iter().flatten());
    // core and compiler_builtins need each other; a second look finds what the first left open.
    command
        .args(others.iter().rev().take(2).flatten())
        .arg("-o")
        .arg(&linked);
    process::run(Step::Link, &all_own, &mut command)?;
    fs::read_to_string(&linked).map_err(|source| Error::Io {
        step: Step::Link,
        path: linked,
        source,
    })
}

/// `--only-needed` holds for every input but the first, so the crate's own come as one.
fn join_own(toolchain: &DeviceToolchain, own: &[PathBuf], work: &Path) -> Result<PathBuf, Error> {
    let joined = work.join("own.bc");
    let mut command = Command::new(toolchain.llvm_tool("llvm-link"));
    command.args(own).arg("-o").arg(&joined);
    process::run(Step::Link, &joined, &mut command)?;
    Ok(joined)
}

/// Extracts the bitcode of an rlib. An object that is no bitcode would be code that silently
/// goes missing, so it is an error.
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
            let cause = format!("{} in {} is no bitcode", path.display(), rlib.display());
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

//! `WARPSMITH_DUMP=folder` writes the PTX of each kernel into that folder when the kernel is
//! loaded, on a GPU or on the emulator. The text is what the driver or the emulator gets, after all
//! edits. The folder is made if it is not there.
//!
//! | file | kernel |
//! |---|---|
//! | `<entry>.<variant>.<arch>.ptx` | an embedded one |
//! | `<skeleton>_<hash>.<variant>.<arch>.ptx` | a composed one, with its fragments inlined |
//!
//! The variant is `plain`, `brief` or `streaming`, and the architecture is the device's. The hash is
//! of the composed text, before its edits.

use super::LoadVariant;
use crate::error::{Error, KernelError, Result};
use std::ffi::OsStr;
use std::path::Path;
use std::{env, fs, io};

/// The environment variable with the folder. Empty means none.
const FOLDER: &str = "WARPSMITH_DUMP";

/// Writes the text of a kernel if the environment asks for it.
///
/// # Errors
/// [`KernelError::Dump`] where the file cannot be written.
pub(super) fn write(
    name: &str,
    variant: LoadVariant,
    (major, minor): (u32, u32),
    text: &str,
) -> Result<()> {
    let Some(folder) = env::var_os(FOLDER).filter(|folder| !folder.is_empty()) else {
        return Ok(());
    };
    let file = format!("{name}.{variant}.sm_{major}{minor}.ptx");
    into(&folder, &file, text).map_err(|error| {
        Error::Kernel(KernelError::Dump {
            file: file.into(),
            folder: folder.to_string_lossy().into(),
            reason: error.to_string().into(),
        })
    })
}

fn into(folder: &OsStr, file: &str, text: &str) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    fs::write(Path::new(folder).join(file), text)
}

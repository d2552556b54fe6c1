//! Outputs of commands: buffered stdout, and files that are written atomically.

use std::fs::File;
use std::io::{self, BufWriter, Stdout, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::failure::UsageError;

/// Standard output. Write errors are returned rather than panics, so that the program can end
/// silently when the pipe is closed.
pub(crate) struct Output {
    inner: BufWriter<Stdout>,
}

impl Output {
    pub(crate) fn stdout() -> Self {
        Output {
            inner: BufWriter::new(io::stdout()),
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.inner.write(bytes).map_err(named)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush().map_err(named)
    }
}

/// The same error, which says what could not be written.
fn named(error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("standard output: {error}"))
}

/// Several files, which are first written to temporary files beside their destinations and then
/// moved there together by [`OutputFiles::commit`]. If it is dropped before, nothing is left
/// behind.
#[derive(Default)]
pub(crate) struct OutputFiles {
    pending: Vec<Pending>,
}

struct Pending {
    temporary: PathBuf,
    place: PathBuf,
}

impl OutputFiles {
    /// Fails before any work is done if `path` cannot become a file.
    pub(crate) fn check(path: &Path) -> Result<()> {
        // `-` means standard output in other programs, so nobody would look for a file with this
        // name.
        if path.as_os_str() == "-" {
            let message = "cannot write -: results are files, not standard output; ./- is a file \
                           of that name";
            return Err(UsageError(message.into()).into());
        }
        // A path would lose the separator, and the file get the name that was meant for a folder.
        let last = path.as_os_str().as_encoded_bytes().last().copied();
        anyhow::ensure!(
            path.is_dir() || !last.is_some_and(|byte| std::path::is_separator(byte.into())),
            "cannot write {}: it names a directory, want a file",
            path.display()
        );
        let target = target(path)?;
        let folder = folder_of(&target);
        let above = folder.ancestors().find(|above| above.exists());
        if let Some(file) = above.filter(|above| !above.is_dir()) {
            let (path, file) = (path.display(), file.display());
            anyhow::bail!("cannot write {path}: {file} is not a directory");
        }
        anyhow::ensure!(
            folder.is_dir(),
            "cannot write {}: the directory {} does not exist",
            path.display(),
            folder.display()
        );
        anyhow::ensure!(
            !path.is_dir(),
            "cannot write {}: it is a directory",
            path.display()
        );
        // The final rename would replace a device or a pipe by a file.
        anyhow::ensure!(
            path.is_file() || !path.exists(),
            "cannot write {}: it is there and not a regular file",
            path.display()
        );
        Ok(())
    }

    /// The canonical form of `path`: two paths of the same file have the same one.
    pub(crate) fn place(path: &Path) -> Result<PathBuf> {
        let name = path.file_name().ok_or_else(|| {
            UsageError(format!(
                "cannot write '{}': an output needs a file name",
                path.display()
            ))
        })?;
        let describe = || format!("cannot write {}", path.display());
        if path.exists() {
            return path.canonicalize().with_context(describe);
        }
        let target = target(path)?;
        let name = target.file_name().unwrap_or(name);
        let folder = folder_of(&target).canonicalize().with_context(describe)?;
        Ok(folder.join(name))
    }

    /// Writes the file for `path` with `fill`, under a temporary name until
    /// [`OutputFiles::commit`].
    pub(crate) fn add(
        &mut self,
        path: &Path,
        fill: impl FnOnce(&mut BufWriter<File>) -> Result<()>,
    ) -> Result<()> {
        Self::check(path)?;
        let place = Self::place(path)?;
        let mut name = std::ffi::OsString::from(".");
        name.push(place.file_name().context("an output file needs a name")?);
        name.push(format!(
            ".{}-{}.part",
            std::process::id(),
            self.pending.len()
        ));
        let temporary = folder_of(&place).join(name);
        let describe = || format!("cannot write {}", path.display());
        let file = File::create_new(&temporary).with_context(describe)?;
        self.pending.push(Pending { temporary, place });
        let mut writer = BufWriter::new(file);
        fill(&mut writer).with_context(describe)?;
        writer.flush().with_context(describe)
    }

    /// Moves every file to its destination.
    pub(crate) fn commit(mut self) -> Result<()> {
        while let Some(Pending { temporary, place }) = self.pending.first() {
            std::fs::rename(temporary, place)
                .with_context(|| format!("cannot write {}", place.display()))?;
            self.pending.remove(0);
        }
        Ok(())
    }
}

impl Drop for OutputFiles {
    fn drop(&mut self) {
        for Pending { temporary, .. } in &self.pending {
            // If removal fails, the file does not exist, or its directory is gone.
            std::fs::remove_file(temporary).ok();
        }
    }
}

/// The file that `path` is to become: what a link leads to, even if that is not there yet, for a
/// rename would replace the link.
fn target(path: &Path) -> Result<PathBuf> {
    /// As many as Linux follows.
    const MOST_LINKS: usize = 40;
    let mut target = path.to_owned();
    for _ in 0..MOST_LINKS {
        if !target.is_symlink() {
            return Ok(target);
        }
        let next = std::fs::read_link(&target)
            .with_context(|| format!("cannot write {}", path.display()))?;
        target = folder_of(&target).join(next);
    }
    anyhow::bail!(
        "cannot write {}: it is a link that leads on more than {MOST_LINKS} times",
        path.display()
    )
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

//! Where commands write: stdout with buffering, and files that appear whole or not at all.

use std::fs::File;
use std::io::{self, BufWriter, Stdout, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Standard output. Its errors are returned, never a panic, so that a closed pipe can end the
/// program in silence.
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
        self.inner.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Several files that are written beside their places first and moved there together by
/// [`OutputFiles::commit`]. Dropped before that, they leave nothing behind.
#[derive(Default)]
pub(crate) struct OutputFiles {
    pending: Vec<Pending>,
}

struct Pending {
    temporary: PathBuf,
    place: PathBuf,
}

impl OutputFiles {
    /// Fails early, before any work is done, where `path` cannot become a file.
    pub(crate) fn check(path: &Path) -> Result<()> {
        // It means standard output elsewhere, where nobody looks for a file of that name.
        anyhow::ensure!(
            path.as_os_str() != "-",
            "cannot write -: results are files, not standard output; ./- is a file of that name"
        );
        let folder = folder_of(path);
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
        // A device or a pipe would be replaced by a file.
        anyhow::ensure!(
            path.is_file() || !path.exists(),
            "cannot write {}: it is there and not a regular file",
            path.display()
        );
        Ok(())
    }

    /// Where `path` leads to, however it is spelled: two paths of one file have one place.
    pub(crate) fn place(path: &Path) -> Result<PathBuf> {
        let name = path.file_name().with_context(|| {
            format!(
                "cannot write '{}': an output needs a file name",
                path.display()
            )
        })?;
        let describe = || format!("cannot write {}", path.display());
        if path.exists() {
            return path.canonicalize().with_context(describe);
        }
        let folder = folder_of(path).canonicalize().with_context(describe)?;
        Ok(folder.join(name))
    }

    /// Writes `path` through `fill`, under a temporary name for now.
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

    /// Moves every file to its place.
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
            // A file that cannot be removed here was never there, or its folder is gone.
            std::fs::remove_file(temporary).ok();
        }
    }
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

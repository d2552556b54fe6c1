//! The text of source files, where they are on this machine.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Largest file that is shown.
const MOST_BYTES: u64 = 1 << 20;

/// Finds source files: as they are named, or beside the PTX file or the folders above it.
pub(super) struct Sources {
    folders: Vec<PathBuf>,
}

impl Sources {
    pub(super) fn new(ptx: &Path) -> Self {
        let beside = ptx.canonicalize().unwrap_or_else(|_| ptx.to_owned());
        let above = beside.ancestors().skip(1).map(Path::to_owned);
        Self {
            folders: std::iter::once(PathBuf::new()).chain(above).collect(),
        }
    }

    /// The lines of the files that are there.
    pub(super) fn read<'f>(
        &self,
        files: impl Iterator<Item = &'f str>,
    ) -> BTreeMap<&'f str, Vec<String>> {
        let mut read = BTreeMap::new();
        for file in files {
            if !read.contains_key(file)
                && let Some(text) = self.text(file)
            {
                read.insert(file, text.lines().map(str::to_owned).collect());
            }
        }
        read
    }

    fn text(&self, file: &str) -> Option<String> {
        let mut paths = self.folders.iter().map(|folder| folder.join(file));
        let is_small = |path: &PathBuf| {
            let found = std::fs::metadata(path);
            found.is_ok_and(|found| found.is_file() && found.len() <= MOST_BYTES)
        };
        std::fs::read_to_string(paths.find(is_small)?).ok()
    }
}

//! The kernels of one build, of which a device gets the newest version that it runs.

use super::manifest::{self, FILE, mismatch};
use super::module::Module;
use super::target_for;
use crate::device::{Device, lock};
use crate::error::{Error, KernelError, Result};
use crate::kernel::Kernel;
use ptx_syntax::manifest::{Manifest, ModuleEntry};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, OnceLock};

/// The modules that one build of a kernels crate made, on a device. The functions that
/// `cuda_builder` writes to `kernels.rs` launch kernels of it.
pub struct Built {
    device: Device,
    manifest: Manifest,
    /// Path and text of each module of the manifest.
    texts: &'static [(&'static str, &'static str)],
    /// What has been loaded, by path.
    loaded: Mutex<HashMap<String, Module>>,
}

impl Built {
    /// The modules of `manifest`, whose paths and texts are `texts`. Nothing is loaded yet.
    ///
    /// # Errors
    /// [`KernelError::Manifest`] where the manifest cannot be read.
    pub fn new(
        device: &Device,
        manifest: &str,
        texts: &'static [(&'static str, &'static str)],
    ) -> Result<Self> {
        Ok(Self {
            device: device.clone(),
            manifest: manifest::read(manifest).map_err(|detail| mismatch(FILE, detail))?,
            texts,
            loaded: Mutex::default(),
        })
    }

    /// The kernel `name`: `known`, or the one of the module with the newest architecture that the
    /// device runs, which `known` then holds.
    ///
    /// # Errors
    /// [`KernelError::Missing`] where no module that the device runs has it, and those of
    /// [`Device::load_built`].
    pub fn kernel<'k>(&self, known: &'k OnceLock<Kernel>, name: &str) -> Result<&'k Kernel> {
        if let Some(kernel) = known.get() {
            return Ok(kernel);
        }
        let kernel = self.module(name)?.kernel(name)?;
        Ok(known.get_or_init(|| kernel))
    }

    /// The module from which launches of the kernel `name` take it: that of the newest architecture
    /// that the device runs. It has the variables that the kernel accesses.
    ///
    /// # Errors
    /// As [`kernel`](Self::kernel).
    pub fn module(&self, name: &str) -> Result<Module> {
        let arch = self.device.arch();
        let has_it = |module: &&ModuleEntry| module.kernels.iter().any(|it| it.name == name);
        let suitable = self.manifest.modules.iter().filter(has_it);
        let suitable = suitable.filter_map(|module| Some((target_for(module, arch)?, module)));
        let (_, module) = suitable.max_by_key(|(target, _)| *target).ok_or_else(|| {
            Error::Kernel(KernelError::Missing {
                name: name.into(),
                arch,
            })
        })?;
        self.load(module)
    }

    fn load(&self, entry: &ModuleEntry) -> Result<Module> {
        let mut loaded = lock(&self.loaded);
        if let Some(module) = loaded.get(&entry.path) {
            return Ok(module.clone());
        }
        let mut texts = self.texts.iter();
        let (_, text) = texts
            .find(|(path, _)| *path == entry.path)
            .ok_or_else(|| mismatch(&entry.path, "the text of this module is missing"))?;
        let module = manifest::load(&self.device, text, entry)?;
        loaded.insert(entry.path.clone(), module.clone());
        Ok(module)
    }
}

impl fmt::Debug for Built {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Built({} on {})", self.manifest.krate, self.device)
    }
}

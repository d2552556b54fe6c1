//! Composed kernels that a device has loaded.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError, RwLock};

use crate::device::{Device, lock};
use crate::error::{Error, Result};
use crate::module::{Kernel, Module};

/// Kernels by what was composed.
#[derive(Default)]
pub(crate) struct Cache {
    kernels: RwLock<HashMap<Box<[u64]>, Kernel>>,
    /// Held while one is loaded, so that none is loaded twice.
    loading: Mutex<()>,
}

impl Cache {
    fn get(&self, key: &[u64]) -> Option<Kernel> {
        let kernels = self.kernels.read().unwrap_or_else(PoisonError::into_inner);
        kernels.get(key).cloned()
    }
}

impl Device {
    /// The one kernel of the module that `compose` writes, composed and loaded on the first call
    /// with this key and kept. A later call allocates nothing.
    ///
    /// Loading compiles, so whoever captures launches into a graph launches each once before.
    ///
    /// # Errors
    /// What `compose` returns, and those of loading PTX.
    pub(crate) fn composed(
        &self,
        key: &[u64],
        compose: impl FnOnce() -> Result<String>,
    ) -> Result<Kernel> {
        let cache = self.compositions();
        if let Some(kernel) = cache.get(key) {
            return Ok(kernel);
        }
        let _loading = lock(&cache.loading);
        // Another thread may have been faster.
        if let Some(kernel) = cache.get(key) {
            return Ok(kernel);
        }
        let module = Module::load(self, &compose()?)?;
        let mut names = module.kernel_names();
        let name = names
            .next()
            .ok_or(Error::Bug("a composed module has no kernel"))?;
        let kernel = module.kernel(name)?;
        let mut kernels = cache
            .kernels
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        kernels.insert(key.into(), kernel.clone());
        Ok(kernel)
    }
}

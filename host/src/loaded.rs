//! The kernels that a device has loaded, by key.

use crate::device::lock;
use crate::error::Result;
use crate::module::Kernel;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError, RwLock};

/// Kernels by a key: a name, or a description of what was composed.
pub(crate) struct Loaded<K: ?Sized> {
    kernels: RwLock<HashMap<Box<K>, Kernel>>,
    /// Held while a kernel is loaded, so that none is loaded twice.
    loading: Mutex<()>,
}

impl<K: ?Sized> Default for Loaded<K> {
    fn default() -> Self {
        Self {
            kernels: RwLock::default(),
            loading: Mutex::default(),
        }
    }
}

impl<K: ?Sized + Hash + Eq> Loaded<K>
where
    for<'a> Box<K>: From<&'a K>,
{
    /// The kernel with this key. The first call gets it from `load`; later calls allocate nothing.
    ///
    /// # Errors
    /// What `load` returns.
    pub(crate) fn get_or_load(
        &self,
        key: &K,
        load: impl FnOnce() -> Result<Kernel>,
    ) -> Result<Kernel> {
        if let Some(kernel) = self.get(key) {
            return Ok(kernel);
        }
        let _loading = lock(&self.loading);
        // Another thread may have loaded it in the meantime.
        if let Some(kernel) = self.get(key) {
            return Ok(kernel);
        }
        let kernel = load()?;
        let mut kernels = self.kernels.write().unwrap_or_else(PoisonError::into_inner);
        kernels.insert(key.into(), kernel.clone());
        Ok(kernel)
    }

    fn get(&self, key: &K) -> Option<Kernel> {
        let kernels = self.kernels.read().unwrap_or_else(PoisonError::into_inner);
        kernels.get(key).cloned()
    }
}

//! The kernels that a device has loaded, by key.

use crate::device::{Device, lock};
use crate::error::Result;
use crate::module::{Kernel, KernelInner};
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// Kernels by a key: a name, or a description of what was composed.
pub(crate) struct Loaded<K: ?Sized> {
    kernels: RwLock<HashMap<Box<K>, Arc<KernelInner>>>,
    /// Held while one is loaded, so that none is loaded twice.
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
    /// The kernel of that key on `device`, which this is of; `load` gives it the first time. A later
    /// call allocates nothing.
    ///
    /// # Errors
    /// What `load` returns.
    pub(crate) fn get_or_load(
        &self,
        device: &Device,
        key: &K,
        load: impl FnOnce() -> Result<Kernel>,
    ) -> Result<Kernel> {
        if let Some(kernel) = self.get(device, key) {
            return Ok(kernel);
        }
        let _loading = lock(&self.loading);
        // Another thread may have been faster.
        if let Some(kernel) = self.get(device, key) {
            return Ok(kernel);
        }
        let kernel = load()?;
        let mut kernels = self.kernels.write().unwrap_or_else(PoisonError::into_inner);
        kernels.insert(key.into(), kernel.inner().clone());
        Ok(kernel)
    }

    fn get(&self, device: &Device, key: &K) -> Option<Kernel> {
        let kernels = self.kernels.read().unwrap_or_else(PoisonError::into_inner);
        let inner = kernels.get(key)?;
        Some(Kernel::of(device, inner.clone()))
    }
}

//! The kernels that a device has loaded.

use super::{KernelKey, LoadVariant};
use crate::device::{Device, lock};
use crate::error::Result;
use crate::kernel::{Kernel, KernelInner};
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// Kernels by [`KernelKey`].
pub(crate) struct KernelCache<E: ?Sized> {
    /// A map for each variant: a map of owned pairs could not be searched by a borrowed key.
    kernels: RwLock<[HashMap<Box<E>, Arc<KernelInner>>; LoadVariant::ALL.len()]>,
    /// Held while one is loaded, so that none is loaded twice.
    loading: Mutex<()>,
}

impl<E: ?Sized> Default for KernelCache<E> {
    fn default() -> Self {
        Self {
            kernels: RwLock::default(),
            loading: Mutex::default(),
        }
    }
}

impl<E: ?Sized + Hash + Eq> KernelCache<E>
where
    for<'a> Box<E>: From<&'a E>,
{
    /// The kernel with this key on `device`, which owns this cache. `load` gives it the first time.
    /// A later call allocates nothing.
    ///
    /// # Errors
    /// What `load` returns.
    pub(super) fn get_or_load(
        &self,
        device: &Device,
        key: &KernelKey<'_, E>,
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
        kernels[key.variant as usize].insert(key.entry.into(), kernel.inner().clone());
        Ok(kernel)
    }

    fn get(&self, device: &Device, key: &KernelKey<'_, E>) -> Option<Kernel> {
        let kernels = self.kernels.read().unwrap_or_else(PoisonError::into_inner);
        let inner = kernels[key.variant as usize].get(key.entry)?;
        Some(Kernel::of(device, inner.clone()))
    }
}

//! The choices that a device remembers.

use super::tuned::Tuned;
use super::{Desc, MachineModel, PlanSource, all};
use crate::DeviceInfo;
use crate::device::lock;
use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::{Mutex, OnceLock, PoisonError, RwLock};

/// Choices for descriptions of all operations.
#[derive(Default)]
pub(crate) struct Plans {
    /// A [`Chosen`] for each type of descriptions.
    chosen: RwLock<HashMap<TypeId, Box<dyn Any + Send + Sync>>>,
    tuned: OnceLock<Mutex<Tuned>>,
}

type Chosen<D> = HashMap<D, (<D as Desc>::Candidate, PlanSource)>;

/// Most choices of an operation, which are forgotten when there are as many.
const REMEMBERED: usize = 8192;

impl Plans {
    pub(super) fn get<D: Desc>(&self, desc: &D) -> Option<(D::Candidate, PlanSource)> {
        let all = self.chosen.read().unwrap_or_else(PoisonError::into_inner);
        let chosen = all.get(&TypeId::of::<D>())?.downcast_ref::<Chosen<D>>()?;
        chosen.get(desc).copied()
    }

    /// Makes this the choice for `desc`.
    pub(super) fn remember<D: Desc>(&self, desc: &D, choice: (D::Candidate, PlanSource)) {
        let mut all = self.chosen.write().unwrap_or_else(PoisonError::into_inner);
        let chosen = all.entry(TypeId::of::<D>());
        let chosen = chosen.or_insert_with(|| Box::new(Chosen::<D>::new()));
        if let Some(chosen) = chosen.downcast_mut::<Chosen<D>>() {
            if chosen.len() >= REMEMBERED {
                chosen.clear();
            }
            chosen.insert(desc.clone(), choice);
        }
    }

    /// The tuned choices for this kind of device, loaded on first use.
    fn tuned(&self, device: &DeviceInfo) -> &Mutex<Tuned> {
        self.tuned.get_or_init(|| Mutex::new(Tuned::load(device)))
    }

    /// Makes the winner of a measurement the choice for `desc`, in later processes too.
    pub(super) fn keep<D: Desc>(&self, desc: &D, winner: D::Candidate, device: &DeviceInfo) {
        lock(self.tuned(device)).keep(key(desc), winner.to_string());
        self.remember(desc, (winner, PlanSource::Tuned));
    }

    /// The winner of an earlier measurement, if such a candidate still exists.
    pub(super) fn earlier_winner<D: Desc>(
        &self,
        desc: &D,
        device: &DeviceInfo,
    ) -> Option<D::Candidate> {
        let key = key(desc);
        let name = lock(self.tuned(device)).get(&key)?.to_owned();
        let all = all(desc, device, MachineModel::of(device));
        let found = all.into_iter().find(|choice| choice.to_string() == name);
        if found.is_none() {
            tracing::warn!(key, name, "a tuned choice does not exist on this device");
        }
        found
    }
}

/// The key in the file of tuned choices.
fn key<D: Desc>(desc: &D) -> String {
    format!("{} {desc}", desc.operation())
}

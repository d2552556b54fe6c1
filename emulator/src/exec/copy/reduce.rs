//! Copies that reduce: element by element, as atomics do.

use super::Issuer;
use crate::check::Kind;
use crate::exec::atomic::update;
use crate::exec::cluster::Cluster;
use crate::exec::fault::Checked;
use crate::program::{AtomicOp, AtomicType};
use crate::tensor_map::TensorMapType;

/// Combines `data` into `old`.
pub(super) fn combine(op: AtomicOp, ty: AtomicType, old: &mut [u8], data: &[u8]) {
    let size = ty.bytes();
    let bits = |bytes: &[u8]| {
        let mut word = [0; 8];
        word[..size].copy_from_slice(bytes);
        u64::from_le_bytes(word)
    };
    for (old, new) in old.chunks_exact_mut(size).zip(data.chunks_exact(size)) {
        let result = update(op, ty, bits(old), bits(new));
        old.copy_from_slice(&result.to_le_bytes()[..size]);
    }
}

/// The type in which a reduction works on elements of a map's type; `None` if there is no such
/// reduction.
pub(super) fn of_map(op: AtomicOp, ty: TensorMapType) -> Option<AtomicType> {
    use AtomicOp as O;
    use TensorMapType as T;
    let found = match ty {
        T::U32 => AtomicType::B32,
        T::I32 => AtomicType::S32,
        T::U64 => AtomicType::B64,
        T::I64 => AtomicType::S64,
        T::F16 => AtomicType::F16,
        T::Bf16 => AtomicType::Bf16,
        T::F32 | T::F32Ftz | T::Tf32 | T::Tf32Ftz => AtomicType::F32,
        T::F64 => AtomicType::F64,
        T::U8 | T::U16 => return None,
    };
    let fits = match op {
        O::Add => true,
        O::Min | O::Max => !matches!(found, AtomicType::F32 | AtomicType::F64),
        O::Inc | O::Dec => matches!(ty, T::U32),
        O::And | O::Or | O::Xor => !ty.is_float(),
        O::Exch | O::Cas => false,
    };
    fits.then_some(found)
}

impl Issuer {
    /// Combines data into global memory; each element is atomic.
    pub(super) fn reduce_global(
        &self,
        cluster: &Cluster,
        address: u64,
        data: &[u8],
        (op, ty): (AtomicOp, AtomicType),
    ) -> Checked<()> {
        let _excluded = cluster.global.lock_atomics();
        let mut old = vec![0; data.len()];
        self.read_global(cluster, address, &mut old, Kind::STRONG_READ)?;
        combine(op, ty, &mut old, data);
        self.write_global(cluster, address, &old, Kind::STRONG_WRITE)
    }
}

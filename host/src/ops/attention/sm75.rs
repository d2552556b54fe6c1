//! The kernels by `mma.sync` that Turing runs: f16.

use super::call::Call;
use super::candidates::{Candidate, Entry, estimate_ns};
use super::desc::AttentionDesc;
use super::sm80;
use crate::{DeviceInfo, Result};
use spec::attention::sm75::{O_DTYPES, Sm75Entry};

/// Multiply-adds, counted as two, that a multiprocessor does in a cycle: half of what tensor cores of
/// sm_75 do. Newer devices have better kernels.
const FLOPS_PER_CYCLE: f64 = 512.0;

/// Adds the kernel of the least cap that serves both head dimensions.
pub(super) fn offer(desc: &AttentionDesc, device: &DeviceInfo, offer: &mut dyn FnMut(Candidate)) {
    let Some(entry) = Sm75Entry::of(desc.dtype, desc.head_dim, desc.head_dim_v) else {
        return;
    };
    if device.arch >= (7, 5)
        && O_DTYPES.contains(&desc.o_dtype)
        && let Some(config) = sm80::config(entry.tile(), desc, device)
    {
        offer(Candidate {
            entry: Entry::Sm75(entry),
            tile: [entry.tile().tile_m, entry.tile().tile_n],
            config,
            estimated_ns: estimate_ns(desc, device, FLOPS_PER_CYCLE),
        });
    }
}

/// Enqueues a candidate of [`offer`].
pub(super) fn launch(entry: Sm75Entry, candidate: &Candidate, call: &Call<'_>) -> Result<()> {
    // SAFETY: extents, strides and lengths are those of the call's memory, aligned as `offer` saw to;
    // grid and shared memory are the tile's.
    unsafe { call.launch(entry, candidate.config, &[]) }
}

//! The `mma.sync` kernels for f16 on Turing.

use super::call::Call;
use super::candidates::{Candidate, Entry, estimate_ns};
use super::desc::AttentionDesc;
use super::sm80;
use crate::Result;
use crate::ops::plan::Machine;
use abi::attention::sm75::{O_DTYPES, Sm75Entry};

/// Offers the kernel with the smallest head dimension that covers both head dimensions.
pub(super) fn offer(desc: &AttentionDesc, machine: &Machine, offer: &mut dyn FnMut(Candidate)) {
    let Some(entry) = Sm75Entry::of(desc.dtype, desc.head_dim, desc.head_dim_v) else {
        return;
    };
    if machine.arch >= (7, 5)
        && O_DTYPES.contains(&desc.o_dtype)
        && let Some(config) = sm80::config(entry.tile(), desc, machine)
    {
        let tile = [entry.tile().tile_m, entry.tile().tile_n];
        let estimated_ns = estimate_ns(desc, machine, machine.model.attention.sm75_flops);
        offer(Candidate::plain(
            Entry::Sm75(entry),
            tile,
            config,
            estimated_ns,
        ));
    }
}

/// Enqueues a candidate of [`offer`].
pub(super) fn launch(entry: Sm75Entry, candidate: &Candidate, call: &Call<'_>) -> Result<()> {
    // SAFETY: extents, strides and lengths describe the call's memory, whose alignment `offer`
    // checked. Grid and shared memory are the tile's.
    unsafe { call.launch(entry, candidate.config, |lengths, params| (lengths, params)) }
}

#[cfg(all(test, feature = "emulator"))]
mod tests {
    use super::super::desc::tests::plain;
    use crate::ops::plan::{self, MachineModel};
    use crate::{DType, Device};

    /// Names of the candidates on a device of `arch`, the best first.
    fn names(arch: (u32, u32), dtype: DType, head_dim: u32) -> Vec<String> {
        let mut info = Device::emulator().expect("an emulator").info().clone();
        info.arch = arch;
        if arch == (7, 5) {
            info.max_shared_bytes_per_block = 64 << 10;
        }
        let all = plan::all(&plain(dtype, 512, head_dim), &info, &MachineModel::H200);
        all.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn turing_takes_them_for_f16_up_to_128_and_newer_devices_their_own() {
        let turing = (7, 5);
        for (head_dim, cap) in [(64, 64), (96, 128), (128, 128)] {
            let want = [
                format!("flash_fwd_sm75_f16_d{cap}"),
                format!("flash_fwd_simt_d{cap}"),
            ];
            assert_eq!(names(turing, DType::F16, head_dim), want);
        }
        assert_eq!(names(turing, DType::F16, 256), ["flash_fwd_simt_d256"]);
        assert_eq!(names(turing, DType::Bf16, 64), ["flash_fwd_simt_d64"]);
        let ampere = names((8, 0), DType::F16, 64);
        assert_eq!(
            ampere[..2],
            ["flash_fwd_sm80_f16_d64", "flash_fwd_sm75_f16_d64"]
        );
    }
}

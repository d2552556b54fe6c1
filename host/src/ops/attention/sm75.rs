//! The `mma.sync` kernels for f16 on Turing.

use super::call::Call;
use super::candidates::{Candidate, Entry, estimate_ns};
use super::desc::AttentionDesc;
use super::packing::Sharing;
use super::sm80;
use crate::{DeviceInfo, Result};
use abi::attention::sm75::{O_DTYPES, Sm75Entry};

/// Flops per cycle of an SM, a multiply-add counted as two: half of the tensor cores' peak on
/// sm_75. Newer devices have faster kernels.
const FLOPS_PER_CYCLE: f64 = 512.0;

/// Offers the kernel with the smallest head dimension that covers both head dimensions.
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
            sharing: Sharing::NONE,
            estimated_ns: estimate_ns(desc, device, FLOPS_PER_CYCLE),
        });
    }
}

/// Enqueues a candidate of [`offer`].
pub(super) fn launch(entry: Sm75Entry, candidate: &Candidate, call: &Call<'_>) -> Result<()> {
    // SAFETY: extents, strides and lengths are those of the call's memory, whose alignment `offer`
    // checked; grid and shared memory are those of the tile.
    unsafe { call.launch(entry, candidate.config, &[]) }
}

#[cfg(all(test, feature = "emulator"))]
mod tests {
    use super::super::candidates::offer_all;
    use super::super::desc::tests::plain;
    use crate::{DType, Device};

    /// Names of the candidates on a device of `arch`, the best first.
    fn names(arch: (u32, u32), dtype: DType, head_dim: u32) -> Vec<String> {
        let mut info = Device::emulator().expect("an emulator").info().clone();
        info.arch = arch;
        if arch == (7, 5) {
            info.max_shared_bytes_per_block = 64 << 10;
        }
        let mut all = Vec::new();
        offer_all(&plain(dtype, 512, head_dim), &info, &mut |candidate| {
            all.push(candidate);
        });
        all.sort_by(|x, y| x.estimated_ns.total_cmp(&y.estimated_ns));
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

//! The `mma.sync` kernels for f16 and bf16, on sm_80 and newer
//! (`kernels-gpu/src/attention_grad/sm80`).

use super::call::GradCall;
use super::candidates::{Candidate, Entry, estimate_ns};
use super::desc::GradDesc;
use crate::ops::attention::sm80::{EXP_ULPS, TANH_ERROR};
use crate::ops::plan::Machine;
use crate::reference::attention::AttentionGradModel;
use crate::reference::gemm::Arithmetic;
use crate::{DType, LaunchConfig, Result};
use abi::attention::FlashFwdParams;
use abi::attention_grad::AttentionGradParams;
use abi::attention_grad::sm80::{ALIGN_BYTES, Sm80Grad, Sm80GradEntry, THREADS};

/// Offers the kernels with the smallest head dimension that covers both head dimensions.
pub(super) fn offer(desc: &GradDesc, machine: &Machine, offer: &mut dyn FnMut(Candidate)) {
    let forward = &desc.forward;
    let Some(kernels) = Sm80Grad::of(forward.dtype, forward.head_dim, forward.head_dim_v) else {
        return;
    };
    if machine.arch >= (8, 0) && suits(desc, kernels, machine) {
        let tile = kernels.keys.tile();
        offer(Candidate {
            entry: Entry::Sm80(kernels),
            tile: [tile.columns, tile.rows],
            config: config(kernels.keys, grid(desc, kernels.keys).unwrap_or([0; 3])),
            estimated_ns: estimate_ns(desc, machine, machine.model.attention_grad.sm80_flops),
        });
    }
}

/// Whether the kernels support alignment and scale, and every launch fits the device.
fn suits(desc: &GradDesc, kernels: Sm80Grad, machine: &Machine) -> bool {
    let forward = &desc.forward;
    let has_queries = forward.seqlen_q != 0 && forward.heads_q != 0;
    let has_keys = forward.seqlen_k != 0;
    let operands = [
        &forward.q, &forward.k, &forward.v, &desc.d_o, &desc.dq, &desc.dk, &desc.dv,
    ];
    let fits = |entry: Sm80GradEntry| {
        let is_there = if entry.part.owns_keys() {
            has_keys
        } else {
            has_queries
        };
        (!is_there || grid(desc, entry).is_some())
            && entry.tile().smem_bytes() <= machine.shared_bytes
    };
    forward.positive_scale
        && operands
            .iter()
            .all(|operand| operand.row_align_bytes(forward.dtype) >= ALIGN_BYTES)
        && kernels.entries().all(fits)
}

/// The grid of a kernel; `None` if there is nothing to own, or too much.
fn grid(desc: &GradDesc, entry: Sm80GradEntry) -> Option<[u32; 3]> {
    let (forward, rows) = (&desc.forward, entry.tile().rows);
    if entry.part.owns_keys() {
        AttentionGradParams::grid_of_keys(forward.batch, forward.seqlen_k, forward.heads_kv, rows)
    } else {
        FlashFwdParams::grid(forward.batch, forward.seqlen_q, forward.heads_q, rows)
    }
}

fn config(entry: Sm80GradEntry, grid: [u32; 3]) -> LaunchConfig {
    LaunchConfig {
        grid,
        block: [THREADS, 1, 1],
        shared_bytes: entry.tile().smem_bytes(),
        cluster: None,
    }
}

/// Enqueues a candidate of [`offer`]. Without queries nothing but dk and dv is written, without
/// keys nothing but dq.
pub(super) fn launch(kernels: Sm80Grad, call: &GradCall<'_>) -> Result<()> {
    call.uses()?;
    let (lengths, params) = (call.forward.lengths(), call.params()?);
    let (q, k, v) = (&call.forward.q, &call.forward.k, &call.forward.v);
    let (d_o, lse, delta) = (&call.d_o, &call.lse, &call.delta);
    for entry in kernels.entries() {
        let Some(grid) = grid(&call.desc, entry) else {
            continue;
        };
        if entry == kernels.dq {
            call.launch_delta()?;
        }
        let of_ds = if entry.part.owns_keys() {
            &call.dk
        } else {
            &call.dq
        };
        let of_p = &call.dv;
        // SAFETY: extents, strides and lengths are those of the call's memory, whose alignment
        // `offer` checked; the grid covers what the blocks own, whose gradients these are. delta is
        // written before, on the same stream, where there are queries to read it for.
        unsafe {
            call.launch_scored(
                entry,
                config(entry, grid),
                (q, k, v, d_o, lse, delta, of_ds, of_p),
                &(lengths, params),
            )?;
        }
    }
    Ok(())
}

/// Error model: P and dS are rounded to the element type.
pub(super) fn model(dtype: DType) -> AttentionGradModel {
    let (p_roundoff, p_lost) = rounding(dtype);
    AttentionGradModel {
        exp_ulps: EXP_ULPS,
        scores: Arithmetic::TensorCore,
        products: Arithmetic::TensorCore,
        p_roundoff,
        p_lost,
        tanh_error: TANH_ERROR,
        more_additions: 0,
        sink_additions: usize::MAX,
    }
}

/// Unit roundoff of P and dS in an element type of 16 bits, and the largest error of a small one.
pub(super) fn rounding(dtype: DType) -> (f64, f64) {
    match dtype {
        DType::F16 => (2.0_f64.powi(-11), 2.0_f64.powi(-25)),
        _ => (2.0_f64.powi(-8), 2.0_f64.powi(-126)),
    }
}

#[cfg(all(test, feature = "emulator"))]
mod tests {
    use super::*;
    use crate::Device;
    use crate::ops::attention::desc::tests::plain;
    use crate::ops::plan::{self, MachineModel};

    /// Names of the candidates on a device of `arch`, the best first.
    fn names(arch: (u32, u32), desc: &GradDesc) -> Vec<String> {
        let mut info = Device::emulator().expect("an emulator").info().clone();
        info.arch = arch;
        if arch != (9, 0) {
            info.max_shared_bytes_per_block = 99 << 10;
        }
        let all = plan::all(desc, &info, &MachineModel::H200);
        all.iter().map(ToString::to_string).collect()
    }

    fn desc(dtype: DType, head_dim: u32) -> GradDesc {
        let forward = plain(dtype, 512, head_dim);
        GradDesc {
            forward,
            d_o: forward.o,
            dq: forward.q,
            dk: forward.k,
            dv: forward.v,
        }
    }

    #[test]
    fn every_device_from_ampere_on_offers_them_and_hopper_its_own_first() {
        for (head_dim, cap) in [(64, 64), (96, 128), (256, 256)] {
            let want = [
                format!("attention_grad_sm80_bf16_d{cap}"),
                format!("attention_grad_simt_d{cap}"),
            ];
            for arch in [(8, 0), (8, 6), (8, 9), (10, 0), (12, 0)] {
                assert_eq!(names(arch, &desc(DType::Bf16, head_dim)), want);
            }
            assert_eq!(names((7, 5), &desc(DType::Bf16, head_dim)), want[1..]);
            let hopper = names((9, 0), &desc(DType::Bf16, head_dim));
            assert_eq!(hopper[1..], want);
        }
    }

    #[test]
    fn what_does_not_suit_is_left_to_the_portable_kernels() {
        let portable = ["attention_grad_simt_d64"];
        let ampere = |desc: &GradDesc| names((8, 0), desc);
        assert_eq!(ampere(&desc(DType::F32, 64)), portable);
        assert_eq!(ampere(&desc(DType::F16, 60)), portable);
        let mut shifted = desc(DType::F16, 64);
        shifted.dv.align_bytes = 8;
        assert_eq!(ampere(&shifted), portable);
        let mut rows = desc(DType::F16, 64);
        rows.d_o.strides.seq += 4;
        assert_eq!(ampere(&rows), portable);
        let mut negative = desc(DType::F16, 64);
        negative.forward.positive_scale = false;
        assert_eq!(ampere(&negative), portable);
        let mut lengths = desc(DType::F16, 64);
        lengths.forward.lengths.seqused_k = true;
        assert_eq!(names((9, 0), &lengths).len(), 3);
        assert_eq!(ampere(&lengths).len(), 2);
    }
}

//! Special registers.

use crate::program::{Special, Width};

/// How the value of a special register is obtained.
pub(super) enum Value {
    /// A constant, the same in every launch.
    Constant(u64),
    /// Computed when the instruction runs.
    Read(Special),
}

/// The special register with a name, and its width.
pub(super) fn special(name: &str) -> Option<(Value, Width)> {
    let b32 = |special| Some((Value::Read(special), Width::B32));
    if let Some((base, axis)) = name.split_once('.') {
        let axis = match axis {
            "x" => 0,
            "y" => 1,
            "z" => 2,
            _ => return None,
        };
        return match base {
            "%tid" => b32(Special::Tid(axis)),
            "%ntid" => b32(Special::Ntid(axis)),
            "%ctaid" => b32(Special::Ctaid(axis)),
            "%nctaid" => b32(Special::Nctaid(axis)),
            "%cluster_ctaid" => b32(Special::ClusterCtaid(axis)),
            "%cluster_nctaid" => b32(Special::ClusterNctaid(axis)),
            "%clusterid" => b32(Special::Clusterid(axis)),
            "%nclusterid" => b32(Special::Nclusterid(axis)),
            _ => None,
        };
    }
    match name {
        "%cluster_ctarank" => b32(Special::ClusterCtarank),
        "%cluster_nctarank" => b32(Special::ClusterNctarank),
        "%is_explicit_cluster" => Some((Value::Read(Special::IsExplicitCluster), Width::Pred)),
        "%laneid" => b32(Special::Laneid),
        "%warpid" => b32(Special::Warpid),
        "%nwarpid" => b32(Special::Nwarpid),
        "%lanemask_eq" => b32(Special::LanemaskEq),
        "%lanemask_le" => b32(Special::LanemaskLe),
        "%lanemask_lt" => b32(Special::LanemaskLt),
        "%lanemask_ge" => b32(Special::LanemaskGe),
        "%lanemask_gt" => b32(Special::LanemaskGt),
        "%smid" => b32(Special::Smid),
        "%nsmid" => b32(Special::Nsmid),
        "%gridid" => Some((Value::Read(Special::Gridid), Width::B64)),
        "%envreg1" => b32(Special::GridWorkspace { high: true }),
        "%envreg2" => b32(Special::GridWorkspace { high: false }),
        "%clock" => b32(Special::Clock(false)),
        "%clock_hi" => b32(Special::Clock(true)),
        "%clock64" | "%globaltimer" => Some((Value::Read(Special::Clock(false)), Width::B64)),
        "%globaltimer_lo" => b32(Special::Clock(false)),
        "%globaltimer_hi" => b32(Special::Clock(true)),
        "%dynamic_smem_size" => b32(Special::DynamicSharedSize),
        "%total_smem_size" => b32(Special::TotalSharedSize),
        "%reserved_smem_offset_begin" | "%reserved_smem_offset_0" => {
            Some((Value::Constant(0), Width::B32))
        }
        "%reserved_smem_offset_1" | "%reserved_smem_offset_cap" => Some((
            Value::Constant(crate::memory::shared::SHARED_BASE / 2),
            Width::B32,
        )),
        "%reserved_smem_offset_end" => Some((
            Value::Constant(crate::memory::shared::SHARED_BASE),
            Width::B32,
        )),
        _ => None,
    }
}

/// Whether the name gives the offset of the system's part of shared memory: a kernel that reads it
/// may access that part.
pub(super) fn is_reserved_shared(name: &str) -> bool {
    matches!(name, "%reserved_smem_offset_0" | "%reserved_smem_offset_1")
}

/// Whether the name is a PTX special register that the emulator does not have.
pub(super) fn is_special(name: &str) -> bool {
    [
        "%cluster",
        "%is_explicit_cluster",
        "%envreg",
        "%pm",
        "%reserved_smem",
        "%aggr_smem",
    ]
    .iter()
    .any(|prefix| name.starts_with(prefix))
}

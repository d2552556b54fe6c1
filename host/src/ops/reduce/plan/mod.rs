//! The kernels of a reduction, and the choice between them.
//!
//! The plan takes the first variant with whole rows or columns that is faster for the view, in the
//! order of [`ReduceDesc::layouts`]; otherwise the general variant, which takes any view. A cluster
//! comes before the kernel that takes tickets for the same parts, and pairs of elements come before
//! single elements. In both cases the bits are the same.

mod layout;
#[cfg(test)]
mod tests;

use self::layout::Cutter;
use super::costs::ReduceCosts;
use crate::ops::plan::{Desc, Machine, MachineModel, Ruled};
use crate::{DType, DeviceInfo, LaunchConfig};
use abi::reduce::{CLUSTER_PARTS, Family, ReduceEntry, ReduceOp, ReducePlan, ReduceView, Variant};
use std::fmt;

/// Most tickets that a launch uses.
pub(super) const TICKETS: usize = 16_384;

/// A validated reduction whose operands lie as a view says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ReduceDesc {
    pub(super) op: ReduceOp,
    /// Dtype of the elements that the kernel reads.
    pub(super) dtype: DType,
    /// The general entry.
    pub(super) entry: ReduceEntry,
    pub(super) view: ReduceView,
    /// Whether elements begin at a multiple of 16 bytes.
    pub(super) is_aligned: bool,
}

impl fmt::Display for ReduceDesc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let view = &self.view;
        let (op, entry) = (self.op.name(), self.entry.name());
        write!(f, "{op} {} by {entry}: outer{}", self.dtype, view.outer)?;
        write!(
            f,
            " inner{} segments{} n{}",
            view.inner, view.segments, view.n
        )?;
        let strides = [
            view.outer_stride,
            view.inner_stride,
            view.segment_stride,
            view.axis_stride,
        ];
        write!(f, " strides{strides:?}")?;
        match self.is_aligned {
            true => f.write_str(" aligned"),
            false => Ok(()),
        }
    }
}

/// One way to compute a reduction.
pub(super) type Candidate = Ruled<ReduceEntry, ReducePlan>;

impl ReduceDesc {
    /// Bytes that are read.
    pub(super) fn bytes(&self) -> f64 {
        let operands = if self.op == ReduceOp::Dot { 2.0 } else { 1.0 };
        let outputs = self.view.outer as f64 * self.view.inner as f64;
        operands * outputs * self.view.len() as f64 * self.dtype.size_bytes() as f64
    }

    fn cutter<'a>(&'a self, costs: &'a ReduceCosts) -> Cutter<'a> {
        Cutter {
            view: &self.view,
            lanes: self.entry.lanes(),
            costs,
        }
    }

    /// Whether there is a candidate. Segments of very many outputs need too many tickets; all else has
    /// one.
    pub(super) fn is_possible(&self, costs: &ReduceCosts) -> bool {
        self.view.segments <= 1 || fits(&self.cutter(costs).general())
    }

    /// The layouts of all variants that take this view, in the order of preference, and whether each
    /// pays.
    fn layouts(&self, costs: &ReduceCosts) -> impl Iterator<Item = (ReducePlan, bool)> {
        let cutter = self.cutter(costs);
        let is_whole = self.is_aligned && self.op != ReduceOp::Dot && self.view.n > 0;
        let has = |variant| is_whole && self.entry.with(variant).is_some();
        let small = || cutter.small();
        let long = || cutter.long(batches(self.entry.family));
        let short = || cutter.short();
        let columns = || cutter.columns().map(|plan| (plan, true));
        let special = [
            has(Variant::Small).then(small).flatten(),
            has(Variant::Long).then(long).flatten(),
            has(Variant::Short).then(short).flatten(),
            has(Variant::Columns).then(columns).flatten(),
        ];
        let general = (cutter.general(), true);
        let all = special.into_iter().flatten().chain([general]);
        all.filter(|(plan, _)| fits(plan))
    }

    /// The entries for a layout, in the order of preference, and whether each is a cluster's.
    fn entries(&self, plan: &ReducePlan, arch: (u32, u32)) -> [Option<(ReduceEntry, bool)>; 3] {
        let is_extreme = matches!(self.op, ReduceOp::Max | ReduceOp::Min | ReduceOp::NormInf);
        let plain = self.entry.with(plan.variant);
        let pairs = plain.and_then(|entry| entry.of_family(Family::Extreme));
        let has_pairs = is_extreme && arch.0 >= 8;
        let cluster = self.entry.with(Variant::Cluster);
        [
            cluster
                .filter(|_| is_of_cluster(plan, arch))
                .map(|entry| (entry, true)),
            pairs.filter(|_| has_pairs).map(|entry| (entry, false)),
            plain.map(|entry| (entry, false)),
        ]
    }
}

/// Whether a launch has the tickets that a layout needs.
fn fits(plan: &ReducePlan) -> bool {
    !plan.is_cut() || plan.tickets() <= TICKETS as u64
}

/// Whether one cluster of a device can have all parts of the layout: those of a single row.
fn is_of_cluster(plan: &ReducePlan, arch: (u32, u32)) -> bool {
    // Others have no more than eight blocks in a cluster.
    let most = match arch.0 {
        ..9 => 0,
        9 | 10 => CLUSTER_PARTS as u64,
        _ => 8,
    };
    let is_one_row = plan.variant == Variant::Long && plan.groups == 1;
    is_one_row && plan.is_cut() && plan.parts <= most
}

/// Batches of a part of a long row. A part of moments has three numbers, and one of indices three
/// words, which take longer to merge.
fn batches(family: Family) -> u64 {
    match family {
        Family::Moments | Family::Arg => 2,
        _ => 1,
    }
}

impl Desc for ReduceDesc {
    const OPERATION: &'static str = "reduce";

    type Candidate = Candidate;

    fn candidates(
        &self,
        device: &DeviceInfo,
        model: &MachineModel,
        offer: &mut dyn FnMut(Candidate),
    ) {
        let machine = Machine::of(device, model);
        let mut is_found = false;
        for (plan, pays) in self.layouts(&model.reduce) {
            let entries = self.entries(&plan, device.arch).into_iter().flatten();
            for (entry, is_cluster) in entries {
                let config = LaunchConfig::linear(plan.blocks, plan.threads());
                offer(Ruled {
                    entry,
                    option: "",
                    split: u32::try_from(plan.parts).unwrap_or(u32::MAX),
                    config: match is_cluster {
                        true => config.cluster([plan.blocks, 1, 1]),
                        false => config,
                    },
                    decision: plan,
                    is_first: pays && !is_found,
                    estimated_ns: machine.moving_ns(self.bytes(), plan.blocks.into()),
                });
                is_found |= pays;
            }
        }
    }

    fn supported(&self) -> String {
        "any view of elements".into()
    }
}

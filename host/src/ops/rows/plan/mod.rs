//! Where the rows of a launch are, and the choice between the ways that there are.

mod held;
mod limits;
mod ring;
mod rule;
mod slices;
#[cfg(test)]
mod tests;

pub(in crate::ops) use limits::RowCosts;

use self::rule::Rule;
use super::operation::Call;
use crate::ops::plan::{Choice, Desc, Machine, MachineModel, Shown};
use crate::{DeviceInfo, LaunchConfig, Result};
use abi::DType;
use abi::rows::{Alignment, RowEntry, RowOp, RowPlan, RowShape, Strategy, Variant};
use std::fmt;

/// The rows of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct RowDesc {
    pub(super) op: RowOp,
    pub(super) dtype: DType,
    pub(super) rows: u64,
    pub(super) shape: RowShape,
    /// Tensors whose rows are written together.
    pub(super) outputs: u32,
    /// Whether a row must have the same bits whatever the others are and wherever it is. Rows then lie at
    /// vectors, or are gone through element by element.
    pub(super) batch_invariant: bool,
}

impl RowDesc {
    /// Rows of `n` elements, where `inputs` tensors are read together and one is written, of an
    /// operation without a mean and a bias.
    pub(super) fn new(
        op: RowOp,
        dtype: DType,
        (rows, n): (usize, usize),
        alignment: Alignment,
        inputs: u32,
    ) -> Self {
        let element_bytes = dtype.size_bytes() as u32;
        let unit = abi::rows::VECTOR_BYTES / element_bytes;
        Self {
            op,
            dtype,
            rows: rows as u64,
            shape: RowShape {
                n: n as u64,
                element_bytes,
                alignment: match alignment {
                    Alignment::Vectors if !(n as u64).is_multiple_of(u64::from(unit)) => {
                        Alignment::Alike
                    }
                    alignment => alignment,
                },
                inputs,
                is_dense: false,
                is_centered: false,
                has_bias: false,
            },
            outputs: 1,
            batch_invariant: false,
        }
    }

    /// Bytes of this number of tensors.
    pub(super) fn bytes(&self, tensors: u32) -> u64 {
        let of_element = u64::from(self.shape.element_bytes) * u64::from(tensors);
        self.rows
            .saturating_mul(self.shape.n)
            .saturating_mul(of_element)
    }
}

impl fmt::Display for RowDesc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let op = match self.op {
            RowOp::Softmax => "softmax",
            RowOp::SoftmaxGrad => "softmax_grad",
            RowOp::CrossEntropy => "cross_entropy",
            RowOp::SoftCrossEntropy => "cross_entropy_soft",
            RowOp::Norm => "norm",
            RowOp::NormF32 => "norm_wf32",
            RowOp::NormGrad => "norm_grad",
            RowOp::NormGradF32 => "norm_grad_wf32",
        };
        let RowShape { n, inputs, .. } = self.shape;
        let (dtype, rows, outputs) = (self.dtype, self.rows, self.outputs);
        write!(f, "{op} {dtype} rows{rows} n{n} in{inputs} out{outputs}")?;
        for (word, is_so) in [
            ("aligned", self.shape.alignment == Alignment::Vectors),
            ("alike", self.shape.alignment == Alignment::Alike),
            ("dense", self.shape.is_dense),
            ("centered", self.shape.is_centered),
            ("bias", self.shape.has_bias),
            ("batch_invariant", self.batch_invariant),
        ] {
            if is_so {
                write!(f, " {word}")?;
            }
        }
        Ok(())
    }
}

impl Desc for RowDesc {
    const OPERATION: &'static str = "rows";

    type Candidate = Candidate;

    fn candidates(
        &self,
        device: &DeviceInfo,
        model: &MachineModel,
        offer: &mut dyn FnMut(Candidate),
    ) {
        let (rule, machine) = (Rule::new(self, device, model), Machine::of(device, model));
        let mut is_first = true;
        // The first choice depends on the length of rows alone, and its kernels give the same bits.
        let most = if self.batch_invariant { 1 } else { usize::MAX };
        for plan in rule.plans().into_iter().take(most) {
            for entry in rule.entries(&plan).into_iter().flatten() {
                let Some(candidate) = Candidate::new(self, &rule, (plan, entry), &machine) else {
                    continue;
                };
                offer(Candidate {
                    is_preferred: is_first,
                    ..candidate
                });
                is_first = false;
            }
        }
    }

    fn supported(&self) -> String {
        "f32, f16 and bf16".into()
    }
}

/// One way to hold rows. Its `Display` is the entry name, and whether rows are read again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) desc: RowDesc,
    pub(super) plan: RowPlan,
    pub(super) entry: RowEntry,
    pub(super) config: LaunchConfig,
    /// See [`RowParams`](abi::rows::RowParams): stages of a ring, or parts in which a slice lands.
    pub(super) stages: u32,
    is_preferred: bool,
    estimated_ns: f64,
}

impl Candidate {
    /// `None` if a grid cannot have its blocks.
    fn new(
        desc: &RowDesc,
        rule: &Rule<'_>,
        (plan, entry): (RowPlan, RowEntry),
        machine: &Machine,
    ) -> Option<Self> {
        let adds_columns = matches!(desc.op, RowOp::NormGrad | RowOp::NormGradF32);
        let blocks = match plan.strategy {
            Strategy::Ring(_) | Strategy::Short(_) => rule.persistent_blocks(&plan),
            Strategy::Registers(_) if adds_columns => rule.persistent_blocks(&plan),
            _ => plan.blocks(desc.rows)?,
        };
        let config = LaunchConfig::linear(blocks, plan.block_threads())
            .shared_bytes(rule.paced_bytes(&plan));
        let reads = match plan.strategy {
            Strategy::Passes => 2 * desc.shape.inputs,
            _ => desc.shape.inputs,
        };
        let bytes = desc.bytes(reads + desc.outputs) as f64;
        Some(Self {
            desc: *desc,
            plan,
            entry,
            config: match plan.cluster {
                1 => config,
                blocks => config.cluster([blocks, 1, 1]),
            },
            stages: match plan.strategy {
                Strategy::Ring(ring) | Strategy::Short(ring) => ring.stages,
                _ => rule.slice_parts(&plan),
            },
            is_preferred: false,
            estimated_ns: machine.model.launch_ns + bytes / machine.bytes_per_ns,
        })
    }

    /// Whether rows are held on chip by vectors, not gone through element by element.
    pub(super) fn is_held(&self) -> bool {
        self.entry.variant != Variant::Streaming
    }

    /// Whether a block's bulk copies also read what is beside its rows, up to the next vector.
    pub(super) fn reads_beyond_rows(&self) -> bool {
        self.desc.shape.is_any()
            && matches!(self.plan.strategy, Strategy::Ring(_) | Strategy::Short(_))
    }

    /// Blocks that have rows of their own, or clusters of them.
    pub(super) fn groups(&self) -> u32 {
        self.config.grid[0] / self.plan.cluster
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.entry.fmt(f)?;
        match self.plan.strategy {
            Strategy::Passes => f.write_str("+passes"),
            _ => Ok(()),
        }
    }
}

impl Choice for Candidate {
    type Call<'a> = Call<'a, Self>;

    fn estimated_ns(&self) -> f64 {
        self.estimated_ns
    }

    fn is_preferred(&self) -> bool {
        self.is_preferred
    }

    fn shown(&self) -> Shown {
        let of_block = self.desc.shape.n.div_ceil(u64::from(self.plan.cluster));
        Shown {
            entry: self.entry.to_string(),
            tile: [
                self.plan.rows_per_block(),
                u32::try_from(of_block).unwrap_or(u32::MAX),
                0,
            ],
            split: 1,
            config: self.config,
        }
    }

    fn launch(&self, call: &Self::Call<'_>) -> Result<()> {
        call(self)
    }
}

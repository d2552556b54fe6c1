//! The kernels of a grouped GEMM, and the choice between them.

use super::simt;
use super::sm90::Hopper;
use crate::ops::plan::{Choice, Desc, Machine, MachineModel, Shown};
use crate::{DType, DeviceInfo, LaunchConfig, Result};
use abi::gemm::{GROUPED_ENTRY, GROUPED_TILE, Transpose, grouped_grid};
use std::fmt;

/// A validated product with results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct GroupedDesc {
    pub(super) dtype: DType,
    pub(super) m: u32,
    pub(super) n: u32,
    pub(super) k: u32,
    pub(super) groups: u32,
    /// How b lies where a tensor map describes it, else `N`: it is then copied.
    pub(super) trans_b: Transpose,
    /// Whether alpha is finite.
    pub(super) alpha_is_finite: bool,
}

impl fmt::Display for GroupedDesc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let &Self {
            m, n, k, groups, ..
        } = self;
        let letter = self.trans_b.letter();
        write!(f, "{} m{m} n{n} k{k} groups{groups} b={letter}", self.dtype)?;
        if !self.alpha_is_finite {
            f.write_str(" alpha=inf")?;
        }
        Ok(())
    }
}

/// A kernel.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kernel {
    /// In f32, on every device.
    Portable,
    /// By tensor cores, of f16 and bf16.
    Hopper(Hopper),
}

/// One way to compute a grouped GEMM; its `Display` is the entry name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) kernel: Kernel,
    pub(super) tile: [u32; 3],
    pub(super) config: LaunchConfig,
    pub(super) estimated_ns: f64,
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kernel {
            Kernel::Portable => GROUPED_ENTRY.fmt(f),
            Kernel::Hopper(hopper) => hopper.entry.fmt(f),
        }
    }
}

impl Choice for Candidate {
    type Call<'a> = Box<dyn Fn(&Self) -> Result<()> + 'a>;

    fn estimated_ns(&self) -> f64 {
        self.estimated_ns
    }

    /// Tensor cores are many times as fast as the portable kernel wherever they compute the product.
    fn is_preferred(&self) -> bool {
        matches!(self.kernel, Kernel::Hopper(_))
    }

    fn shown(&self) -> Shown {
        Shown {
            entry: self.to_string(),
            tile: self.tile,
            split: 1,
            config: self.config,
        }
    }

    fn launch(&self, call: &Self::Call<'_>) -> Result<()> {
        call(self)
    }
}

impl Desc for GroupedDesc {
    const OPERATION: &'static str = "grouped_gemm";

    type Candidate = Candidate;

    fn candidates(
        &self,
        device: &DeviceInfo,
        model: &MachineModel,
        offer: &mut dyn FnMut(Candidate),
    ) {
        let machine = Machine::of(device, model);
        if let Some(grid) = grouped_grid(self.m, self.n, self.groups) {
            offer(Candidate {
                kernel: Kernel::Portable,
                tile: [
                    GROUPED_TILE.tile_m,
                    GROUPED_TILE.tile_n,
                    GROUPED_TILE.tile_k,
                ],
                config: simt::config(grid),
                estimated_ns: simt::estimate_ns(self, &machine, grid),
            });
        }
        Hopper::candidate(self, &machine).map(offer);
    }

    fn supported(&self) -> String {
        "fewer than 2^31 tiles of 64 x 64 results, as many as any `ends` may need".into()
    }
}

impl GroupedDesc {
    /// Bytes of A, B and D.
    pub(super) fn bytes(&self) -> f64 {
        let [m, n, k, groups] = [self.m, self.n, self.k, self.groups].map(f64::from);
        (m * k + groups * k * n + m * n) * self.dtype.size_bytes() as f64
    }
}

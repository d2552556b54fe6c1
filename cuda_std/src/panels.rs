//! Matrices in shared memory that are wider than a swizzle spans: panels of 128 bytes of every row,
//! one behind the other. The same bytes serve as an operand by rows (Q, K: the contiguous extent is
//! what a product sums over) and by columns (V: it is what stays).
//!
//! ```compile_fail
//! use cuda_std::panels::PanelRing;
//! use cuda_std::pipeline::{Consumer, Readers};
//! use cuda_std::wgmma::Bf16;
//! unsafe fn read(mut keys: Consumer<2>, ring: PanelRing<Bf16, 128, 2>) -> u64 {
//!     unsafe {
//!         let stage = keys.wait();
//!         let rows = ring.rows(&stage);
//!         stage.release(Readers::OneBlock); // while `rows` is still to be read
//!         rows.step(0).bits()
//!     }
//! }
//! ```

use core::marker::PhantomData;

use crate::pipeline::{Slot, Stage};
use crate::shared::SharedAddr;
use crate::tile::{OperandElement, SPAN_BYTES};
use spec::swizzle::Swizzle;
use spec::tensor_core::descriptor::{Descriptor, Layout};

/// Bytes of a k step of wgmma along a row.
const STEP_BYTES: u32 = 32;
/// Rows of a k step of wgmma where k runs down the rows: types of 16 bits alone can lie so.
const STEP_ROWS: u32 = 16;

/// A ring of matrices of `ROWS` rows and `PANELS` panels, one for each stage of a
/// [`Pipeline`](crate::pipeline::Pipeline). A panel is what one tensor copy of `[SPAN_BYTES, ROWS]` with
/// a swizzle of 128 bytes writes.
#[derive(Clone, Copy, Debug)]
pub struct PanelRing<E, const ROWS: u32, const PANELS: u32> {
    base: SharedAddr,
    holds: PhantomData<E>,
}

impl<E: OperandElement, const ROWS: u32, const PANELS: u32> PanelRing<E, ROWS, PANELS> {
    /// Bytes of a panel.
    pub const PANEL_BYTES: u32 = ROWS * SPAN_BYTES;
    /// Bytes of a matrix.
    pub const BYTES: u32 = PANELS * Self::PANEL_BYTES;
    /// Elements of a row of a panel.
    pub const PANEL_COLUMNS: u32 = SPAN_BYTES / E::SIZE_BYTES;

    /// The ring at `base`, a multiple of 1024.
    ///
    /// # Safety
    /// The memory from there on is this ring's.
    #[inline(always)]
    pub const unsafe fn at(base: SharedAddr) -> Self {
        const { assert!(ROWS.is_multiple_of(8)) };
        Self {
            base,
            holds: PhantomData,
        }
    }

    /// Where a panel of a slot is to be written.
    #[inline(always)]
    pub const fn destination(&self, slot: &Slot, panel: u32) -> SharedAddr {
        self.base
            .add_bytes(slot.index() * Self::BYTES + panel * Self::PANEL_BYTES)
    }

    /// Where a panel of a stage is.
    #[inline(always)]
    pub const fn address(&self, stage: &Stage, panel: u32) -> SharedAddr {
        self.base
            .add_bytes(stage.index() * Self::BYTES + panel * Self::PANEL_BYTES)
    }

    /// The matrix of a stage, summed over along its rows.
    #[inline(always)]
    pub fn rows<'stage>(&self, stage: &'stage Stage) -> Rows<'stage, E, ROWS, PANELS> {
        Rows {
            descriptor: self.descriptor(stage, Layout::k_major(Swizzle::B128)),
            holds: PhantomData,
        }
    }

    /// The matrix of a stage, summed over along its columns.
    #[inline(always)]
    pub fn columns<'stage>(&self, stage: &'stage Stage) -> Columns<'stage, E, ROWS, PANELS> {
        self.first_columns(stage)
    }

    /// The same of the first `FEWER` panels.
    #[inline(always)]
    pub fn first_columns<'stage, const FEWER: u32>(
        &self,
        stage: &'stage Stage,
    ) -> Columns<'stage, E, ROWS, FEWER> {
        const { assert!(FEWER <= PANELS) };
        const { assert!(E::SIZE_BYTES == 2, "only 16-bit types are transposed") };
        Columns {
            descriptor: self.descriptor(stage, Layout::mn_major(Swizzle::B128, ROWS)),
            holds: PhantomData,
        }
    }

    #[inline(always)]
    fn descriptor(&self, stage: &Stage, layout: Layout) -> Descriptor {
        let address = self.base.add_bytes(stage.index() * Self::BYTES);
        Descriptor::new(address.bits(), layout)
    }
}

/// A matrix whose rows are summed over, for as long as its stage is held.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'stage, E, const ROWS: u32, const PANELS: u32> {
    descriptor: Descriptor,
    holds: PhantomData<(&'stage (), E)>,
}

impl<E: OperandElement, const ROWS: u32, const PANELS: u32> Rows<'_, E, ROWS, PANELS> {
    /// Wgmmas along a row.
    pub const STEPS: u32 = PANELS * SPAN_BYTES / STEP_BYTES;

    /// The descriptor of the `step`th.
    #[inline(always)]
    pub const fn step(&self, step: u32) -> Descriptor {
        const OF_PANEL: u32 = SPAN_BYTES / STEP_BYTES;
        self.descriptor
            .advanced(step / OF_PANEL * ROWS * SPAN_BYTES + step % OF_PANEL * STEP_BYTES)
    }
}

/// A matrix whose columns are summed over, for as long as its stage is held.
#[derive(Clone, Copy, Debug)]
pub struct Columns<'stage, E, const ROWS: u32, const PANELS: u32> {
    descriptor: Descriptor,
    holds: PhantomData<(&'stage (), E)>,
}

impl<E: OperandElement, const ROWS: u32, const PANELS: u32> Columns<'_, E, ROWS, PANELS> {
    /// Wgmmas down the rows.
    pub const STEPS: u32 = ROWS / STEP_ROWS;

    /// The descriptor of the `step`th.
    #[inline(always)]
    pub const fn step(&self, step: u32) -> Descriptor {
        self.descriptor.advanced(step * STEP_ROWS * SPAN_BYTES)
    }
}

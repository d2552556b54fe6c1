//! Matrices in shared memory whose rows are wider than the 128-byte swizzle span.
//!
//! A matrix is stored as panels, one after the other. A panel holds 128 bytes of every row. The
//! same layout serves as two kinds of wgmma operand:
//!
//! - K-major ([`PanelRing::rows`]): the GEMM's k runs along the rows, as for attention's Q and K;
//! - MN-major ([`PanelRing::columns`]): k runs down the columns, as for attention's V.
//!
//! A view of a stage borrows it, so it cannot be used after the release:
//!
//! ```compile_fail
//! use cuda_std::panels::{PanelRing, Panels};
//! use cuda_std::pipeline::{Consumer, Readers, Stages};
//! use cuda_std::wgmma::Bf16;
//! unsafe fn read(mut keys: Consumer<Stages<2>>, ring: PanelRing<Bf16, Panels<128, 2>>) -> u64 {
//!     unsafe {
//!         let stage = keys.wait();
//!         let rows = ring.rows(&stage);
//!         stage.release(Readers::OneBlock); // while `rows` is still to be read
//!         rows.step(0).bits()
//!     }
//! }
//! ```

use core::fmt::Debug;
use core::marker::PhantomData;

use crate::pipeline::{Slot, Stage};
use crate::shared::SharedAddr;
use crate::tile::{OperandElement, SPAN_BYTES};
use crate::tma::{TensorMap, cp_async_bulk_tensor_3d_shared_cluster_global};
use abi::swizzle::Swizzle;
use abi::tensor_core::descriptor::{Descriptor, Layout};

/// Bytes along a row that one wgmma instruction reads of a K-major operand.
const STEP_BYTES: u32 = 32;
/// Rows that one wgmma instruction reads of an MN-major operand, its k. Only 16-bit types can be
/// MN-major.
const STEP_ROWS: u32 = 16;

/// The shape of a matrix as a type, so that a kernel's configuration can name it.
pub trait PanelShape: Copy + Debug {
    /// Rows of the matrix.
    const ROWS: u32;
    /// Panels that lie side by side in it.
    const PANELS: u32;
}

/// `ROWS` rows of `PANELS` panels.
#[derive(Clone, Copy, Debug)]
pub struct Panels<const ROWS: u32, const PANELS: u32>;

impl<const ROWS: u32, const PANELS: u32> PanelShape for Panels<ROWS, PANELS> {
    const ROWS: u32 = ROWS;
    const PANELS: u32 = PANELS;
}

/// `PANELS` panels of the rows of `S`.
#[derive(Clone, Copy, Debug)]
pub struct FewPanels<S, const PANELS: u32>(PhantomData<S>);

impl<S: PanelShape, const PANELS: u32> PanelShape for FewPanels<S, PANELS> {
    const ROWS: u32 = S::ROWS;
    const PANELS: u32 = PANELS;
}

/// One panel of the rows of `S`.
pub type OnePanel<S> = FewPanels<S, 1>;

/// A ring of matrices of shape `S`, one matrix for each stage of a
/// [`Pipeline`](crate::pipeline::Pipeline). One TMA load of a box of [`SPAN_BYTES`] by `S::ROWS`
/// with the 128-byte swizzle writes a panel.
#[derive(Clone, Copy, Debug)]
pub struct PanelRing<E, S> {
    base: SharedAddr,
    holds: PhantomData<(E, S)>,
}

impl<E: OperandElement, S: PanelShape> PanelRing<E, S> {
    /// Size of a panel.
    pub const PANEL_BYTES: u32 = S::ROWS * SPAN_BYTES;
    /// Size of a matrix: the bytes of a stage.
    pub const BYTES: u32 = S::PANELS * Self::PANEL_BYTES;
    /// Elements of one row within a panel.
    pub const PANEL_COLUMNS: u32 = SPAN_BYTES / E::SIZE_BYTES;

    /// The ring at `base`, which is a multiple of 1024 bytes, the size of a 128-byte swizzle atom.
    ///
    /// # Safety
    /// [`BYTES`](Self::BYTES) per stage from `base` on belong to this ring alone.
    #[inline(always)]
    pub const unsafe fn at(base: SharedAddr) -> Self {
        const { assert!(S::ROWS.is_multiple_of(8)) };
        Self {
            base,
            holds: PhantomData,
        }
    }

    /// Address to which the producer loads panel `panel` of `slot`.
    #[inline(always)]
    pub const fn destination(&self, slot: &Slot, panel: u32) -> SharedAddr {
        self.at_index(slot.index(), panel)
    }

    /// Issues the TMA loads of a matrix into `slot`, panel by panel. The map has three dimensions, the
    /// columns, and those whose coordinates `at` are; its boxes are a panel, one of the last dimension.
    ///
    /// # Safety
    /// One thread calls it; the slot is empty, and its barrier was told of [`BYTES`](Self::BYTES).
    ///
    /// # Panics
    /// On the host.
    #[inline(always)]
    pub unsafe fn load_3d(&self, slot: &Slot, map: *const TensorMap, at: [u32; 2]) {
        let mut panel = 0;
        while panel < S::PANELS {
            let at = [panel * Self::PANEL_COLUMNS, at[0], at[1]].map(|x| x as i32);
            let to = self.destination(slot, panel);
            // SAFETY: passed on to the caller.
            unsafe { cp_async_bulk_tensor_3d_shared_cluster_global(to, map, at, slot.barrier()) };
            panel += 1;
        }
    }

    /// Address of panel `panel` of `stage`.
    #[inline(always)]
    pub const fn address(&self, stage: &Stage, panel: u32) -> SharedAddr {
        self.at_index(stage.index(), panel)
    }

    /// The stage's matrix as a K-major operand: k runs along its rows.
    #[inline(always)]
    pub fn rows<'stage>(&self, stage: &'stage Stage) -> Rows<'stage, E, S> {
        Rows {
            descriptor: self.descriptor(stage.index(), Layout::k_major(Swizzle::B128)),
            holds: PhantomData,
        }
    }

    /// The stage's matrix as an MN-major operand: k runs down its columns.
    #[inline(always)]
    pub fn columns<'stage>(&self, stage: &'stage Stage) -> Columns<'stage, E, S> {
        self.columns_at_index(stage.index())
    }

    /// As [`columns`](Self::columns), of a matrix that is in no pipeline: threads wrote it, to
    /// [`at_index`](Self::at_index).
    ///
    /// # Safety
    /// The matrix is written, and visible to the async proxy, before a wgmma reads it; nobody
    /// writes it before that is complete.
    #[inline(always)]
    pub unsafe fn columns_at<'any>(&self, index: u32) -> Columns<'any, E, S> {
        self.columns_at_index(index)
    }

    /// As [`rows`](Self::rows), of a matrix that is in no pipeline.
    ///
    /// # Safety
    /// As for [`columns_at`](Self::columns_at).
    #[inline(always)]
    pub unsafe fn rows_at<'any>(&self, index: u32) -> Rows<'any, E, S> {
        Rows {
            descriptor: self.descriptor(index, Layout::k_major(Swizzle::B128)),
            holds: PhantomData,
        }
    }

    /// Address of panel `panel` of the ring's matrix `index`.
    #[inline(always)]
    pub const fn at_index(&self, index: u32, panel: u32) -> SharedAddr {
        self.base
            .add_bytes(index * Self::BYTES + panel * Self::PANEL_BYTES)
    }

    #[inline(always)]
    fn columns_at_index<'any>(&self, index: u32) -> Columns<'any, E, S> {
        const { assert!(E::SIZE_BYTES == 2, "only 16-bit types are transposed") };
        Columns {
            descriptor: self.descriptor(index, Layout::mn_major(Swizzle::B128, S::ROWS)),
            holds: PhantomData,
        }
    }

    #[inline(always)]
    fn descriptor(&self, index: u32, layout: Layout) -> Descriptor {
        Descriptor::new(self.at_index(index, 0).bits(), layout)
    }
}

/// A K-major operand, valid for as long as its stage is held.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'stage, E, S> {
    descriptor: Descriptor,
    holds: PhantomData<(&'stage (), E, S)>,
}

impl<E: OperandElement, S: PanelShape> Rows<'_, E, S> {
    /// The operand that begins `rows` rows further down; a multiple of 8.
    #[inline(always)]
    pub const fn below(&self, rows: u32) -> Self {
        Self {
            descriptor: self.descriptor.advanced(rows * SPAN_BYTES),
            holds: PhantomData,
        }
    }

    /// wgmma instructions that it takes to go through k: along a whole row, over all panels.
    pub const STEPS: u32 = S::PANELS * SPAN_BYTES / STEP_BYTES;

    /// The shared memory descriptor for instruction `step` of [`STEPS`](Self::STEPS).
    #[inline(always)]
    pub const fn step(&self, step: u32) -> Descriptor {
        const OF_PANEL: u32 = SPAN_BYTES / STEP_BYTES;
        self.descriptor
            .advanced(step / OF_PANEL * S::ROWS * SPAN_BYTES + step % OF_PANEL * STEP_BYTES)
    }
}

/// An MN-major operand, valid for as long as its stage is held.
#[derive(Clone, Copy, Debug)]
pub struct Columns<'stage, E, S> {
    descriptor: Descriptor,
    holds: PhantomData<(&'stage (), E, S)>,
}

impl<'stage, E: OperandElement, S: PanelShape> Columns<'stage, E, S> {
    /// The operand of panel `panel` alone.
    #[inline(always)]
    pub const fn panel(&self, panel: u32) -> Columns<'stage, E, OnePanel<S>> {
        self.panels(panel)
    }

    /// The operand of `PANELS` panels from `first` on.
    #[inline(always)]
    pub const fn panels<const PANELS: u32>(
        &self,
        first: u32,
    ) -> Columns<'stage, E, FewPanels<S, PANELS>> {
        Columns {
            descriptor: self.descriptor.advanced(first * S::ROWS * SPAN_BYTES),
            holds: PhantomData,
        }
    }

    /// wgmma instructions that it takes to go through k: down all rows.
    pub const STEPS: u32 = S::ROWS / STEP_ROWS;

    /// The shared memory descriptor for instruction `step` of [`STEPS`](Self::STEPS).
    #[inline(always)]
    pub const fn step(&self, step: u32) -> Descriptor {
        self.descriptor.advanced(step * STEP_ROWS * SPAN_BYTES)
    }
}

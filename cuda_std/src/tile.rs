//! Tiles of operands in shared memory, whose types say what they hold and how it lies, so that a
//! descriptor is always the right one.
//!
//! ```compile_fail
//! use cuda_std::accumulator::InFlight;
//! use cuda_std::tile::{KMajor, MnMajor, Operand};
//! use cuda_std::wgmma::{E4m3, M64};
//! // 8-bit operands have to have k contiguous.
//! unsafe fn product(acc: &mut InFlight<M64<64, f32, E4m3, E4m3>>, a: Operand<E4m3, KMajor>, b: Operand<E4m3, MnMajor>) {
//!     unsafe { acc.multiply_add(a, b) }
//! }
//! # let _: unsafe fn(&mut InFlight<M64<64, f32, E4m3, E4m3>>, Operand<E4m3, KMajor>, Operand<E4m3, MnMajor>) = product;
//! ```

use core::marker::PhantomData;

use crate::pipeline::{Slot, Stage};
use crate::shared::SharedAddr;
use crate::wgmma::{Bf16, E4m3, E5m2, F16, MmaAsync, S8, Tf32, U8};
use spec::swizzle::Swizzle;
use spec::tensor_core::descriptor::{Descriptor, Layout, Major};

/// Bytes of a row of a tile: the span of its swizzle.
pub const SPAN_BYTES: u32 = Swizzle::B128.span_bytes();

/// An element type of wgmma's operands.
pub trait OperandElement: Copy {
    /// Bytes of an element.
    const SIZE_BYTES: u32;
    /// Elements of k in a tile: as many as fill a row.
    const TILE_K: u32 = SPAN_BYTES / Self::SIZE_BYTES;
}

macro_rules! operand_elements {
    ($($name:ident = $bytes:literal;)*) => {$(
        impl OperandElement for $name {
            const SIZE_BYTES: u32 = $bytes;
        }
    )*};
}

operand_elements! { F16 = 2; Bf16 = 2; Tf32 = 4; E4m3 = 1; E5m2 = 1; S8 = 1; U8 = 1; }

/// Which extent of an operand is contiguous, as a type.
pub trait OperandMajor: Copy {
    /// The same as a value.
    const MAJOR: Major;
    /// How a tile lies that is `tile_k` deep.
    fn layout(tile_k: u32) -> Layout;

    /// The wgmma whose A is so and whose B is as `LB` says.
    ///
    /// # Safety
    /// As for [`MmaAsync::ss`].
    #[doc(hidden)]
    unsafe fn multiply<M: MmaAsync, LB: OperandMajor, const SCALE_D: bool>(
        acc: &mut M::Acc,
        a: Descriptor,
        b: Descriptor,
    );

    /// The wgmma whose B is so.
    ///
    /// # Safety
    /// As for [`MmaAsync::ss`].
    #[doc(hidden)]
    unsafe fn multiply_by<M: MmaAsync, const SCALE_D: bool, const TRANS_A: bool>(
        acc: &mut M::Acc,
        a: Descriptor,
        b: Descriptor,
    );
}

/// k: what one tensor copy of `[SPAN_BYTES, mn]` writes.
#[derive(Clone, Copy, Debug)]
pub struct KMajor;

/// m or n: what tensor copies of `[SPAN_BYTES, tile_k]` write one after the other.
#[derive(Clone, Copy, Debug)]
pub struct MnMajor;

macro_rules! operand_majors {
    ($($name:ident = $major:ident, |$tile_k:ident| $layout:expr;)*) => {$(
        impl OperandMajor for $name {
            const MAJOR: Major = Major::$major;

            #[inline(always)]
            fn layout($tile_k: u32) -> Layout {
                $layout
            }

            #[inline(always)]
            unsafe fn multiply<M: MmaAsync, LB: OperandMajor, const SCALE_D: bool>(
                acc: &mut M::Acc,
                a: Descriptor,
                b: Descriptor,
            ) {
                const TRANS_A: bool = Major::$major.transposed();
                // SAFETY: passed on to the caller.
                unsafe { LB::multiply_by::<M, SCALE_D, TRANS_A>(acc, a, b) }
            }

            #[inline(always)]
            unsafe fn multiply_by<M: MmaAsync, const SCALE_D: bool, const TRANS_A: bool>(
                acc: &mut M::Acc,
                a: Descriptor,
                b: Descriptor,
            ) {
                const TRANS_B: bool = Major::$major.transposed();
                // SAFETY: passed on to the caller.
                unsafe { M::ss::<SCALE_D, TRANS_A, TRANS_B>(acc, a.bits(), b.bits()) }
            }
        }
    )*};
}

operand_majors! {
    KMajor = K, |_tile_k| Layout::k_major(Swizzle::B128);
    MnMajor = Mn, |tile_k| Layout::mn_major(Swizzle::B128, tile_k);
}

/// A ring of tiles of `MN` rows (of A) or columns (of B) by [`OperandElement::TILE_K`], one for each
/// stage of a [`Pipeline`](crate::pipeline::Pipeline), with a swizzle of 128 bytes.
#[derive(Clone, Copy, Debug)]
pub struct TileRing<E, L, const MN: u32> {
    base: SharedAddr,
    holds: PhantomData<(E, L)>,
}

impl<E: OperandElement, L: OperandMajor, const MN: u32> TileRing<E, L, MN> {
    /// Bytes of a tile.
    pub const TILE_BYTES: u32 = MN * SPAN_BYTES;

    /// The ring at `base`, a multiple of 1024.
    ///
    /// # Safety
    /// The memory from there on is this ring's.
    #[inline(always)]
    pub const unsafe fn at(base: SharedAddr) -> Self {
        Self {
            base,
            holds: PhantomData,
        }
    }

    /// Where the tile of a slot is to be written.
    #[inline(always)]
    pub const fn destination(&self, slot: &Slot) -> SharedAddr {
        self.base.add_bytes(slot.index() * Self::TILE_BYTES)
    }

    /// The tile of a stage from row (or column) `mn` on, a multiple of 64.
    #[inline(always)]
    pub fn operand<'stage>(&self, stage: &'stage Stage, mn: u32) -> Operand<'stage, E, L> {
        // With either extent contiguous, 64 of mn are as many bytes: 64 rows of a span, or a box of
        // TILE_K rows of 64 elements (which are a span, as only 16-bit elements lie so).
        let address = self
            .base
            .add_bytes(stage.index() * Self::TILE_BYTES + mn * SPAN_BYTES);
        Operand {
            descriptor: Descriptor::new(address.bits(), L::layout(E::TILE_K)),
            holds: PhantomData,
        }
    }
}

/// A tile as wgmma takes it, for as long as its stage is held.
#[derive(Clone, Copy, Debug)]
pub struct Operand<'stage, E, L> {
    descriptor: Descriptor,
    holds: PhantomData<(&'stage (), E, L)>,
}

impl<E: OperandElement, L: OperandMajor> Operand<'_, E, L> {
    /// Wgmmas, of 32 bytes of k each, that a tile has.
    pub const STEPS: u32 = SPAN_BYTES / 32;

    /// The tile's descriptor.
    #[inline(always)]
    pub const fn descriptor(&self) -> Descriptor {
        self.descriptor
    }

    /// The same, 64 × `block` rows (or columns) further on.
    #[inline(always)]
    pub const fn block(&self, block: u32) -> Self {
        Self {
            descriptor: self.descriptor.advanced(64 * block * SPAN_BYTES),
            holds: PhantomData,
        }
    }

    /// The descriptor of the `step`th wgmma along k.
    #[inline(always)]
    pub fn step(&self, step: u32) -> Descriptor {
        let bytes = L::layout(E::TILE_K).k_step_bytes(E::SIZE_BYTES);
        self.descriptor.advanced(step * bytes)
    }
}

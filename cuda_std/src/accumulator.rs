//! Accumulators of wgmma, whose type says whether products are on their way into them.
//!
//! An [`InFlight`] accumulator has no way to be read; [`InFlight::finish`] waits and gives it back.
//!
//! ```compile_fail
//! use cuda_std::accumulator::InFlight;
//! use cuda_std::wgmma::{Bf16, M64};
//! fn read_too_early(acc: InFlight<M64<64, f32, Bf16, Bf16>>) -> f32 {
//!     acc.registers()[0][0]
//! }
//! ```
//! ```
//! # use cuda_std::accumulator::InFlight;
//! # use cuda_std::wgmma::{Bf16, M64};
//! unsafe fn read(acc: InFlight<M64<64, f32, Bf16, Bf16>>) -> f32 {
//!     unsafe { acc.finish() }.registers()[0][0]
//! }
//! ```
//! Nor can one that is being written be given to somebody else:
//! ```compile_fail
//! use cuda_std::accumulator::InFlight;
//! use cuda_std::wgmma::{Bf16, M64};
//! unsafe fn twice(acc: InFlight<M64<64, f32, Bf16, Bf16>>) {
//!     unsafe {
//!         acc.finish();
//!         acc.finish();
//!     }
//! }
//! ```

use core::marker::PhantomData;

use crate::panels::{Columns, Rows};
use crate::tile::{Operand, OperandElement, OperandMajor};
use crate::wgmma::{MmaAsync, Registers, tie, wgmma_commit_group, wgmma_fence, wgmma_wait_group};

/// A thread's part of a matrix of `BLOCKS` × 64 rows, nothing on its way into it.
#[derive(Clone, Copy, Debug)]
pub struct Accumulator<M: MmaAsync, const BLOCKS: usize = 1>([M::Acc; BLOCKS]);

impl<M: MmaAsync, const BLOCKS: usize> Accumulator<M, BLOCKS> {
    /// Any values: for products that begin with [`InFlight::multiply`].
    ///
    /// # Panics
    /// On the host.
    #[inline(always)]
    pub fn unset() -> Self {
        Self([M::Acc::unset(); BLOCKS])
    }

    /// Zeros, for sums of other accumulators.
    #[inline(always)]
    pub fn zero() -> Self {
        Self([M::Acc::zero(); BLOCKS])
    }

    /// The registers of each 64 rows; `spec::tensor_core::fragment` says which element each is.
    #[inline(always)]
    pub const fn registers(&self) -> &[M::Acc; BLOCKS] {
        &self.0
    }

    /// The same, to be changed.
    #[inline(always)]
    pub const fn registers_mut(&mut self) -> &mut [M::Acc; BLOCKS] {
        &mut self.0
    }

    /// Gives it to the products that follow: `wgmma.fence`.
    ///
    /// # Safety
    /// All warps of the warpgroup call it.
    ///
    /// # Panics
    /// On the host.
    #[inline(always)]
    pub unsafe fn begin(mut self) -> InFlight<M, BLOCKS> {
        tie_all(&mut self.0);
        // SAFETY: passed on to the caller.
        unsafe { wgmma_fence() };
        InFlight(self.0)
    }
}

/// A thread's part of a matrix of `BLOCKS` × 64 rows that products are on their way into.
#[derive(Debug)]
pub struct InFlight<M: MmaAsync, const BLOCKS: usize = 1>([M::Acc; BLOCKS]);

impl<M: MmaAsync, const BLOCKS: usize> InFlight<M, BLOCKS> {
    /// `acc = a * b`, over the whole depth of the tiles, as a group; not read before.
    ///
    /// # Safety
    /// All warps of the warpgroup call it, with the same operands, whose copies have landed. Their
    /// stages are released after the wait. `a` has `BLOCKS` × 64 rows.
    ///
    /// # Panics
    /// On the host.
    #[inline(always)]
    pub unsafe fn multiply<LA: OperandMajor, LB: OperandMajor>(
        &mut self,
        a: Operand<'_, M::A, LA>,
        b: Operand<'_, M::B, LB>,
    ) {
        // SAFETY: passed on to the caller.
        unsafe {
            self.step::<false, LA, LB>(a, b, 0);
            self.steps_after_the_first(a, b);
        }
    }

    /// `acc = a * b + acc`, over the whole depth of the tiles, as a group.
    ///
    /// # Safety
    /// As for [`multiply`](Self::multiply).
    ///
    /// # Panics
    /// On the host.
    #[inline(always)]
    pub unsafe fn multiply_add<LA: OperandMajor, LB: OperandMajor>(
        &mut self,
        a: Operand<'_, M::A, LA>,
        b: Operand<'_, M::B, LB>,
    ) {
        // SAFETY: passed on to the caller.
        unsafe {
            wgmma_fence();
            self.step::<true, LA, LB>(a, b, 0);
            self.steps_after_the_first(a, b);
        }
    }

    #[inline(always)]
    unsafe fn steps_after_the_first<LA: OperandMajor, LB: OperandMajor>(
        &mut self,
        a: Operand<'_, M::A, LA>,
        b: Operand<'_, M::B, LB>,
    ) {
        let mut step = 1;
        while step < Operand::<M::A, LA>::STEPS {
            // SAFETY: passed on to the caller.
            unsafe { self.step::<true, LA, LB>(a, b, step) };
            step += 1;
        }
        // SAFETY: passed on to the caller.
        unsafe { wgmma_commit_group() };
    }

    #[inline(always)]
    unsafe fn step<const SCALE_D: bool, LA: OperandMajor, LB: OperandMajor>(
        &mut self,
        a: Operand<'_, M::A, LA>,
        b: Operand<'_, M::B, LB>,
        step: u32,
    ) {
        let mut block = 0;
        while block < BLOCKS {
            let a = a.block(block as u32).step(step);
            // SAFETY: passed on to the caller.
            unsafe { LA::multiply::<M, LB, SCALE_D>(&mut self.0[block], a, b.step(step)) };
            block += 1;
        }
    }

    /// Waits for all groups but the latest `GROUPS`, and gives the accumulator back, whose products are
    /// not among those.
    ///
    /// # Safety
    /// All warps of the warpgroup call it; the latest `GROUPS` groups write other accumulators.
    ///
    /// # Panics
    /// On the host.
    #[inline(always)]
    pub unsafe fn finish_before<const GROUPS: u32>(mut self) -> Accumulator<M, BLOCKS> {
        // SAFETY: passed on to the caller.
        unsafe { self.wait::<GROUPS>() };
        Accumulator(self.0)
    }

    /// Waits for all groups but the latest `GROUPS`; this accumulator may be among those.
    ///
    /// # Safety
    /// All warps of the warpgroup call it.
    ///
    /// # Panics
    /// On the host.
    #[inline(always)]
    pub unsafe fn wait<const GROUPS: u32>(&mut self) {
        const { assert!(BLOCKS > 0) };
        // SAFETY: passed on to the caller.
        unsafe { wgmma_wait_group::<GROUPS>(&mut self.0[0]) };
        let mut block = 1;
        while block < BLOCKS {
            tie(&mut self.0[block]);
            block += 1;
        }
    }

    /// Waits for all groups, and gives the accumulator back.
    ///
    /// # Safety
    /// All warps of the warpgroup call it.
    ///
    /// # Panics
    /// On the host.
    #[inline(always)]
    pub unsafe fn finish(mut self) -> Accumulator<M, BLOCKS> {
        // SAFETY: passed on to the caller.
        unsafe { self.wait::<0>() };
        Accumulator(self.0)
    }
}

impl<M: MmaAsync> InFlight<M> {
    /// `acc = a * b^T`, over the whole width of the matrices, as a group; not read before.
    ///
    /// # Safety
    /// As for [`multiply`](Self::multiply); `a` has 64 rows, `b` as many as the instruction columns.
    ///
    /// # Panics
    /// On the host.
    #[inline(always)]
    pub unsafe fn multiply_rows<const ROWS_A: u32, const ROWS_B: u32, const PANELS: u32>(
        &mut self,
        a: Rows<'_, M::A, ROWS_A, PANELS>,
        b: Rows<'_, M::B, ROWS_B, PANELS>,
    ) {
        let [acc] = &mut self.0;
        // SAFETY: passed on to the caller.
        unsafe {
            M::ss::<false, false, false>(acc, a.step(0).bits(), b.step(0).bits());
            let mut step = 1;
            while step < Rows::<M::A, ROWS_A, PANELS>::STEPS {
                M::ss::<true, false, false>(acc, a.step(step).bits(), b.step(step).bits());
                step += 1;
            }
            wgmma_commit_group();
        }
    }

    /// `acc = a * b + acc`, or without `+ acc` where `adds` is false, over all rows of `b`, as a group.
    ///
    /// # Safety
    /// As for [`multiply`](Self::multiply); `adds` is the same in all threads of the warpgroup. `a` was
    /// [tied](Fragments::tie) before the accumulators [began](Accumulator::begin), and is what it is
    /// until the wait.
    ///
    /// # Panics
    /// On the host.
    #[inline(always)]
    pub unsafe fn multiply_add_fragments<
        const REGISTERS: usize,
        const ROWS: u32,
        const PANELS: u32,
    >(
        &mut self,
        a: &Fragments<M::A, REGISTERS>,
        b: Columns<'_, M::B, ROWS, PANELS>,
        adds: bool,
    ) {
        const { assert!(REGISTERS as u32 == 4 * Columns::<M::B, ROWS, PANELS>::STEPS) };
        let [acc] = &mut self.0;
        // SAFETY: passed on to the caller. For the registers of `a`, which these are the first to read.
        unsafe { wgmma_fence() };
        let mut step = 0;
        while step < REGISTERS / 4 {
            let at = 4 * step;
            let a = [a.0[at], a.0[at + 1], a.0[at + 2], a.0[at + 3]];
            let b = b.step(step as u32).bits();
            // SAFETY: passed on to the caller.
            unsafe {
                match step {
                    0 => M::rs_scaled::<true>(acc, a, b, adds),
                    _ => M::rs::<true, true>(acc, a, b),
                }
            }
            step += 1;
        }
        // SAFETY: passed on to the caller.
        unsafe { wgmma_commit_group() };
    }
}

/// A thread's part of a 16-bit matrix of 64 rows in registers, as the A of products: `REGISTERS` / 4
/// steps of 16 columns. An accumulator of as many columns has its elements in the same threads, in
/// the same order.
///
/// ```compile_fail
/// // 32 registers are 128 columns; 64 rows do not go with them.
/// use cuda_std::accumulator::{Fragments, InFlight};
/// use cuda_std::panels::Columns;
/// use cuda_std::wgmma::{Bf16, M64};
/// unsafe fn product(
///     acc: &mut InFlight<M64<128, f32, Bf16, Bf16>>,
///     a: &Fragments<Bf16, 32>,
///     b: Columns<'_, Bf16, 64, 2>,
/// ) {
///     unsafe { acc.multiply_add_fragments(a, b, true) }
/// }
/// # let _: unsafe fn(&mut InFlight<M64<128, f32, Bf16, Bf16>>, &Fragments<Bf16, 32>, Columns<'_, Bf16, 64, 2>) = product;
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Fragments<E, const REGISTERS: usize>([u32; REGISTERS], PhantomData<E>);

impl<E: OperandElement, const REGISTERS: usize> Fragments<E, REGISTERS>
where
    [u32; REGISTERS]: Registers,
{
    /// Zeros.
    #[inline(always)]
    pub const fn zero() -> Self {
        Self([0; REGISTERS], PhantomData)
    }

    /// The elements of `acc`, two a register by `pair`, which puts the first into the lower half.
    #[inline(always)]
    pub fn of<M: MmaAsync<Acc: AsRef<[f32]>>>(
        acc: &Accumulator<M>,
        pair: impl Fn(f32, f32) -> u32,
    ) -> Self {
        const { assert!(E::SIZE_BYTES == 2) };
        let [registers] = acc.registers();
        let registers = registers.as_ref();
        let mut pairs = [0; REGISTERS];
        let mut i = 0;
        while i < REGISTERS {
            pairs[i] = pair(registers[2 * i], registers[2 * i + 1]);
            i += 1;
        }
        Self(pairs, PhantomData)
    }

    /// Elements that are pairs already, in the order of an accumulator's registers.
    #[inline(always)]
    pub const fn of_pairs(pairs: [u32; REGISTERS]) -> Self {
        const { assert!(E::SIZE_BYTES == 2) };
        Self(pairs, PhantomData)
    }

    /// As [`tie`]: what was written is written before the fence that follows.
    ///
    /// # Panics
    /// On the host.
    #[inline(always)]
    pub fn tie(&mut self) {
        tie(&mut self.0);
    }
}

#[inline(always)]
fn tie_all<R: Registers, const BLOCKS: usize>(registers: &mut [R; BLOCKS]) {
    let mut block = 0;
    while block < BLOCKS {
        tie(&mut registers[block]);
        block += 1;
    }
}

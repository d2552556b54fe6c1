//! wgmma accumulators. Their type shows whether asynchronous instructions may still write them.
//!
//! An [`Accumulator`] may be read and written. [`Accumulator::begin`] turns it into an
//! [`InFlight`], on which wgmma instructions are issued and which cannot be read.
//! [`InFlight::finish`] waits for them and returns the [`Accumulator`]. Reading it earlier does not
//! compile:
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
//! Nor can it be used after it has been finished:
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

use crate::panels::{Columns, OnePanel, PanelShape, Rows};
use crate::tile::{Operand, OperandElement, OperandMajor};
use crate::wgmma::{MmaAsync, Registers, tie, wgmma_commit_group, wgmma_fence, wgmma_wait_group};

/// A thread's fragment of a matrix of `BLOCKS` × 64 rows, with no wgmma in flight.
#[derive(Clone, Copy, Debug)]
pub struct Accumulator<M: MmaAsync, const BLOCKS: usize = 1>([M::Acc; BLOCKS]);

impl<M: MmaAsync, const BLOCKS: usize> Accumulator<M, BLOCKS> {
    /// Arbitrary values, for a mainloop that begins with [`InFlight::multiply`], which does not
    /// read them. Emits no instruction.
    ///
    /// # Panics
    /// On the host.
    #[inline(always)]
    pub fn unset() -> Self {
        Self([M::Acc::unset(); BLOCKS])
    }

    /// Zeros, to add other accumulators to.
    #[inline(always)]
    pub fn zero() -> Self {
        Self([M::Acc::zero(); BLOCKS])
    }

    /// The registers of each 64 rows; [`fragment::wgmma_acc`](abi::tensor_core::fragment::wgmma_acc)
    /// says which element each is (`cuda_std::abi` is that crate):
    ///
    /// ```
    /// use cuda_std::abi::tensor_core::fragment::{Coord, wgmma_acc};
    /// // Register 6 of thread 37 of the warpgroup.
    /// assert_eq!(wgmma_acc(37, 6), Coord { row: 25, column: 10 });
    /// ```
    #[inline(always)]
    pub const fn registers(&self) -> &[M::Acc; BLOCKS] {
        &self.0
    }

    /// The same registers, mutable.
    #[inline(always)]
    pub const fn registers_mut(&mut self) -> &mut [M::Acc; BLOCKS] {
        &mut self.0
    }

    /// Issues a `wgmma.fence`, which orders earlier writes to the accumulator before the wgmma
    /// instructions that follow, and returns it for them.
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

/// A thread's fragment of a matrix of `BLOCKS` × 64 rows that wgmma instructions in flight may
/// write.
#[derive(Debug)]
pub struct InFlight<M: MmaAsync, const BLOCKS: usize = 1>([M::Acc; BLOCKS]);

impl<M: MmaAsync, const BLOCKS: usize> InFlight<M, BLOCKS> {
    /// `acc = a * b` over the whole k extent of the tiles, committed as one group. The old value of
    /// the accumulator is not read (scale-d is 0 in the first k step).
    ///
    /// # Safety
    /// All warps of the warpgroup call it with the same operands, whose copies have landed. Their
    /// stages are released only after this group has been waited for. `a` has `BLOCKS` × 64 rows.
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

    /// `acc = a * b + acc` over the whole k extent of the tiles, committed as one group.
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

    /// Waits for all groups but the latest `GROUPS` and returns the accumulator, which those groups
    /// do not write.
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

    /// Waits for all groups but the latest `GROUPS`, which may still write this accumulator.
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

    /// Waits for all groups of the warpgroup and returns the accumulator.
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
    /// `acc = a * b^T` over the whole width of the matrices, committed as one group, as for
    /// attention's `S = Q * K^T`. The old value of the accumulator is not read.
    ///
    /// # Safety
    /// As for [`multiply`](Self::multiply). `a` has 64 rows, and `b` has as many rows as the
    /// instruction's N.
    ///
    /// # Panics
    /// On the host.
    #[inline(always)]
    pub unsafe fn multiply_rows<A: PanelShape, B: PanelShape>(
        &mut self,
        a: Rows<'_, M::A, A>,
        b: Rows<'_, M::B, B>,
    ) {
        const { assert!(A::PANELS == B::PANELS) };
        let [acc] = &mut self.0;
        // SAFETY: passed on to the caller.
        unsafe {
            M::ss::<false, false, false>(acc, a.step(0).bits(), b.step(0).bits());
            let mut step = 1;
            while step < Rows::<M::A, A>::STEPS {
                M::ss::<true, false, false>(acc, a.step(step).bits(), b.step(step).bits());
                step += 1;
            }
            wgmma_commit_group();
        }
    }

    /// `acc = a^T * b` over all rows of both, committed as one group: `a` has k rows of m, as
    /// attention's dS in `dQ = dS * K` where keys are its rows. The old value of the accumulator is
    /// not read.
    ///
    /// # Safety
    /// As for [`multiply`](Self::multiply). `b` has as many columns as the instruction's N.
    ///
    /// # Panics
    /// On the host.
    #[inline(always)]
    pub unsafe fn multiply_columns<S: PanelShape, B: PanelShape>(
        &mut self,
        a: Columns<'_, M::A, OnePanel<S>>,
        b: Columns<'_, M::B, B>,
    ) {
        // SAFETY: passed on to the caller.
        unsafe { self.columns::<false, S, B>(a, b) }
    }

    /// `acc = a^T * b + acc`, else as [`multiply_columns`](Self::multiply_columns).
    ///
    /// # Safety
    /// As for [`multiply_columns`](Self::multiply_columns).
    ///
    /// # Panics
    /// On the host.
    #[inline(always)]
    pub unsafe fn multiply_add_columns<S: PanelShape, B: PanelShape>(
        &mut self,
        a: Columns<'_, M::A, OnePanel<S>>,
        b: Columns<'_, M::B, B>,
    ) {
        // SAFETY: passed on to the caller.
        unsafe { self.columns::<true, S, B>(a, b) }
    }

    #[inline(always)]
    unsafe fn columns<const ADDS: bool, S: PanelShape, B: PanelShape>(
        &mut self,
        a: Columns<'_, M::A, OnePanel<S>>,
        b: Columns<'_, M::B, B>,
    ) {
        const { assert!(S::ROWS == B::ROWS) };
        let [acc] = &mut self.0;
        // SAFETY: passed on to the caller.
        unsafe {
            M::ss::<ADDS, true, true>(acc, a.step(0).bits(), b.step(0).bits());
            let mut step = 1;
            while step < Columns::<M::B, B>::STEPS {
                M::ss::<true, true, true>(acc, a.step(step).bits(), b.step(step).bits());
                step += 1;
            }
            wgmma_commit_group();
        }
    }

    /// `acc = a * b + acc`, or `acc = a * b` where `adds` is false, over all rows of `b`, committed
    /// as one group. A is in registers, as attention's P is in `O += P * V`.
    ///
    /// # Safety
    /// As for [`multiply`](Self::multiply); `adds` is the same in all threads of the warpgroup. `a`
    /// was [tied](Fragments::tie) before [`Accumulator::begin`], and is not modified until this
    /// group has been waited for.
    ///
    /// # Panics
    /// On the host.
    #[inline(always)]
    pub unsafe fn multiply_add_fragments<R: PairRegisters, S: PanelShape>(
        &mut self,
        a: &Fragments<M::A, R>,
        b: Columns<'_, M::B, S>,
        adds: bool,
    ) {
        const { assert!(R::COUNT as u32 == 4 * Columns::<M::B, S>::STEPS) };
        let pairs = a.0.as_ref();
        let [acc] = &mut self.0;
        // SAFETY: passed on to the caller. The fence is for the registers of `a`: the instructions
        // below are the first to read them.
        unsafe { wgmma_fence() };
        let mut step = 0;
        while step < R::COUNT / 4 {
            let at = 4 * step;
            let a = [pairs[at], pairs[at + 1], pairs[at + 2], pairs[at + 3]];
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

/// A thread's fragments of a 16-bit matrix of 64 rows, to be the A operand of wgmma in registers.
/// `R` is an array of registers, four for each k step of 16 columns.
///
/// An f32 accumulator of as many columns has the same elements in the same threads, in the same
/// order, so converting it needs no data exchange between threads.
///
/// ```compile_fail
/// // 32 registers are 128 columns; 64 rows do not go with them.
/// use cuda_std::accumulator::{Fragments, InFlight};
/// use cuda_std::panels::{Columns, Panels};
/// use cuda_std::wgmma::{Bf16, M64};
/// unsafe fn product(
///     acc: &mut InFlight<M64<128, f32, Bf16, Bf16>>,
///     a: &Fragments<Bf16, [u32; 32]>,
///     b: Columns<'_, Bf16, Panels<64, 2>>,
/// ) {
///     unsafe { acc.multiply_add_fragments(a, b, true) }
/// }
/// # let _: unsafe fn(&mut InFlight<M64<128, f32, Bf16, Bf16>>, &Fragments<Bf16, [u32; 32]>, Columns<'_, Bf16, Panels<64, 2>>) = product;
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Fragments<E, R>(R, PhantomData<E>);

/// Registers of two 16-bit elements each.
pub trait PairRegisters: Registers + Copy + AsRef<[u32]> + AsMut<[u32]> {
    /// Their number.
    const COUNT: usize = size_of::<Self>() / size_of::<u32>();
}

impl<const N: usize> PairRegisters for [u32; N] where Self: Registers {}

impl<E: OperandElement, R: PairRegisters> Fragments<E, R> {
    /// Zeros.
    #[inline(always)]
    pub fn zero() -> Self {
        Self(R::zero(), PhantomData)
    }

    /// Converts the elements of `acc`, two per register. `pair` converts and packs two elements,
    /// the first into the lower half.
    #[inline(always)]
    pub fn of<M: MmaAsync<Acc: AsRef<[f32]>>>(
        acc: &Accumulator<M>,
        pair: impl Fn(f32, f32) -> u32,
    ) -> Self {
        const { assert!(E::SIZE_BYTES == 2) };
        let [registers] = acc.registers();
        let registers = registers.as_ref();
        let mut pairs = R::zero();
        let mut i = 0;
        while i < R::COUNT {
            pairs.as_mut()[i] = pair(registers[2 * i], registers[2 * i + 1]);
            i += 1;
        }
        Self(pairs, PhantomData)
    }

    /// Fragments of elements that are packed already, in the order of an accumulator's registers.
    #[inline(always)]
    pub const fn of_pairs(pairs: R) -> Self {
        const { assert!(E::SIZE_BYTES == 2) };
        Self(pairs, PhantomData)
    }

    /// The elements, two per register, in the order of an accumulator's registers.
    #[inline(always)]
    pub const fn pairs(&self) -> &R {
        &self.0
    }

    /// As [`tie`]: keeps earlier writes before the `wgmma.fence` that follows.
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

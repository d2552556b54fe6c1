//! How products become sums: in the tensor cores or, for 8-bit operands, of whose running sums these
//! keep fewer bits, by promoting each k tile's accumulators to f32 sums.

use core::marker::PhantomData;

use cuda_std::accumulator::Accumulator;
use cuda_std::pipeline::{Consumer, Stage, Stages};
use cuda_std::wgmma::MmaAsync;

use super::{Config, Gemm};

/// How the products of all k tiles become sums: [`Running`] or [`Promoted`].
pub trait Sums<M: MmaAsync> {
    /// Whether the sum over each k tile is added to a separate one.
    const PROMOTES: bool;
    /// The instruction for what is added at a time. Its columns divide the tile's.
    type Summand: MmaAsync<A = M::A, B = M::B, Acc: AsRef<[f32]>>;
}

/// In the tensor cores.
#[derive(Debug)]
pub struct Running;

/// By additions in f32 of the sum over each k tile, which `Summand` computes: of a running sum of 8-bit
/// products the tensor cores keep about 14 bits.
#[derive(Debug)]
pub struct Promoted<Summand>(PhantomData<Summand>);

impl<M: MmaAsync<Acc: AsRef<[f32]>>> Sums<M> for Running {
    const PROMOTES: bool = false;
    type Summand = M;
}

impl<M: MmaAsync, S: MmaAsync<A = M::A, B = M::B, Acc: AsRef<[f32]>>> Sums<M> for Promoted<S> {
    const PROMOTES: bool = true;
    type Summand = S;
}

/// The instruction of [`Sums::Summand`].
type SummandOf<C> = <<C as Config>::Sums as Sums<<C as Config>::Mma>>::Summand;

impl<C: Config, const TILE_M: u32, const TILE_N: u32, const STAGES: u32, const BLOCKS: usize>
    Gemm<C, TILE_M, TILE_N, STAGES, BLOCKS>
{
    /// As [`multiply`](Self::multiply), but each k tile begins a new accumulator, which is then
    /// added to a sum in registers.
    ///
    /// # Safety
    /// As for [`multiply`](Self::multiply).
    #[inline(always)]
    pub(super) unsafe fn multiply_promoted(
        &self,
        consumer: &mut Consumer<Stages<STAGES>>,
        k_tiles: u32,
        row_of_tile: u32,
        begun: impl FnOnce(),
        ending: impl FnOnce(),
    ) -> Accumulator<C::Mma, BLOCKS> {
        const { assert!(TILE_N.is_multiple_of(Self::SUMMAND_N)) };
        // SAFETY: as there.
        unsafe {
            let mut sum = Accumulator::<C::Mma, BLOCKS>::zero();
            // The first k tile, after whose first product the other consumer may begin: half a k tile
            // behind, so that not both add at the same time.
            let stage = consumer.wait(); // A, B of the first k landed
            self.add_products(&mut sum, &stage, row_of_tile, 0, || consumer.agree());
            begun();
            self.add_more(&mut sum, stage, row_of_tile);
            let mut k_tile = 1;
            while k_tile < k_tiles {
                let stage = consumer.wait(); // A, B of k_tile landed
                self.add_products(&mut sum, &stage, row_of_tile, 0, || consumer.agree());
                self.add_more(&mut sum, stage, row_of_tile);
                k_tile += 1;
            }
            ending();
            sum
        }
    }

    /// Adds the products of all columns but the first ones, and releases the stage.
    ///
    /// # Safety
    /// As for [`add_products`](Self::add_products).
    #[inline(always)]
    unsafe fn add_more(
        &self,
        sum: &mut Accumulator<C::Mma, BLOCKS>,
        stage: Stage,
        row_of_tile: u32,
    ) {
        let mut column = Self::SUMMAND_N;
        while column < TILE_N {
            // SAFETY: passed on to the caller.
            unsafe { self.add_products(sum, &stage, row_of_tile, column, || ()) };
            column += Self::SUMMAND_N;
        }
        // SAFETY: all that read it is complete.
        unsafe { stage.release(Self::READERS) };
    }

    /// Adds a k tile's products, of the columns from `column` on that a [`SummandOf`] has.
    ///
    /// # Safety
    /// The warps of the warpgroup call it together; the stage's loads have landed.
    #[inline(always)]
    unsafe fn add_products(
        &self,
        sum: &mut Accumulator<C::Mma, BLOCKS>,
        stage: &Stage,
        row_of_tile: u32,
        column: u32,
        meanwhile: impl FnOnce(),
    ) {
        // SAFETY: passed on to the caller.
        let products = unsafe {
            let mut acc = Accumulator::<SummandOf<C>, BLOCKS>::unset().begin();
            acc.multiply(
                self.a.operand(stage, row_of_tile),
                self.b.operand(stage, column),
            );
            meanwhile(); // the tensor cores compute
            // NOTE(perf): waiting here, not one tile later, gave 1.16 times the speed at 8192
            // (`compare_gemm --set fp8`). The other consumer fills the gap, and a second
            // accumulator in flight costs more than it hides.
            acc.finish()
        };
        let mut block = 0;
        while block < BLOCKS {
            let x = products.registers()[block].as_ref();
            let first = column as usize / 2;
            let mut i = 0;
            while i < x.len() {
                sum.registers_mut()[block].as_mut()[first + i] += x[i];
                i += 1;
            }
            block += 1;
        }
    }

    /// Columns of a [`SummandOf`]: of every two, a thread has one f32.
    const SUMMAND_N: u32 = size_of::<<SummandOf<C> as MmaAsync>::Acc>() as u32 / 2;
}

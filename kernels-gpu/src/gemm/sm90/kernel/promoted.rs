//! 8-bit operands: promotes each k tile's accumulators to f32 sums, as tensor cores keep fewer
//! bits.

use cuda_std::accumulator::Accumulator;
use cuda_std::pipeline::{Consumer, Readers};
use cuda_std::wgmma::MmaAsync;

use super::{Config, Gemm};

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
        consumer: &mut Consumer<STAGES>,
        k_tiles: u32,
        row_of_tile: u32,
        begun: impl FnOnce(),
        ending: impl FnOnce(),
    ) -> Accumulator<C::Mma, BLOCKS> {
        // SAFETY: as there.
        unsafe {
            let mut sum = Accumulator::<C::Mma, BLOCKS>::zero();
            // The first k tile, after whose product the other consumer may begin: half a k tile
            // behind, so that not both add at the same time.
            let stage = consumer.wait(); // A, B of the first k landed
            let mut acc = Accumulator::<C::Mma, BLOCKS>::unset().begin();
            acc.multiply(
                self.a.operand(&stage, row_of_tile),
                self.b.operand(&stage, 0),
            );
            consumer.agree(); // meanwhile the tensor cores compute
            let acc = acc.finish();
            begun();
            stage.release(Readers::OneBlock);
            add(&mut sum, &acc);
            let mut k_tile = 1;
            while k_tile < k_tiles {
                let stage = consumer.wait(); // A, B of k_tile landed
                let mut acc = Accumulator::<C::Mma, BLOCKS>::unset().begin();
                acc.multiply(
                    self.a.operand(&stage, row_of_tile),
                    self.b.operand(&stage, 0),
                );
                consumer.agree(); // meanwhile the tensor cores compute
                // NOTE(perf): waiting here, not one tile later, gave 1.16 times the speed at 8192
                // (`compare_gemm --set fp8`): the other consumer fills the gap, and a second
                // accumulator in flight costs more than it hides.
                let acc = acc.finish();
                stage.release(Readers::OneBlock);
                add(&mut sum, &acc);
                k_tile += 1;
            }
            ending();
            sum
        }
    }
}

/// `sum += x`.
#[inline(always)]
fn add<M, const BLOCKS: usize>(sum: &mut Accumulator<M, BLOCKS>, x: &Accumulator<M, BLOCKS>)
where
    M: MmaAsync<Acc: AsRef<[f32]> + AsMut<[f32]>>,
{
    let mut block = 0;
    while block < BLOCKS {
        let mut i = 0;
        while i < x.registers()[block].as_ref().len() {
            sum.registers_mut()[block].as_mut()[i] += x.registers()[block].as_ref()[i];
            i += 1;
        }
        block += 1;
    }
}

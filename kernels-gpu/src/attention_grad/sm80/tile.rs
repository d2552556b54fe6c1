//! What a tile of columns adds to the results.

use abi::attention_grad::sm80::THREADS;
use cuda_std::hint::opaque;
use cuda_std::thread;

use super::kernel::{Block, Gradients, Results};
use super::pairs::{cap_and_hide, centre, differentiate, kept};
use super::products::{Factors, accumulate, scores};
use crate::attention::score::Place;
use crate::attention::sm80::element::Half;
use crate::attention::sm80::kernel::first_row;
use crate::attention::sm80::softmax::Accumulator;

/// A tile of columns.
#[derive(Clone, Copy)]
pub(super) struct Columns {
    /// Query head of the pairs.
    pub(super) head_idx: u32,
    /// Its first column.
    pub(super) start: u32,
    /// Whether any row hides any of it.
    pub(super) masked: bool,
}

impl Block<'_> {
    /// Adds the tile of columns that is in a stage.
    ///
    /// # Safety
    /// All lanes of a warp call it together; rows and stage have landed.
    #[inline(always)]
    pub(super) unsafe fn add<
        E: Half,
        G: Gradients,
        const CAP: usize,
        const M: usize,
        const N: usize,
        const K: usize,
        const D: usize,
    >(
        &self,
        results: &mut Results<M, D>,
        stage: u32,
        of: Columns,
    ) {
        let tile = &self.tile;
        let [rows, second_rows] = self.rows_at();
        let mut column = 0;
        // By the block's threads: ptxas would unroll a loop up to a constant, and then spill.
        let columns = if tile.columns == tile.at_once {
            tile.columns
        } else {
            thread::block_dim_x() * tile.columns / THREADS
        };
        while column < columns {
            let down = column * tile.row_bytes();
            let [first, second] = self.columns_at(stage).map(|at| at.add_bytes(down));
            let factors = |rows, columns| Factors { rows, columns };
            let both = [factors(rows, first), factors(second_rows, second)];
            // SAFETY: the caller's promise.
            unsafe {
                let pairs = if G::DS {
                    [
                        scores::<E, CAP, M, N>(both[0]),
                        scores::<E, CAP, M, N>(both[1]),
                    ]
                } else {
                    [scores::<E, CAP, M, N>(both[0]), [[[0.0; 4]; N]; M]]
                };
                let at = (stage, column);
                self.add_pairs::<E, G, CAP, M, N, K, D>(results, pairs, at, of);
            }
            column += tile.at_once;
        }
    }

    /// Adds the columns from the tile's `column`th on, of which these are the scores and dP.
    ///
    /// # Safety
    /// As [`add`](Self::add).
    #[inline(always)]
    pub(super) unsafe fn add_pairs<
        E: Half,
        G: Gradients,
        const CAP: usize,
        const M: usize,
        const N: usize,
        const K: usize,
        const D: usize,
    >(
        &self,
        results: &mut Results<M, D>,
        [mut s, mut dp]: [Accumulator<M, N>; 2],
        (stage, column): (u32, u32),
        Columns {
            head_idx,
            start,
            masked,
        }: Columns,
    ) {
        let params = self.arguments.params;
        let down = column * self.tile.row_bytes();
        let [first, second] = self.columns_at(stage).map(|at| at.add_bytes(down));
        let row = first_row(16 * M as u32);
        let in_quad = opaque(thread::thread_idx_x()) % 4 * 2;
        let moments = self.moments::<G>(stage);
        let moments = moments.from(if G::KEYS { column + in_quad } else { row });
        // SAFETY: the caller's promise.
        unsafe {
            let place = Place {
                batch: self.sequence.batch_idx,
                head: head_idx,
                seqlen_q: self.sequence.q.len,
                seqlen_k: self.sequence.k.len,
            };
            // Found anew below, as there is no register for it.
            let corner = || {
                let in_quad = opaque(thread::thread_idx_x()) % 4 * 2;
                let row = first_row(16 * M as u32);
                [self.start + row, start + column + in_quad]
            };
            let kept = kept::<G, M, N>(place, corner());
            if G::DS {
                centre::<G, M, N>(&mut dp, moments, &kept);
            }
            let softcap_scale = params.fwd.softcap_scale;
            if masked || softcap_scale != 0.0 {
                let mask = if masked { Some(&self.mask) } else { None };
                let first = [self.start + row, start + column + in_quad];
                cap_and_hide::<G, M, N>(&mut s, &mut dp, softcap_scale, mask, first);
            }
            let at = (place, corner(), &kept);
            let (mut p, mut ds) =
                differentiate::<E, G, M, N, K>(&mut s, &mut dp, moments, at, params);
            if G::P {
                accumulate::<E, CAP, M, K, D>(&mut results.of_p, &mut p, second);
            }
            if G::DS {
                accumulate::<E, CAP, M, K, D>(&mut results.of_ds, &mut ds, first);
            }
        }
    }
}

//! One block's work in the kernel that owns queries: dq.

use cuda_std::thread;
use spec::attention::{self, Sequence};

use super::pairs::{Queries, differentiate};
use super::tile::{Inputs, Place, TILE, Vectors, scale};
use crate::attention::simt::mask::Mask;
use crate::simt::product::Accumulator;

/// A block's queries.
struct Block<'a> {
    inputs: Inputs<'a>,
    sequence: Sequence,
    mask: attention::Mask,
    place: Place,
    q: Vectors,
    d_o: Vectors,
    k: Vectors,
    v: Vectors,
}

/// One block's work. `CAP` is the head_dim cap, `TILE_D` the extent of head_dim in a stage of scores;
/// the others are what the functions of [`tile`](super::tile) and of the forward kernel return.
///
/// # Safety
/// As the launch's: parameters and sequence describe what the pointers point to, and the grid is that
/// of the entry. `smem` is static shared memory of [`smem_elements`](super::tile::smem_elements).
#[inline(always)]
pub(super) unsafe fn dq<
    const CAP: usize,
    const ROWS: usize,
    const COLUMNS: usize,
    const TILE_D: usize,
    const TILE_V: usize,
    const CHUNKS_V: usize,
>(
    inputs: Inputs<'_>,
    dq: *mut u8,
    (sequence, head_idx): (Sequence, u32),
    smem: *mut f32,
) {
    let params = inputs.params;
    // The last queries see the most keys: they start first, so that no long block is left at the end.
    let m_tiles = params.fwd.seqlen_q.div_ceil(TILE as u32);
    let m_start = (m_tiles - 1 - thread::block_idx_x()) * TILE as u32;
    if m_start >= sequence.q.len {
        return;
    }
    let block = Block::new::<ROWS>(inputs, sequence, head_idx, (m_start, smem));
    // SAFETY: the caller's promise.
    let queries = unsafe { block.queries::<ROWS>(head_idx) };
    let mut result = [[0.0; COLUMNS]; ROWS];
    let tiles = block
        .mask
        .key_blocks(m_start, m_start + TILE as u32, TILE as u32);
    for n_tile_idx in tiles.first..tiles.end {
        let tile = (n_tile_idx * TILE as u32, tiles.is_masked(n_tile_idx));
        // SAFETY: the caller's promise; the tiles are within the keys.
        unsafe {
            block.add::<CAP, ROWS, COLUMNS, TILE_D, TILE_V, CHUNKS_V>(tile, &queries, &mut result);
        }
    }
    scale(&mut result, params.softmax_scale);
    for row in 0..ROWS {
        if queries.lse_log2[row] == f32::INFINITY {
            result[row] = [0.0; COLUMNS]; // 0 times a key that is not finite is none
        }
    }
    let offset = sequence.offset_q(&params.dq, head_idx);
    // SAFETY: the caller's promise.
    unsafe {
        block.place.write::<CAP, ROWS, COLUMNS>(
            &result,
            (dq, inputs.element()),
            (offset, params.dq.seq),
            params.fwd.head_dim,
        );
    }
}

impl<'a> Block<'a> {
    #[inline(always)]
    fn new<const ROWS: usize>(
        inputs: Inputs<'a>,
        sequence: Sequence,
        head_idx: u32,
        (m_start, smem): (u32, *mut f32),
    ) -> Self {
        let (params, element) = (inputs.params, inputs.element());
        let fwd = &params.fwd;
        let head_kv_idx = fwd.head_kv_idx(head_idx);
        let of_queries = |base, strides| {
            let offset = sequence.offset_q(strides, head_idx);
            Vectors::new((base, element), strides, offset, sequence.q.len).from(m_start)
        };
        let of_keys = |base, strides| {
            let offset = sequence.offset_k(strides, head_kv_idx);
            Vectors::new((base, element), strides, offset, sequence.k.len)
        };
        Self {
            inputs,
            sequence,
            mask: fwd.mask(&sequence),
            place: Place::new::<ROWS>(smem, m_start, sequence.q.len),
            q: of_queries(inputs.q, &fwd.q),
            d_o: of_queries(inputs.d_o, &params.d_o),
            k: of_keys(inputs.k, &fwd.k),
            v: of_keys(inputs.v, &fwd.v),
        }
    }

    /// lse and delta of this thread's rows.
    ///
    /// # Safety
    /// The launch's.
    #[inline(always)]
    unsafe fn queries<const ROWS: usize>(&self, head_idx: u32) -> Queries<ROWS> {
        let mut queries = Queries::NONE;
        let first = self.inputs.params.fwd.lse_offset(&self.sequence, head_idx) as usize;
        let rows = &self.place.rows;
        for row in 0..ROWS {
            if rows.at(row) < rows.extent {
                let place = first + rows.at(row) as usize;
                // SAFETY: the caller's promise: there is one for each query and head.
                unsafe { queries.read(row, (self.inputs.lse, self.inputs.delta), place) }
            }
        }
        queries
    }

    /// Adds the tile of keys from `n_start` on.
    ///
    /// # Safety
    /// The launch's; all threads of the block call it together. Unless `masked`, every row sees the
    /// whole tile.
    #[inline(always)]
    unsafe fn add<
        const CAP: usize,
        const ROWS: usize,
        const COLUMNS: usize,
        const TILE_D: usize,
        const TILE_V: usize,
        const CHUNKS_V: usize,
    >(
        &self,
        (n_start, masked): (u32, bool),
        queries: &Queries<ROWS>,
        result: &mut Accumulator<ROWS, COLUMNS>,
    ) {
        let (place, params) = (&self.place, self.inputs.params);
        let mask = Mask::of_tile(&self.mask, &place.rows, n_start, TILE as u32);
        let (k, v) = (self.k.from(n_start), self.v.from(n_start));
        thread::sync_threads(); // the keys of the tile before are no longer read
        // SAFETY: the caller's promise; the barriers.
        let (mut s, mut dp) = unsafe {
            let s = place.products::<ROWS, TILE_D>(self.q, k, params.fwd.head_dim);
            thread::sync_threads(); // the stages of q and k are no longer read
            (
                s,
                place.products::<ROWS, TILE_D>(self.d_o, v, params.fwd.head_dim_v),
            )
        };
        differentiate::<true, ROWS, ROWS>(
            (&mut s, &mut dp),
            queries,
            params,
            (&mask, masked, place.first_column),
        );
        // SAFETY: dS of the tile before was read before the barriers above.
        unsafe { place.pairs().write(&dp) };
        thread::sync_threads(); // the stages of d_o and v are no longer read
        // SAFETY: the caller's promise; the barrier.
        unsafe {
            place
                .vectors::<CAP, TILE_V, CHUNKS_V>(k, params.fwd.head_dim)
                .accumulate(result, place.pairs(), &mask, masked);
        }
    }
}

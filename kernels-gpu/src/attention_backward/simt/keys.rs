//! One block's work in the kernel that owns keys: dk and dv.

use cuda_std::thread;
use spec::attention::{self, Sequence};

use super::pairs::{Queries, differentiate};
use super::tile::{Inputs, Place, TILE, Vectors, scale};
use crate::attention::simt::mask::Mask;
use crate::simt::element::CHUNK;
use crate::simt::product::Accumulator;

/// A block's keys.
struct Block<'a> {
    inputs: Inputs<'a>,
    sequence: Sequence,
    /// With queries and keys exchanged: rows are keys.
    mask: attention::Mask,
    place: Place,
    k: Vectors,
    v: Vectors,
}

/// A block's results.
struct Gradients<const ROWS: usize, const COLUMNS: usize> {
    dk: Accumulator<ROWS, COLUMNS>,
    dv: Accumulator<ROWS, COLUMNS>,
}

/// One block's work; constants as for [`dq`](super::queries::dq).
///
/// # Safety
/// As for [`dq`](super::queries::dq).
#[inline(always)]
pub(super) unsafe fn dkv<
    const CAP: usize,
    const ROWS: usize,
    const COLUMNS: usize,
    const TILE_D: usize,
    const TILE_V: usize,
    const CHUNKS_V: usize,
>(
    inputs: Inputs<'_>,
    (dk, dv): (*mut u8, *mut u8),
    (sequence, head_kv_idx): (Sequence, u32),
    smem: *mut f32,
) {
    let params = inputs.params;
    let n_start = thread::block_idx_x() * TILE as u32;
    if n_start >= sequence.k.len {
        return;
    }
    let block = Block::new::<ROWS>(inputs, sequence, head_kv_idx, (n_start, smem));
    let mut results = Gradients {
        dk: [[0.0; COLUMNS]; ROWS],
        dv: [[0.0; COLUMNS]; ROWS],
    };
    let tiles = block
        .mask
        .key_blocks(n_start, n_start + TILE as u32, TILE as u32);
    let heads = params.fwd.heads_per_kv();
    for head_idx in head_kv_idx * heads..(head_kv_idx + 1) * heads {
        for m_tile_idx in tiles.first..tiles.end {
            let tile = (m_tile_idx * TILE as u32, tiles.is_masked(m_tile_idx));
            // SAFETY: the caller's promise; the tiles are within the queries.
            unsafe {
                block.add::<CAP, ROWS, COLUMNS, TILE_D, TILE_V, CHUNKS_V>(
                    tile,
                    head_idx,
                    &mut results,
                );
            }
        }
    }
    scale(&mut results.dk, params.softmax_scale);
    let place = |strides| sequence.offset_k(strides, head_kv_idx);
    let element = inputs.element();
    // SAFETY: the caller's promise.
    unsafe {
        block.place.write::<CAP, ROWS, COLUMNS>(
            &results.dk,
            (dk, element),
            (place(&params.dk), params.dk.seq),
            params.fwd.head_dim,
        );
        block.place.write::<CAP, ROWS, COLUMNS>(
            &results.dv,
            (dv, element),
            (place(&params.dv), params.dv.seq),
            params.fwd.head_dim_v,
        );
    }
}

impl<'a> Block<'a> {
    #[inline(always)]
    fn new<const ROWS: usize>(
        inputs: Inputs<'a>,
        sequence: Sequence,
        head_kv_idx: u32,
        (n_start, smem): (u32, *mut f32),
    ) -> Self {
        let fwd = &inputs.params.fwd;
        let of_keys = |base, strides| {
            let offset = sequence.offset_k(strides, head_kv_idx);
            let from = (base, inputs.element());
            Vectors::new(from, strides, offset, sequence.k.len).from(n_start)
        };
        Self {
            inputs,
            sequence,
            mask: fwd.mask(&sequence).transposed(),
            place: Place::new::<ROWS>(smem, n_start, sequence.k.len),
            k: of_keys(inputs.k, &fwd.k),
            v: of_keys(inputs.v, &fwd.v),
        }
    }

    /// A query head's vectors, from the query `m_start` on.
    #[inline(always)]
    fn of_queries(
        &self,
        base: *const u8,
        strides: &attention::BshStrides,
        (head_idx, m_start): (u32, u32),
    ) -> Vectors {
        let offset = self.sequence.offset_q(strides, head_idx);
        let from = (base, self.inputs.element());
        Vectors::new(from, strides, offset, self.sequence.q.len).from(m_start)
    }

    /// lse and delta of this thread's columns.
    ///
    /// # Safety
    /// The launch's.
    #[inline(always)]
    unsafe fn queries(&self, head_idx: u32, m_start: u32) -> Queries<CHUNK> {
        let mut queries = Queries::NONE;
        let first = self.inputs.params.fwd.lse_offset(&self.sequence, head_idx) as usize;
        for column in 0..CHUNK {
            let query_idx = m_start + self.place.first_column + column as u32;
            if query_idx < self.sequence.q.len {
                let place = first + query_idx as usize;
                // SAFETY: the caller's promise: there is one for each query and head.
                unsafe { queries.read(column, (self.inputs.lse, self.inputs.delta), place) }
            }
        }
        queries
    }

    /// Adds the tile of a head's queries from `m_start` on.
    ///
    /// # Safety
    /// The launch's; all threads of the block call it together. Unless `masked`, every query of the
    /// tile sees every row.
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
        (m_start, masked): (u32, bool),
        head_idx: u32,
        results: &mut Gradients<ROWS, COLUMNS>,
    ) {
        let (place, inputs, params) = (&self.place, &self.inputs, self.inputs.params);
        let (head_dim, head_dim_v) = (params.fwd.head_dim, params.fwd.head_dim_v);
        let mask = Mask::of_tile(&self.mask, &place.rows, m_start, TILE as u32);
        let q = self.of_queries(inputs.q, &params.fwd.q, (head_idx, m_start));
        let d_o = self.of_queries(inputs.d_o, &params.d_o, (head_idx, m_start));
        thread::sync_threads(); // the queries of the tile before are no longer read
        // SAFETY: the caller's promise; the barriers.
        let (mut s, mut dp) = unsafe {
            let s = place.products::<ROWS, TILE_D>(self.k, q, head_dim);
            thread::sync_threads(); // the stages of k and q are no longer read
            (s, place.products::<ROWS, TILE_D>(self.v, d_o, head_dim_v))
        };
        // Read here and not before: at cap 256 there are no registers to keep them in.
        // SAFETY: the caller's promise.
        let queries = unsafe { self.queries(head_idx, m_start) };
        differentiate::<false, ROWS, CHUNK>(
            (&mut s, &mut dp),
            &queries,
            params,
            (&mask, masked, place.first_column),
        );
        // SAFETY: dS of the tile before was read before the barriers above.
        unsafe { place.pairs().write(&s) };
        thread::sync_threads(); // the stages of v and d_o are no longer read
        // SAFETY: the caller's promise; the barriers.
        unsafe {
            place
                .vectors::<CAP, TILE_V, CHUNKS_V>(d_o, head_dim_v)
                .accumulate(&mut results.dv, place.pairs(), &mask, masked);
            thread::sync_threads(); // P and the stages of d_o are no longer read
            place.pairs().write(&dp);
            place
                .vectors::<CAP, TILE_V, CHUNKS_V>(q, head_dim)
                .accumulate(&mut results.dk, place.pairs(), &mask, masked);
        }
    }
}

//! One block's work; see the [module](super).

use abi::attention::sm80::{BASES_BYTES, SCORED_KEYS_BYTES, THREADS, takes_block_masks};
use abi::attention::{BshStrides, FlashFwdLengths, FlashFwdPages, FlashFwdParams, Mask, Sequence};
use cuda_std::hint::opaque;
use cuda_std::shared::{SharedAddr, dynamic_base};
use cuda_std::thread::{self, sync_threads};

use super::copies::{self, Copies};
use super::element::Half;
use super::fragments::{Reader, joined};
use super::results::Results;
use super::softmax::{Accumulator, OnlineSoftmax, apply_mask, softcap};
use crate::attention::dropout::{self, is_dropped};
use crate::attention::lengths::sequence;
use crate::attention::score::{self, Place, is_scored};
use crate::attention::softmax::sink_log2;
use crate::attention::sparse::{Line, is_changed, is_sparse};

/// A launch's arguments besides [`FlashFwdParams`].
pub(crate) struct Arguments<'a> {
    pub(crate) q: *const u8,
    pub(crate) k: *const u8,
    pub(crate) v: *const u8,
    pub(crate) o: *mut u8,
    pub(crate) lse: *mut f32,
    pub(crate) sink: *const f32,
    pub(crate) lengths: &'a FlashFwdLengths,
    pub(crate) pages: &'a FlashFwdPages,
}

/// One block's work. A warp has `M` × 16 queries; a block of keys is `N` × 8 keys, and o `D` × 8
/// columns.
///
/// # Safety
/// As the launch's: see [`abi::attention::sm80`].
#[inline(always)]
pub(super) unsafe fn flash_fwd<
    E: Half,
    const CAP: usize,
    const TILE_M: usize,
    const TILE_N: usize,
    const M: usize,
    const N: usize,
    const D: usize,
>(
    arguments: &Arguments<'_>,
    params: &FlashFwdParams,
) {
    let coord = TileCoord::new::<TILE_M>(params);
    if coord.batch_idx >= params.batch {
        return;
    }
    // SAFETY: the caller's promise.
    let sequence = unsafe { sequence(arguments.lengths, params, coord.batch_idx) };
    if coord.m_start >= sequence.q.len {
        return;
    }
    let block = Block::<CAP, TILE_M, TILE_N>::new(arguments, params, &sequence, &coord);
    let mut o: Accumulator<M, D> = [[[0.0; 4]; D]; M];
    // SAFETY: the caller's promise: all threads are here.
    unsafe {
        let mut softmax =
            OnlineSoftmax::<M>::new(sink_log2(arguments.sink, block.head_idx), block.lane);
        block.keys::<E, M, N, D>(&mut softmax, &mut o);
        let mut normalizer = softmax.finalize();
        dropout::scale(normalizer.inverse_sum.as_flattened_mut());
        // Recomputed: keeping this through the loop over keys would take registers that there are
        // not.
        let coord = TileCoord::new::<TILE_M>(params);
        let sequence = self::sequence(arguments.lengths, params, coord.batch_idx);
        let results = Results::new(arguments.o, params, &sequence, &coord, 16 * M as u32);
        results.write_o::<E, M, D>(&o, &normalizer.inverse_sum);
        if params.write_lse != 0 {
            let first = params.lse_offset(&sequence, coord.head_idx) as usize;
            results.write_lse(arguments.lse.wrapping_add(first), &normalizer.lse);
        }
    }
}

/// Which queries a block computes.
pub(super) struct TileCoord {
    pub(super) head_idx: u32,
    batch_idx: u32,
    /// First query, in the sequence.
    pub(super) m_start: u32,
}

impl TileCoord {
    /// Opaque, so that nothing is kept in registers from one call to the next.
    #[inline(always)]
    fn new<const TILE_M: usize>(params: &FlashFwdParams) -> Self {
        let (head_idx, batch_idx) = params.head_and_batch(
            opaque(thread::block_idx_y()),
            thread::block_idx_z(),
            thread::grid_dim_y(),
        );
        // The last queries see the most keys: they start first, so that no long block is left at
        // the end.
        let m_tiles = params.seqlen_q.div_ceil(TILE_M as u32);
        Self {
            head_idx,
            batch_idx,
            m_start: (m_tiles - 1 - opaque(thread::block_idx_x())) * TILE_M as u32,
        }
    }
}

/// This thread's first row in its block, if a warp has `warp_rows` rows.
#[inline(always)]
pub(crate) fn first_row(warp_rows: u32) -> u32 {
    let thread_idx = opaque(thread::thread_idx_x());
    thread_idx / thread::WARP_THREADS * warp_rows + thread_idx % thread::WARP_THREADS / 4
}

/// Addresses of the first key and the first value of a block's sequence and head. They are the same
/// for all threads, and kept in shared memory as there are no registers left for them in the loop.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
struct Bases {
    k: *const u8,
    v: *const u8,
}

const _: () = assert!(size_of::<Bases>() == BASES_BYTES as usize);

/// What is told of keys to what changes scores, kept behind [`Bases`].
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct ScoredKeys {
    /// Keys of the sequence before the first that some query sees, from which blocks count.
    before: u32,
    seqlen_k: u32,
}

const _: () = assert!(size_of::<ScoredKeys>() == SCORED_KEYS_BYTES as usize);

/// What is constant throughout a block's work.
struct Block<'a, const CAP: usize, const TILE_M: usize, const TILE_N: usize> {
    arguments: &'a Arguments<'a>,
    params: &'a FlashFwdParams,
    /// Its keys are those that some query sees.
    sequence: Sequence,
    mask: Mask,
    head_idx: u32,
    /// First query, in the sequence.
    m_start: u32,
    lane: u32,
    smem_q: SharedAddr,
    smem_k: SharedAddr,
    smem_v: SharedAddr,
}

impl<'a, const CAP: usize, const TILE_M: usize, const TILE_N: usize>
    Block<'a, CAP, TILE_M, TILE_N>
{
    /// Whether there is a block mask. The kernels that take none have no registers left for it.
    #[inline(always)]
    fn is_sparse() -> bool {
        takes_block_masks(CAP as u32) && is_sparse()
    }

    #[inline(always)]
    fn new(
        arguments: &'a Arguments<'a>,
        params: &'a FlashFwdParams,
        sequence: &Sequence,
        coord: &TileCoord,
    ) -> Self {
        const ELEMENT_BYTES: u32 = 2;
        let tile_bytes = |rows: usize| (rows * CAP) as u32 * ELEMENT_BYTES;
        // SAFETY: dynamic shared memory, the block's own.
        let smem_q = unsafe { SharedAddr::of(dynamic_base()) };
        let smem_k = smem_q.add_bytes(tile_bytes(TILE_M));
        let (sequence, mask) = params.seen(sequence);
        Self {
            arguments,
            params,
            sequence,
            mask,
            head_idx: coord.head_idx,
            m_start: coord.m_start,
            lane: thread::thread_idx_x() % thread::WARP_THREADS,
            smem_q,
            smem_k,
            smem_v: smem_k.add_bytes(tile_bytes(TILE_N)),
        }
    }

    /// Where addresses are kept.
    #[inline(always)]
    fn slot(&self) -> *mut Bases {
        dynamic_base()
            .wrapping_add((TILE_M + 2 * TILE_N) * CAP * 2)
            .cast()
    }

    /// Where [`ScoredKeys`] are kept.
    #[inline(always)]
    fn scored_keys(&self) -> *mut ScoredKeys {
        self.slot().wrapping_add(1).cast()
    }

    /// Addresses of the first key and the first value of this block's sequence and head.
    #[inline(always)]
    fn bases(&self) -> Bases {
        // Mostly each query head has its own key head; two divisions would hold up the keys'
        // copies.
        let head_kv_idx = if self.params.heads_kv == self.params.heads_q {
            self.head_idx
        } else {
            self.params.head_kv_idx(self.head_idx)
        };
        let first = |base: *const u8, strides: &BshStrides| {
            base.wrapping_offset(2 * self.sequence.offset_k(strides, head_kv_idx) as isize)
        };
        Bases {
            k: first(self.arguments.k, &self.params.k),
            v: first(self.arguments.v, &self.params.v),
        }
    }

    /// The copies of keys, the first of which is at `first`.
    #[inline(always)]
    fn keys_at(&self, first: *const u8) -> Copies<CAP, TILE_N, THREADS> {
        Copies::new(first, self.params.k.seq, self.params.head_dim)
    }

    /// The copies of values, the first of which is at `first`.
    #[inline(always)]
    fn values_at(&self, first: *const u8) -> Copies<CAP, TILE_N, THREADS> {
        Copies::new(first, self.params.v.seq, self.params.head_dim_v)
    }

    /// Starts the copies of q.
    ///
    /// # Safety
    /// The launch's.
    #[inline(always)]
    unsafe fn start_q<E: Half>(&self) {
        let (params, sequence) = (self.params, &self.sequence);
        let offset = 2 * sequence.offset_q(&params.q, self.head_idx);
        let q = self.arguments.q.wrapping_offset(offset as isize);
        let copies = Copies::<CAP, TILE_M, THREADS>::new(q, params.q.seq, params.head_dim);
        // SAFETY: the caller's promise; only rows of the sequence are read.
        unsafe { copies.start::<E>(self.m_start, sequence.q.len - self.m_start, self.smem_q) }
    }

    /// Adds all keys that the block's queries see to `softmax` and `o`.
    ///
    /// # Safety
    /// The launch's; all threads of the block call it together.
    #[inline(always)]
    unsafe fn keys<E: Half, const M: usize, const N: usize, const D: usize>(
        &self,
        softmax: &mut OnlineSoftmax<M>,
        o: &mut Accumulator<M, D>,
    ) {
        let params = self.params;
        let mask = self.mask;
        let mut blocks = mask.key_blocks(self.m_start, self.m_start + TILE_M as u32, TILE_N as u32);
        if Self::is_sparse() {
            (blocks.first, blocks.end) = self.line().visited(blocks.first, blocks.end);
        }
        if blocks.is_empty() {
            return;
        }
        let slot = self.slot();
        let keys_left = |n_block_idx: u32| self.sequence.k.len - n_block_idx * TILE_N as u32;
        let mut n_block_idx = blocks.end;
        // SAFETY: the caller's promise; the blocks lie within the keys.
        unsafe {
            // q's copies are under way while the divisions that find the keys' head run.
            self.start_q::<E>();
            let bases = self.bases();
            let last = blocks.end - 1;
            self.keys_at(bases.k)
                .start::<E>(last * TILE_N as u32, keys_left(last), self.smem_k);
            copies::commit::<E>();
            if thread::thread_idx_x() == 0 {
                slot.write(bases); // read after the loop's first barrier
                if is_scored() || Self::is_sparse() {
                    self.scored_keys().write(self.keys_of_scores());
                }
            }
            while n_block_idx > blocks.first {
                n_block_idx -= 1;
                let (found, partial) = match Self::is_sparse() {
                    true => self.line().before(n_block_idx),
                    false => (n_block_idx, 0),
                };
                n_block_idx = found;
                let n_start = n_block_idx * TILE_N as u32;
                copies::wait::<E>();
                sync_threads(); // k has landed; the v before is no longer read
                self.values_at(slot.read().v).start::<E>(
                    n_start,
                    keys_left(n_block_idx),
                    self.smem_v,
                );
                copies::commit::<E>();
                let mut s = self.scores::<E, M, N>();
                if params.softcap_scale != 0.0 {
                    softcap(&mut s, params.softcap_scale);
                }
                if is_changed(partial) {
                    self.change(&mut s, n_start);
                }
                if blocks.is_masked(n_block_idx) {
                    let first_row = self.m_start + first_row(16 * M as u32);
                    let first_key = n_start + opaque(thread::thread_idx_x()) % 4 * 2;
                    apply_mask(&mut s, &mask, first_row, first_key);
                }
                copies::wait::<E>();
                sync_threads(); // v has landed; k is no longer read
                if n_block_idx > blocks.first {
                    let mut next = n_block_idx - 1;
                    if Self::is_sparse() {
                        (next, _) = self.line().before(next);
                    }
                    self.keys_at(slot.read().k).start::<E>(
                        next * TILE_N as u32,
                        keys_left(next),
                        self.smem_k,
                    );
                }
                copies::commit::<E>();
                let rescale = softmax.update(&mut s, params.softmax_scale_log2);
                if is_dropped() {
                    self.drop(&mut s, n_start);
                }
                for i in 0..M {
                    for j in 0..D {
                        for element in 0..4 {
                            o[i][j][element] *= rescale[i][element / 2];
                        }
                    }
                }
                self.accumulate::<E, M, N, D>(o, &s);
            }
        }
    }

    /// Scores of the block of keys in shared memory.
    ///
    /// # Safety
    /// All lanes call it together; q and k have landed.
    #[inline(always)]
    unsafe fn scores<E: Half, const M: usize, const N: usize>(&self) -> Accumulator<M, N> {
        let warp_idx = thread::thread_idx_x() / thread::WARP_THREADS;
        let q = Reader::<CAP>::down(self.smem_q, warp_idx * 16 * M as u32);
        let k = Reader::<CAP>::right(self.smem_k);
        let mut s = [[[0.0; 4]; N]; M];
        for step in 0..CAP / 16 {
            let mut a = [[0; 4]; M];
            // SAFETY: the caller's promise.
            unsafe {
                for i in 0..M {
                    a[i] = q.load(i as u32, step as u32);
                }
                for j in 0..N / 2 {
                    let b = k.load(j as u32, step as u32);
                    for i in 0..M {
                        E::multiply(&mut s[i][2 * j], a[i], [b[0], b[1]]);
                        E::multiply(&mut s[i][2 * j + 1], a[i], [b[2], b[3]]);
                    }
                }
            }
        }
        s
    }

    /// The line of key blocks of the block's queries. Found anew, as in `change`.
    #[inline(always)]
    fn line(&self) -> Line<false> {
        let coord = TileCoord::new::<TILE_M>(self.params);
        Line {
            batch: coord.batch_idx,
            head: coord.head_idx,
            row: coord.m_start,
            extent: TILE_N as u32,
        }
    }

    /// What changes scores is told of the keys. Found anew, as in `change`.
    ///
    /// # Safety
    /// The launch's.
    #[inline(always)]
    unsafe fn keys_of_scores(&self) -> ScoredKeys {
        let coord = TileCoord::new::<TILE_M>(self.params);
        // SAFETY: the caller's promise.
        let whole = unsafe { sequence(self.arguments.lengths, self.params, coord.batch_idx) };
        ScoredKeys {
            before: self.sequence.k.first.wrapping_sub(whole.k.first),
            seqlen_k: whole.k.len,
        }
    }

    /// Where the thread's scores of a block are, with its first query and key.
    ///
    /// # Safety
    /// [`ScoredKeys`] are in shared memory.
    #[inline(always)]
    unsafe fn place<const M: usize>(&self, n_start: u32) -> (Place, u32, u32) {
        let coord = TileCoord::new::<TILE_M>(self.params);
        // SAFETY: the caller's promise.
        let ScoredKeys { before, seqlen_k } = unsafe { self.scored_keys().read() };
        let at = Place {
            batch: coord.batch_idx,
            head: coord.head_idx,
            seqlen_q: self.sequence.q.len,
            seqlen_k,
        };
        let first_row = coord.m_start + first_row(16 * M as u32);
        let first_key = before + n_start + opaque(thread::thread_idx_x()) % 4 * 2;
        (at, first_row, first_key)
    }

    /// Zeros the probabilities of a block that are dropped.
    ///
    /// # Safety
    /// As [`place`](Self::place).
    #[inline(always)]
    unsafe fn drop<const M: usize, const N: usize>(&self, p: &mut Accumulator<M, N>, n_start: u32) {
        // SAFETY: the caller's promise.
        let (at, first_row, first_key) = unsafe { self.place::<M>(n_start) };
        for i in 0..M {
            for j in (0..N).step_by(2) {
                let ([a, b, c, d], [e, f, g, h]) = (p[i][j], p[i][j + 1]);
                let (query, key) = (first_row + 16 * i as u32, first_key + 8 * j as u32);
                let kept = dropout::keep_of_keys([a, b, c, d, e, f, g, h], at, query, key);
                let [a, b, c, d, e, f, g, h] = kept;
                (p[i][j], p[i][j + 1]) = ([a, b, c, d], [e, f, g, h]);
            }
        }
    }

    /// Makes of a block's scores what the call wants.
    ///
    /// # Safety
    /// [`ScoredKeys`] are in shared memory.
    #[inline(always)]
    unsafe fn change<const M: usize, const N: usize>(
        &self,
        s: &mut Accumulator<M, N>,
        n_start: u32,
    ) {
        // SAFETY: the caller's promise.
        let (at, first_row, first_key) = unsafe { self.place::<M>(n_start) };
        for i in 0..M {
            for half in 0..2 {
                let query = first_row + (16 * i + 8 * half) as u32;
                for j in 0..N {
                    let key = first_key + 8 * j as u32;
                    let pair = [s[i][j][2 * half], s[i][j][2 * half + 1]];
                    let [first, second] = score::of_keys(pair, at, query, key);
                    (s[i][j][2 * half], s[i][j][2 * half + 1]) = (first, second);
                }
            }
        }
    }

    /// `o += p @ v` of the block of values in shared memory.
    ///
    /// # Safety
    /// All lanes call it together; v has landed.
    #[inline(always)]
    unsafe fn accumulate<E: Half, const M: usize, const N: usize, const D: usize>(
        &self,
        o: &mut Accumulator<M, D>,
        p: &Accumulator<M, N>,
    ) {
        let v = Reader::<CAP>::down(self.smem_v, 0);
        for step in 0..N / 2 {
            let mut a = [[0; 4]; M];
            for i in 0..M {
                a[i] = joined::<E>(&p[i][2 * step], &p[i][2 * step + 1]);
            }
            for j in 0..D / 2 {
                // SAFETY: the caller's promise.
                unsafe {
                    let b = v.load_transposed(step as u32, j as u32);
                    for i in 0..M {
                        E::multiply(&mut o[i][2 * j], a[i], [b[0], b[1]]);
                        E::multiply(&mut o[i][2 * j + 1], a[i], [b[2], b[3]]);
                    }
                }
            }
        }
    }
}

//! The epilogue in f64, and the stores of a tile that lies in shared memory.

use abi::gemm::{Activation, DoubleParams, EpilogueParams, TileConfig, batch_idx};
use cuda_std::math::wide::fma;
use cuda_std::thread;

/// Results that a thread takes at once, so that its loads of what is added to them are in flight
/// together.
const AT_ONCE: usize = 4;

/// The pointers among an entry's arguments that the epilogue uses.
#[derive(Clone, Copy)]
pub(super) struct Pointers {
    pub(super) c: *const f64,
    pub(super) d: *mut f64,
    pub(super) bias: *const f64,
    pub(super) residual: *const f64,
    pub(super) row_scale: *const f64,
    pub(super) column_scale: *const f64,
    pub(super) alpha: *const f64,
    pub(super) beta: *const f64,
}

/// All that a launch says of its product but A and B.
#[derive(Clone, Copy)]
pub(super) struct Launch<'a> {
    pub(super) pointers: Pointers,
    pub(super) params: &'a DoubleParams,
    pub(super) epilogue: &'a EpilogueParams,
}

/// The tile of a block.
#[derive(Clone, Copy)]
pub(super) struct TileCoord {
    pub(super) batch: i64,
    pub(super) first_row: u32,
    pub(super) first_column: u32,
}

impl TileCoord {
    /// This block's; `None` beyond the batch.
    #[inline(always)]
    pub(super) fn of(params: &DoubleParams, tile: &TileConfig) -> Option<Self> {
        let batch = batch_idx(
            thread::block_idx_y(),
            thread::block_idx_z(),
            thread::grid_dim_y(),
        );
        if batch >= u64::from(params.batch) {
            return None;
        }
        let (row, column) = tile.tile_coordinates(thread::block_idx_x(), params.m, params.n);
        Some(Self {
            batch: batch as i64,
            first_row: row * tile.tile_m,
            first_column: column * tile.tile_n,
        })
    }
}

/// The element at `index` of a vector or matrix.
///
/// # Safety
/// It can be read.
#[inline(always)]
unsafe fn at(base: *const f64, index: i64) -> f64 {
    // SAFETY: the caller's promise.
    unsafe { base.wrapping_offset(index as isize).read() }
}

impl Launch<'_> {
    /// Stores the block's tile, which is in `smem` by rows without gaps.
    ///
    /// # Safety
    /// As the launch's; the tile is there for all threads to read.
    #[inline(always)]
    pub(super) unsafe fn store(&self, smem: *const f64, tile: &TileConfig, coord: TileCoord) {
        let (params, threads) = (self.params, tile.threads);
        // A thread's results are in one column, since a row divides the threads.
        let in_row = thread::thread_idx_x() % tile.tile_n;
        let row_step = threads / tile.tile_n;
        let column = coord.first_column + in_row;
        if column >= params.n {
            return;
        }
        let scalar = |pointer: *const f64, value: f64| {
            if pointer.is_null() {
                value
            } else {
                // SAFETY: the caller's promise: one f64.
                unsafe { pointer.read() }
            }
        };
        let alpha = scalar(self.pointers.alpha, params.alpha);
        let beta = scalar(self.pointers.beta, params.beta);
        let rows_left = (params.m - coord.first_row).min(tile.tile_m);
        let mut row = thread::thread_idx_x() / tile.tile_n;
        while row < rows_left {
            let mut x = [0.0; AT_ONCE];
            // Beyond the last row, the thread takes its own first one again: nobody else writes
            // that.
            let mut rows = [coord.first_row + row; AT_ONCE];
            for i in 0..AT_ONCE {
                let own = row + i as u32 * row_step;
                if own < rows_left {
                    // SAFETY: inside the tile.
                    x[i] = unsafe {
                        smem.wrapping_add((own * tile.tile_n + in_row) as usize)
                            .read()
                    };
                    rows[i] = coord.first_row + own;
                }
            }
            // SAFETY: the caller's promise; all rows are inside D.
            unsafe { self.apply(&mut x, [alpha, beta], coord.batch, rows, column) };
            for i in 0..AT_ONCE {
                if row + (i as u32 * row_step) < rows_left {
                    let index = i64::from(rows[i]) * params.ldd + i64::from(column);
                    let index = index + coord.batch * params.batch_stride_d;
                    let d = self.pointers.d.wrapping_offset(index as isize);
                    // SAFETY: inside D, and no other thread's.
                    unsafe { d.write(x[i]) }
                }
            }
            row += AT_ONCE as u32 * row_step;
        }
    }

    /// The steps of the epilogue that the launch has.
    ///
    /// # Safety
    /// As the launch's; rows and column are inside D.
    #[inline(always)]
    unsafe fn apply(
        &self,
        x: &mut [f64; AT_ONCE],
        [alpha, beta]: [f64; 2],
        batch: i64,
        rows: [u32; AT_ONCE],
        column: u32,
    ) {
        let (pointers, params, epilogue) = (&self.pointers, self.params, self.epilogue);
        let column = i64::from(column);
        // SAFETY: the caller's promise: what is not null has an element for each result.
        unsafe {
            for i in 0..AT_ONCE {
                x[i] *= alpha;
            }
            if !pointers.row_scale.is_null() {
                let stride = i64::from(epilogue.row_scale_stride);
                for i in 0..AT_ONCE {
                    x[i] *= at(pointers.row_scale, i64::from(rows[i]) * stride);
                }
            }
            if !pointers.column_scale.is_null() {
                let stride = i64::from(epilogue.column_scale_stride);
                let scale = at(pointers.column_scale, column * stride);
                for i in 0..AT_ONCE {
                    x[i] *= scale;
                }
            }
            if beta != 0.0 {
                let first = batch * params.batch_stride_c + column;
                let c = rows.map(|row| at(pointers.c, first + i64::from(row) * params.ldc));
                for i in 0..AT_ONCE {
                    x[i] = fma(beta, c[i], x[i]);
                }
            }
            if !pointers.bias.is_null() {
                let first = batch * epilogue.batch_stride_bias + column * epilogue.bias_stride_n;
                for i in 0..AT_ONCE {
                    let row = i64::from(rows[i]);
                    x[i] += at(pointers.bias, first + row * epilogue.bias_stride_m);
                }
            }
            if epilogue.activation == Activation::Relu.code() {
                for i in 0..AT_ONCE {
                    // NaN and -0 stay.
                    x[i] = if x[i] < 0.0 { 0.0 } else { x[i] };
                }
            }
            if !pointers.residual.is_null() {
                let first = batch * epilogue.batch_stride_residual + column;
                for i in 0..AT_ONCE {
                    let row = i64::from(rows[i]);
                    x[i] += at(pointers.residual, first + row * epilogue.ld_residual);
                }
            }
        }
    }
}

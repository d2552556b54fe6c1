//! Online softmax over tiles of scores in base 2.

use cuda_std::math::{exp2, log2, rcp};

use crate::attention::softmax::{self, Exponential};

/// Lanes that share a row.
pub(crate) const ROW_LANES: u32 = 16;

/// Powers to about 1 ulp, of rows over [`ROW_LANES`] lanes.
pub(super) struct Exact;

impl Exponential for Exact {
    const ROW_LANES: u32 = ROW_LANES;

    #[inline(always)]
    fn exp2(x: f32) -> f32 {
        exp2(x)
    }

    #[inline(always)]
    fn log2(x: f32) -> f32 {
        log2(x)
    }

    #[inline(always)]
    fn rcp(x: f32) -> f32 {
        rcp(x)
    }
}

/// State of a thread's rows.
pub(super) type OnlineSoftmax<const ROWS: usize> = softmax::OnlineSoftmax<Exact, ROWS, 1>;

impl<const ROWS: usize> OnlineSoftmax<ROWS> {
    /// Replaces a tile of scores, in base 2, by probabilities, and returns the factors by which
    /// accumulated values must be rescaled.
    ///
    /// # Safety
    /// All lanes of the warp call it together.
    #[inline(always)]
    pub(super) unsafe fn update<const COLUMNS: usize>(
        &mut self,
        s: &mut [[f32; COLUMNS]; ROWS],
    ) -> [f32; ROWS] {
        let mut rescale = [0.0; ROWS];
        for row in 0..ROWS {
            let mut tile_max = s[row][0];
            for column in 1..COLUMNS {
                tile_max = tile_max.max(s[row][column]);
            }
            // SAFETY: the caller's promise.
            let (base, factor) = unsafe { self.raise((row, 0), tile_max, 1.0) };
            let mut tile_sum = 0.0;
            for column in 0..COLUMNS {
                let p = exp2(s[row][column] - base);
                s[row][column] = p;
                tile_sum += p;
            }
            self.row_sum[row][0] = self.row_sum[row][0] * factor + tile_sum;
            rescale[row] = factor;
        }
        rescale
    }
}

/// `tanh(s * softcap_scale) * scale` for a score s.
///
/// The tanh is `1 - 2 / (exp(2 |x|) + 1)`: branch-free, with an absolute error of at most
/// [`SOFTCAP_TANH_ERROR`](abi::attention::SOFTCAP_TANH_ERROR).
#[inline(always)]
pub(crate) fn softcap(s: f32, softcap_scale: f32, scale: f32) -> f32 {
    const TWO_LOG2_E: f32 = 2.0 * core::f32::consts::LOG2_E;
    let x = s * softcap_scale;
    let tanh = 1.0 - 2.0 / (exp2(x.abs() * TWO_LOG2_E) + 1.0);
    tanh.copysign(x) * scale
}

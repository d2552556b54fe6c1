//! The arithmetic of gradients of layer norm and RMS norm.
//!
//! With `z = (h - mean) rstd` and `w = weight dy`: `dx = rstd (w - mean(w) - z mean(w z))` (RMS
//! norm without `mean(w)`), `dweight = sum over rows of dy z`, `dbias = sum over rows of dy`.

use abi::rows::{RowParams, flags};
use cuda_std::math::{fma, mul_rn};
use cuda_std::warp::Words;

/// What the forward pass kept of a row.
#[derive(Clone, Copy)]
pub(super) struct Kept {
    /// 0 in RMS norm.
    pub(super) mean: f32,
    pub(super) rstd: f32,
}

impl Kept {
    /// Of a row that does not exist.
    pub(super) const NONE: Self = Self {
        mean: 0.0,
        rstd: 0.0,
    };

    /// z of an element.
    #[inline(always)]
    pub(super) fn normalised(self, x: f32) -> f32 {
        mul_rn(x - self.mean, self.rstd)
    }
}

/// The two sums of a row that its dx needs.
#[derive(Clone, Copy)]
pub(super) struct Pair {
    /// The sum of w.
    pub(super) plain: f32,
    /// The sum of w z.
    pub(super) by_z: f32,
}

impl Pair {
    /// Of nothing.
    pub(super) const ZERO: Self = Self {
        plain: 0.0,
        by_z: 0.0,
    };

    /// With one more element.
    #[inline(always)]
    pub(super) fn and(self, w: f32, z: f32) -> Self {
        Self {
            plain: self.plain + w,
            by_z: fma(w, z, self.by_z),
        }
    }

    #[inline(always)]
    pub(super) fn add(self, other: Self) -> Self {
        Self {
            plain: self.plain + other.plain,
            by_z: self.by_z + other.by_z,
        }
    }
}

impl Words for Pair {
    #[inline(always)]
    fn map_words(self, mut f: impl FnMut(u32) -> u32) -> Self {
        Self {
            plain: self.plain.map_words(&mut f),
            by_z: self.by_z.map_words(&mut f),
        }
    }
}

/// The row's means that enter dx: mean(w), or 0 in RMS norm, and mean(w z); `share` is 1 / n.
#[inline(always)]
pub(super) fn means(sums: Pair, share: f32, params: &RowParams) -> Pair {
    let is_centered = params.flags & flags::CENTER != 0;
    Pair {
        plain: if is_centered {
            mul_rn(sums.plain, share)
        } else {
            0.0
        },
        by_z: mul_rn(sums.by_z, share),
    }
}

/// One element of dx.
#[inline(always)]
pub(super) fn gradient(w: f32, z: f32, means: Pair, rstd: f32) -> f32 {
    mul_rn(fma(-z, means.by_z, w - means.plain), rstd)
}

/// The sums of a row with those of a vector of x, dy and weights. Adds the vector to the sums of its
/// columns, `dweight` and `dbias`; unless `WHOLE`, as in an RMS norm without a bias, only to the first.
#[inline(always)]
pub(super) fn taken<const V: usize, const WHOLE: bool>(
    mut sums: Pair,
    [x, dy, weight]: [&[f32; V]; 3],
    kept: Kept,
    [dweight, dbias]: [&mut [f32; V]; 2],
) -> Pair {
    let mut i = 0;
    while i < V {
        // If there is no vector, dy is 0.
        let x = if WHOLE { x[i] - kept.mean } else { x[i] };
        let z = mul_rn(x, kept.rstd);
        let w = mul_rn(dy[i], weight[i]);
        if WHOLE {
            sums.plain += w;
        }
        sums.by_z = fma(w, z, sums.by_z);
        dweight[i] = fma(dy[i], z, dweight[i]);
        if WHOLE {
            dbias[i] += dy[i];
        }
        i += 1;
    }
    sums
}

/// What dx of all elements of a row has in common, by which it is expressed by x:
/// `dx = (mean - x) rstd² mean(w z) + (w rstd - rstd mean(w))`.
#[derive(Clone, Copy)]
pub(super) struct Factors {
    kept: Kept,
    plain: f32,
    by_x: f32,
}

impl Factors {
    #[inline(always)]
    pub(super) fn new(kept: Kept, means: Pair) -> Self {
        Self {
            kept,
            plain: mul_rn(kept.rstd, means.plain),
            by_x: mul_rn(kept.rstd, mul_rn(kept.rstd, means.by_z)),
        }
    }

    /// dx of a vector of x, dy and weights; `WHOLE` as for [`taken`].
    #[inline(always)]
    pub(super) fn of<const V: usize, const WHOLE: bool>(
        self,
        [x, dy, weight]: [&[f32; V]; 3],
    ) -> [f32; V] {
        let mut out = [0.0; V];
        let mut i = 0;
        while i < V {
            let w = mul_rn(dy[i], weight[i]);
            out[i] = match WHOLE {
                true => fma(
                    self.kept.mean - x[i],
                    self.by_x,
                    fma(w, self.kept.rstd, -self.plain),
                ),
                false => fma(-x[i], self.by_x, mul_rn(w, self.kept.rstd)),
            };
            i += 1;
        }
        out
    }
}

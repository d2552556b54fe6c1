//! P and dS of a thread's pairs, from their scores and dP.

use abi::attention::Mask;
use abi::attention_grad::AttentionGradParams;
use cuda_std::hint::{opaque, rotate};
use cuda_std::math::approx::{ex2_approx_ftz, tanh_approx};
use cuda_std::math::fma;

use super::kernel::Gradients;
use super::moments::Moments;
use super::products::Fragments;
use crate::attention::dropout::Kept;
use crate::attention::score::{self, Place};
use crate::attention::sm80::element::Half;
use crate::attention::sm80::fragments::joined;
use crate::attention::sm80::softmax::{Accumulator, apply_mask};

/// Exponent and delta of the queries of a thread's rows, if rows are queries.
type OfRows<const M: usize> = [[[f32; 2]; 2]; M];

/// Loads them, from the thread's first row on.
///
/// # Safety
/// They have landed.
#[inline(always)]
unsafe fn of_rows<G: Gradients, const M: usize>(moments: Moments) -> OfRows<M> {
    let mut rows = [[[0.0; 2]; 2]; M];
    if !G::KEYS {
        for i in 0..M {
            for half in 0..2 {
                // SAFETY: the caller's promise.
                rows[i][half] = unsafe { moments.from((16 * i + 8 * half) as u32).one() };
            }
        }
    }
    rows
}

/// Exponent and delta of a thread's columns of the `j`th 8, if columns are queries.
///
/// # Safety
/// They have landed.
#[inline(always)]
unsafe fn of_columns<G: Gradients>(moments: Moments, j: usize) -> [[f32; 2]; 2] {
    if G::KEYS {
        // SAFETY: the caller's promise.
        unsafe { moments.from(8 * j as u32).two() }
    } else {
        [[0.0; 2]; 2]
    }
}

/// Which of a thread's pairs are kept. `first` are the positions of its first row and column.
#[inline(always)]
pub(super) fn kept<G: Gradients, const M: usize, const N: usize>(
    place: Place,
    first: [u32; 2],
) -> Kept {
    const {
        assert!(
            N.is_multiple_of(2) && M * N <= 32,
            "whole eights, and a bit for each"
        )
    };
    let at = |idx: usize| {
        let (row, column) = (
            first[0] + 16 * (idx / (N / 2)) as u32,
            first[1] + 16 * (idx % (N / 2)) as u32,
        );
        if G::KEYS {
            (column, row)
        } else {
            (row, column)
        }
    };
    if G::KEYS {
        Kept::of::<true>(4 * M * N, place, at)
    } else {
        Kept::of::<false>(4 * M * N, place, at)
    }
}

/// `dP - delta` in place of dP, of which those of dropped pairs are 0 before.
///
/// # Safety
/// The moments, those of the thread's first query, have landed.
#[inline(always)]
pub(super) unsafe fn centre<G: Gradients, const M: usize, const N: usize>(
    dp: &mut Accumulator<M, N>,
    moments: Moments,
    kept: &Kept,
) {
    // SAFETY: the caller's promise.
    let rows = unsafe { of_rows::<G, M>(moments) };
    for j in 0..N {
        // SAFETY: the caller's promise.
        let columns = unsafe { of_columns::<G>(moments, j) };
        for i in 0..M {
            for half in 0..2 {
                let pair = [dp[i][j][2 * half], dp[i][j][2 * half + 1]];
                let pair = kept.apply(4 * (N * i + j) + 2 * half, pair);
                (dp[i][j][2 * half], dp[i][j][2 * half + 1]) = (pair[0], pair[1]);
            }
            for element in 0..4 {
                let [_, delta] = if G::KEYS {
                    columns[element % 2]
                } else {
                    rows[i][element / 2]
                };
                dp[i][j][element] -= delta;
            }
        }
    }
}

/// With a softcap c, scores become `tanh(score / c)`, and what [`centre`] has made of dP is
/// multiplied by the derivative. Scores of pairs that the mask hides, if there is one, become -inf.
/// `first` are the positions of the thread's first row and column.
#[inline(always)]
pub(super) fn cap_and_hide<G: Gradients, const M: usize, const N: usize>(
    s: &mut Accumulator<M, N>,
    dp: &mut Accumulator<M, N>,
    softcap_scale: f32,
    mask: Option<&Mask>,
    first: [u32; 2],
) {
    let mut column = 0;
    // Few tiles come here: all columns in turn come to the front, for the size of the code.
    while column < opaque(8 * N as u32) {
        if softcap_scale != 0.0 {
            for i in 0..M {
                for element in 0..4 {
                    let capped = tanh_approx(s[i][0][element] * softcap_scale);
                    s[i][0][element] = capped;
                    dp[i][0][element] *= fma(-capped, capped, 1.0);
                }
            }
        }
        if let Some(mask) = mask {
            let mut front = [[[0.0; 4]; 1]; M];
            for i in 0..M {
                front[i][0] = s[i][0];
            }
            apply_mask(&mut front, mask, first[0], first[1] + column);
            for i in 0..M {
                s[i][0] = front[i][0];
            }
        }
        for i in 0..M {
            rotate(&mut s[i]);
            if G::DS {
                rotate(&mut dp[i]);
            }
        }
        column += 8;
    }
}

/// P and dS, rounded, of scores, -inf where a pair is hidden, and of what [`centre`] and
/// [`cap_and_hide`] have made of dP. `first` are the positions of the thread's first row and column.
///
/// # Safety
/// As there; no other thread calls it for these pairs.
#[inline(always)]
pub(super) unsafe fn differentiate<
    E: Half,
    G: Gradients,
    const M: usize,
    const N: usize,
    const K: usize,
>(
    s: &mut Accumulator<M, N>,
    dp: &mut Accumulator<M, N>,
    moments: Moments,
    (place, first, kept): (Place, [u32; 2], &Kept),
    params: &AttentionGradParams,
) -> (Fragments<M, K>, Fragments<M, K>) {
    let factor = params.fwd.softmax_scale_log2;
    // SAFETY: the caller's promise.
    let rows = unsafe { of_rows::<G, M>(moments) };
    let (mut p, mut ds) = ([[[0; 4]; K]; M], [[[0; 4]; K]; M]);
    for step in 0..K {
        for j in 2 * step..2 * step + 2 {
            // SAFETY: the caller's promise.
            let columns = unsafe { of_columns::<G>(moments, j) };
            for i in 0..M {
                for half in 0..2 {
                    let row = first[0] + (16 * i + 8 * half) as u32;
                    let column = first[1] + 8 * j as u32;
                    let at = if G::KEYS {
                        (column, row)
                    } else {
                        (row, column)
                    };
                    let pair = [s[i][j][2 * half], s[i][j][2 * half + 1]];
                    let (pair, slopes) = if G::KEYS {
                        score::with_slopes::<true>(pair, place, at.0, at.1)
                    } else {
                        score::with_slopes::<false>(pair, place, at.0, at.1)
                    };
                    for column in 0..2 {
                        let [exponent, _] = if G::KEYS {
                            columns[column]
                        } else {
                            rows[i][half]
                        };
                        let p = ex2_approx_ftz(fma(pair[column], factor, exponent));
                        s[i][j][2 * half + column] = p;
                        dp[i][j][2 * half + column] *= p;
                    }
                    if G::DS {
                        let p = [s[i][j][2 * half], s[i][j][2 * half + 1]];
                        let products = [dp[i][j][2 * half], dp[i][j][2 * half + 1]];
                        // SAFETY: one thread has a pair, and each pair is in one tile of one block
                        // of queries.
                        let products = unsafe {
                            if G::KEYS {
                                score::gradients::<true>(products, (p, slopes), place, at)
                            } else {
                                score::gradients::<false>(products, (p, slopes), place, at)
                            }
                        };
                        (dp[i][j][2 * half], dp[i][j][2 * half + 1]) = (products[0], products[1]);
                    }
                    if G::P {
                        let p = [s[i][j][2 * half], s[i][j][2 * half + 1]];
                        let p = kept.apply(4 * (N * i + j) + 2 * half, p);
                        (s[i][j][2 * half], s[i][j][2 * half + 1]) = (p[0], p[1]);
                    }
                }
            }
        }
        for i in 0..M {
            p[i][step] = joined::<E>(&s[i][2 * step], &s[i][2 * step + 1]);
            ds[i][step] = joined::<E>(&dp[i][2 * step], &dp[i][2 * step + 1]);
        }
    }
    (p, ds)
}

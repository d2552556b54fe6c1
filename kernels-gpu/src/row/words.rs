//! Values of four words at most, as vectors.

use super::packed::Raw;
use cuda_std::warp::Words;

/// A value's words.
#[inline(always)]
pub(crate) fn words<S: Words>(value: S) -> Raw {
    let mut raw = [0; 4];
    let mut i = 0;
    value.map_words(|word| {
        raw[i] = word;
        i += 1;
        word
    });
    raw
}

/// A value of these words; what `like` holds does not matter.
#[inline(always)]
pub(crate) fn of_words<S: Words>(raw: Raw, like: S) -> S {
    let mut i = 0;
    like.map_words(|_| {
        let word = raw[i];
        i += 1;
        word
    })
}

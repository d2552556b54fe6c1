//! Values of at most four words as 16-byte vectors.

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

/// The value with these words. `like` only gives the type.
#[inline(always)]
pub(crate) fn of_words<S: Words>(raw: Raw, like: S) -> S {
    let mut i = 0;
    like.map_words(|_| {
        let word = raw[i];
        i += 1;
        word
    })
}

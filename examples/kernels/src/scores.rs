//! Functions of scores and masks that example 09 puts into attention's kernels. Each is compiled once;
//! the host composes the kernels.

use cuda_std::{fragment, math, mem};

/// Closer keys count more: the score plus `weight` for each key that is less far away.
#[fragment]
pub fn relative(score: f32, _batch: u32, _head: u32, query: u32, key: u32, weight: f32) -> f32 {
    score - weight * query.abs_diff(key) as f32
}

/// The derivative of [`relative`].
#[fragment]
pub fn relative_slope(
    _score: f32,
    _batch: u32,
    _head: u32,
    _query: u32,
    _key: u32,
    _weight: f32,
) -> f32 {
    1.0
}

/// A soft cap that differs between heads, of which the first has `cap`.
#[fragment]
pub fn capped(score: f32, _batch: u32, head: u32, _query: u32, _key: u32, cap: f32) -> f32 {
    let cap = cap * (1 + head) as f32;
    cap * math::tanh(score / cap)
}

/// The derivative of [`capped`].
#[fragment]
pub fn capped_slope(score: f32, _batch: u32, head: u32, _query: u32, _key: u32, cap: f32) -> f32 {
    let tanh = math::tanh(score / (cap * (1 + head) as f32));
    1.0 - tanh * tanh
}

/// A soft cap by the hardware's tanh, which has 11 bits; `inverse` is `1 / cap`.
#[fragment]
pub fn soft_cap(
    score: f32,
    _batch: u32,
    _head: u32,
    _query: u32,
    _key: u32,
    cap: f32,
    inverse: f32,
) -> f32 {
    cap * math::approx::tanh_approx(score * inverse)
}

/// A sliding window: a query sees itself and `window - 1` keys before.
#[fragment]
pub fn sliding_window(_batch: u32, _head: u32, query: u32, key: u32, window: u32) -> u32 {
    u32::from(key <= query && query - key < window)
}

/// A query sees the keys of its own document; `documents` are i32, one a position.
#[fragment]
pub fn same_document(_batch: u32, _head: u32, query: u32, key: u32, documents: u64) -> u32 {
    let document = |position: u32| {
        let at = core::ptr::with_exposed_provenance::<u32>(documents as usize);
        // SAFETY: the host passes a tensor with an element for each position.
        let [document] = unsafe { mem::ld_global_nc_u32(at.wrapping_add(position as usize)) };
        document
    };
    u32::from(document(query) == document(key))
}

/// Causal, but for a prefix that all see; `prefixes` are its lengths in i32, one a sequence.
#[fragment]
pub fn prefix(batch: u32, _head: u32, query: u32, key: u32, prefixes: u64) -> u32 {
    let at = core::ptr::with_exposed_provenance::<u32>(prefixes as usize);
    // SAFETY: the host passes a tensor with an element for each sequence.
    let [len] = unsafe { mem::ld_global_nc_u32(at.wrapping_add(batch as usize)) };
    u32::from(key <= query || key < len)
}

/// Positions are pixels of an image of `width` columns: a query sees those at most `radius` rows and
/// columns away.
#[fragment]
pub fn neighbourhood(
    _batch: u32,
    _head: u32,
    query: u32,
    key: u32,
    width: u32,
    radius: u32,
) -> u32 {
    let width = width.max(1); // a division that may fail would be a panic, which no fragment has
    let near = |a: u32, b: u32| a.abs_diff(b) <= radius;
    u32::from(near(query / width, key / width) && near(query % width, key % width))
}

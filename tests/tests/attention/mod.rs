//! `Attention` against its reference: lengths around tile sizes, grouped heads, masks, all options
//! and combinations of them, layouts, sequences of different lengths. Every kernel that can compute
//! a case is run; it must write its outputs and nothing else, be deterministic, and let no masked
//! key or padding affect the result.

mod accuracy;
mod alike;
mod block_masks;
pub(crate) mod blocks;
pub(crate) mod case;
pub(crate) mod check;
mod counters;
pub(crate) mod dropout;
mod e4m3;
mod functions;
mod jumps;
mod merging;
mod not_numbers;
mod packing;
mod page;
mod paged;
mod pool;
mod refused;
pub(crate) mod scores;
mod tables;
mod wide;

use ndarray::{ArrayD, Axis};
use warpsmith::{Attention, DType};
use warpsmith_tests::cases;
use warpsmith_tests::operand::{Operand, View};
use warpsmith_tests::property::{Effort, holds};
use warpsmith_tests::values::Values;

use case::Case;
use check::check;

#[test]
fn attention_matches_its_reference_for_every_shape_mask_type_and_option() {
    holds(
        Effort {
            cases: [24, 300],
            largest: [100, 600],
        },
        case::dense,
        check,
    );
}

#[test]
fn attention_matches_its_reference_for_sequences_of_any_lengths() {
    holds(
        Effort {
            cases: [24, 300],
            largest: [80, 400],
        },
        case::ragged,
        check,
    );
}

/// The warp that finds the sequence of a tile has 32 lanes, each with a share of the sequences;
/// shares of more than 32 sequences are searched step by step.
#[test]
fn a_tile_is_found_among_more_sequences_than_a_warp_looks_at_once() {
    let lengths = |longest: usize| {
        let len = |idx: usize| match idx % 61 {
            60 => 1 + idx % longest,
            _ => 0,
        };
        (0..1100).map(len).collect::<Vec<_>>()
    };
    for (group, head_dim) in [(1, 64), (3, 128)] {
        let case = Case {
            group,
            causal: true,
            packed_q: Some(lengths(23)),
            packed_k: Some(lengths(37)),
            ..Case::plain(DType::Bf16, [0, 0], head_dim)
        };
        for device in warpsmith::testing::devices() {
            check(&case, &device).expect("attention");
        }
    }
}

#[test]
fn attention_matches_its_reference_for_heads_that_share_keys() {
    holds(
        Effort {
            cases: [16, 200],
            largest: [80, 500],
        },
        case::grouped,
        check,
    );
}

#[test]
fn attention_matches_its_reference_on_the_table_of_cases() {
    cases::run(include_str!("../../cases/attention.toml"), check);
}

#[test]
fn a_masked_key_leaks_nothing_whatever_it_holds() {
    for device in warpsmith::testing::devices() {
        let stream = device.stream().expect("a stream");
        let (seqlen, head_dim) = (70, 40);
        let draw = |seed| Values::Uniform.draw(&[1, seqlen, 1, head_dim], seed);
        let (q, k, v) = (draw(1), draw(2), draw(3));
        let run = |k: ArrayD<f64>, v: ArrayD<f64>| {
            let lay_out = |x| Operand::<f32>::lay_out(&device, x, View::Contiguous);
            let (q, k, v) = (lay_out(q.clone()), lay_out(k), lay_out(v));
            let (q, k, v) = (q.expect("q"), k.expect("k"), v.expect("v"));
            let attention = Attention::new(&q.tensor, &k.tensor, &v.tensor);
            let o = attention.causal().run(&stream);
            o.expect("attention").to_ndarray().expect("o")
        };
        let clean = run(k.clone(), v.clone());
        for bad in [f64::NAN, f64::INFINITY, 1e30] {
            let spoil = |x: &ArrayD<f64>| {
                let mut x = x.clone();
                x.index_axis_mut(Axis(1), seqlen - 1).fill(bad);
                x
            };
            let spoiled = run(spoil(&k), spoil(&v));
            // Only the last query sees the last key.
            for query in 0..seqlen - 1 {
                assert_eq!(
                    clean.index_axis(Axis(1), query),
                    spoiled.index_axis(Axis(1), query),
                    "query {query} with {bad} in the last key, on {device}"
                );
            }
        }
    }
}

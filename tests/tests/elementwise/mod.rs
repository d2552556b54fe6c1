//! Elementwise operations against their references, on every device: functions, gradients, casts,
//! copies, chains, permutations.

mod assembled;
mod casts;
mod chains;
mod counters;
mod functions;
mod maps;
mod moves;
mod own_arithmetic;
mod plans;
mod refusals;
mod stores;
mod zeros;

use proptest::prelude::*;
use serde::Deserialize;
use warpsmith::{Arithmetic, BinaryOp, DType, GradOp, UnaryOp};
use warpsmith_tests::operand::View;
use warpsmith_tests::property::extent;
use warpsmith_tests::values::Values;
use warpsmith_tests::{cases, operation};

use functions::{check_binary, check_gradient, check_unary};
use moves::check_moves;

#[derive(Clone, Debug, Deserialize)]
struct Case {
    shape: Vec<usize>,
    /// Extents of the second operand that are replaced by 1; missing entries are not replaced.
    #[serde(default)]
    broadcast: Vec<bool>,
    /// The same of the first operand.
    #[serde(default)]
    broadcast_first: Vec<bool>,
    /// Leading dimensions that each operand lacks.
    #[serde(default)]
    lacks: [usize; 2],
    #[serde(deserialize_with = "operation::dtype")]
    dtype: DType,
    /// Views of both operands and of the result.
    #[serde(default)]
    views: [View; 3],
    #[serde(default)]
    values: Values,
    #[serde(default)]
    scalar: f32,
    #[serde(default)]
    seed: u64,
}

impl Case {
    /// Shapes of the operands, which broadcast to the case's shape, or to one without the dimensions
    /// that neither has.
    fn operand_shapes(&self) -> [Vec<usize>; 2] {
        let shape = |broadcast: &[bool], lacks: usize| {
            let broadcast = broadcast.iter().chain(std::iter::repeat(&false));
            let extents = self.shape.iter().zip(broadcast);
            let extents = extents.map(|(&extent, &is_one)| if is_one { 1 } else { extent });
            extents.skip(lacks).collect()
        };
        [
            shape(&self.broadcast_first, self.lacks[0]),
            shape(&self.broadcast, self.lacks[1]),
        ]
    }
}

fn case(largest: usize) -> impl Strategy<Value = Case> {
    let shape = prop_oneof![
        extent(largest * 8).prop_map(|n| vec![n]),
        (extent(largest), extent(20)).prop_map(|(a, b)| vec![a, b]),
        (extent(9), extent(17), extent(20)).prop_map(|(a, b, c)| vec![a, b, c]),
        prop::collection::vec(0..4_usize, 0..=8),
    ];
    let dtype = prop::sample::select(vec![DType::F32, DType::F16, DType::Bf16]);
    let views = (View::any(), View::any(), View::writable());
    let scalar = prop::sample::select(vec![0.0_f32, -1.5, 3.0, 1e-30]);
    let first = prop_oneof![2 => Just([false; 8]), 1 => any::<[bool; 8]>()];
    let lacks = prop_oneof![2 => Just([0, 0]), 1 => [0..3_usize, 0..3_usize]];
    (
        shape,
        (any::<[bool; 8]>(), first, lacks),
        dtype,
        views,
        Values::any(),
        scalar,
        any::<u32>(),
    )
        .prop_map(
            |(shape, (broadcast, first, lacks), dtype, views, values, scalar, seed)| Case {
                broadcast: broadcast[..shape.len()].to_vec(),
                broadcast_first: first[..shape.len()].to_vec(),
                lacks,
                shape,
                dtype,
                views: [views.0, views.1, views.2],
                values,
                scalar,
                seed: u64::from(seed),
            },
        )
}

#[test]
fn elementwise_matches_its_reference_on_the_table_of_cases() {
    cases::run(
        include_str!("../../cases/elementwise.toml"),
        |case: &Case, device| {
            for op in UnaryOp::all_in(Arithmetic::F32) {
                check_unary(op, case, device)?;
            }
            for op in BinaryOp::all_in(Arithmetic::F32) {
                check_binary(op, case, device)?;
            }
            for op in GradOp::ALL {
                check_gradient(op, case, device)?;
            }
            check_moves(case, device)
        },
    );
}

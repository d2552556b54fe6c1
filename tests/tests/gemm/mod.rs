//! `Gemm` against its reference: shapes around tile sizes, every layout, batches, types, epilogues
//! and special values; exact on small integers; deterministic. Every kernel that can compute a case
//! is run; it must write its output and nothing else.

mod case;
mod check;
mod double;
mod double_memory;
mod inputs;
mod integer;
mod plans;

use warpsmith_tests::cases;
use warpsmith_tests::property::{Effort, holds};

use check::check;

#[test]
fn gemm_matches_its_reference_for_every_shape_layout_type_and_epilogue() {
    holds(
        Effort {
            cases: [80, 1000],
            largest: [140, 400],
        },
        case::products,
        check,
    );
}

#[test]
fn gemm_matches_its_reference_on_the_table_of_cases() {
    cases::run(include_str!("../../cases/gemm.toml"), check);
}

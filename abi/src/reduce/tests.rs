//! Tests of the entries.

extern crate std;

use std::string::ToString;

use super::*;

#[test]
fn entry_names_are_as_documented() {
    let entry = ReduceEntry::of(Family::Lse, DType::Bf16, false);
    assert_eq!(entry.unwrap().to_string(), "reduce_lse_bf16");
    let entry = ReduceEntry::of(Family::Count, DType::Bf16, true);
    assert_eq!(entry.unwrap().to_string(), "reduce_count_b16");
    let entry = ReduceEntry::of(Family::Count, DType::I8, false);
    assert_eq!(entry.unwrap().to_string(), "reduce_count_b8");
    assert_eq!(ReduceEntry::of(Family::Arg, DType::I8, false), None);
    let entry = ReduceEntry::of(Family::Moments, DType::I32, true);
    assert_eq!(entry.unwrap().to_string(), "reduce_moments_wide");
    assert_eq!(ReduceEntry::of(Family::Moments, DType::I32, false), None);
    assert_eq!(ReduceEntry::of(Family::Value, DType::E4m3, false), None);
}

#[test]
fn every_operation_has_an_entry_for_every_dtype_of_reductions() {
    for op in ReduceOp::ALL.into_iter().chain([ReduceOp::Dot]) {
        for dtype in DTYPES {
            let is_there = |wide| ReduceEntry::of(op.family(), dtype, wide).is_some();
            let is_integer = matches!(dtype, DType::I32 | DType::I64);
            let is_real = matches!(op.family(), Family::Lse | Family::Moments);
            assert!(is_there(true), "{op:?} of {dtype}");
            let want = !(is_integer && is_real);
            assert_eq!(is_there(false), want, "{op:?} of {dtype}");
        }
    }
}

#[test]
fn a_sign_does_not_make_a_zero_count() {
    let view = ReduceView::contiguous(1, 8, 1);
    let plan = ReducePlan {
        along: 1,
        across: 1,
        is_across: false,
        rows: ROWS_ANY,
        variant: Variant::General,
        chunks: 1,
        chunk_len: 8,
        width: 1,
        groups: 1,
        parts: 1,
        section: 1,
        blocks: 1,
    };
    let mask = |dtype| ReduceParams::new(ReduceOp::Any, view, &plan, dtype).mask;
    assert_eq!(mask(DType::F32), 0x7fff_ffff);
    assert_eq!(mask(DType::Bf16), 0x7fff);
    assert_eq!(mask(DType::I8), 0xff);
    assert_eq!(mask(DType::F64), u64::MAX >> 1);
    assert_eq!(mask(DType::I32), 0xffff_ffff);
    assert_eq!(mask(DType::I64), u64::MAX);
}

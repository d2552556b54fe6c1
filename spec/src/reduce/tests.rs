//! Tests of names and of the list of entries.

extern crate std;

use std::collections::BTreeSet;
use std::string::{String, ToString};

use super::*;

#[test]
fn entry_names_are_as_documented() {
    let entry = ReduceEntry::of(Family::Lse, DType::Bf16, false);
    assert_eq!(entry.unwrap().to_string(), "reduce_lse_bf16");
    let entry = ReduceEntry::of(Family::Count, DType::Bf16, true);
    assert_eq!(entry.unwrap().to_string(), "reduce_count_b16");
    let entry = ReduceEntry::of(Family::Moments, DType::I32, true);
    assert_eq!(entry.unwrap().to_string(), "reduce_moments_wide");
    assert_eq!(ReduceEntry::of(Family::Moments, DType::I32, false), None);
    assert_eq!(ReduceEntry::of(Family::Value, DType::E4m3, false), None);
}

#[test]
fn every_entry_that_an_operation_asks_for_is_listed_once() {
    let names: std::vec::Vec<String> = ReduceEntry::all().map(|e| e.to_string()).collect();
    let set: BTreeSet<&String> = names.iter().collect();
    assert_eq!(set.len(), names.len());
    for op in ReduceOp::ALL.into_iter().chain([ReduceOp::Dot]) {
        for dtype in DType::ALL {
            for wide in [false, true] {
                if let Some(entry) = ReduceEntry::of(op.family(), dtype, wide) {
                    assert!(set.contains(&entry.to_string()), "{entry}");
                }
            }
        }
    }
}

#[test]
fn a_sign_does_not_make_a_zero_count() {
    let view = ReduceView::contiguous(1, 8, 1);
    let plan = ReducePlan::new(&view, 4);
    let mask = |dtype| ReduceParams::new(ReduceOp::Any, view, &plan, dtype).mask;
    assert_eq!(mask(DType::F32), 0x7fff_ffff);
    assert_eq!(mask(DType::Bf16), 0x7fff);
    assert_eq!(mask(DType::F64), u64::MAX >> 1);
    assert_eq!(mask(DType::I32), 0xffff_ffff);
    assert_eq!(mask(DType::I64), u64::MAX);
}

//! The decode entries, launched as `spec` says, against plain f64 loops: every config, layout and
//! element type, ragged edges, padding that may not be touched, special values, fused epilogues.

mod counters;
mod epilogue;
mod launch;

use half::{bf16, f16};
use launch::{Case, Extras, Value, launch};
use spec::gemm::Transpose;
use spec::gemm::decode::DecodeArch::{Sm80, Sm90};
use warpsmith::testing::devices;
use warpsmith::{Device, DeviceBuffer};

/// What D holds before a launch.
const POISON: f64 = -77.0;

fn upload<T: Value>(device: &Device, values: &[T]) -> DeviceBuffer<T> {
    DeviceBuffer::from_slice(device, values).expect("the device has memory")
}

/// A small integer of a place: products and their sums are exact.
fn integer(seed: u32, [i, row, column]: [u32; 3]) -> f64 {
    let mixed = (row.wrapping_mul(0x9e37_79b9) ^ column.wrapping_mul(0x85eb_ca6b))
        .wrapping_add(i.wrapping_mul(0xc2b2_ae35) ^ seed)
        .wrapping_mul(0x27d4_eb2f);
    f64::from((mixed >> 13) % 5) - 2.0
}

/// Runs a case on integers and compares all of D's memory.
fn check<In: Value, Out: Value>(device: &Device, case: &Case) -> Vec<Out> {
    let a_value = |place| integer(1, place);
    let b_value = |place| integer(2, place);
    let got = run::<In, Out>(device, case, a_value, b_value);
    let ldd = case.params().ldd as usize;
    for (offset, &got) in got.iter().enumerate() {
        let (row, column) = (offset / ldd, offset % ldd);
        let (i, row) = (row as u32 / case.m, row as u32 % case.m);
        let want = if column < case.n as usize {
            (0..case.k)
                .map(|p| a_value([i, row, p]) * b_value([i, p, column as u32]))
                .sum()
        } else {
            POISON
        };
        assert_eq!(
            got,
            Out::new(want),
            "{case:?}: batch {i}, row {row}, column {column}"
        );
    }
    got
}

fn run<In: Value, Out: Value>(
    device: &Device,
    case: &Case,
    a: impl Fn([u32; 3]) -> f64,
    b: impl Fn([u32; 3]) -> f64,
) -> Vec<Out> {
    let (a, b) = (
        upload(device, &case.a::<In>(a)),
        upload(device, &case.b::<In>(b)),
    );
    let mut d = upload(device, &vec![Out::new(POISON); case.len_d()]);
    launch(
        device,
        case,
        case.params(),
        (&a, &b),
        &mut d,
        &Extras::default(),
    )
    .unwrap_or_else(|error| panic!("{case:?} on {}: {error:?}", device.name()));
    d.to_vec().expect("the result can be read")
}

#[test]
fn every_entry_multiplies_ragged_shapes_exactly() {
    for device in devices() {
        for arch in [Sm80, Sm90] {
            for trans_b in Transpose::ALL {
                for (m, splits) in [(3, 2), (16, 1), (25, 3), (64, 2)] {
                    let (n, k) = if arch == Sm80 {
                        (301, 331)
                    } else {
                        (296, 328) // bulk copies move multiples of 8
                    };
                    let case = Case {
                        padding: [8, 16, 3],
                        ..Case::new(arch, [m, n, k], trans_b, splits)
                    };
                    check::<bf16, bf16>(&device, &case);
                    check::<bf16, f32>(&device, &case);
                    if std::env::var("WS_PTX").is_err() {
                        check::<f16, f16>(&device, &case);
                        check::<f16, f32>(&device, &case);
                    }
                }
            }
        }
    }
}

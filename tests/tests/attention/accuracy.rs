//! FlashAttention's own accuracy rule, on its own shapes. Against f64, a kernel may have twice the
//! error of the same computation as a chain of operations in the same precision (three times with
//! softcap). The rounding of the result is added.

use half::{bf16, f16};
use warpsmith::reference::attention::{packed, unfused};
use warpsmith::reference::precision::round_to;
use warpsmith::{DType, Device, Float};
use warpsmith_tests::element::TestElement;
use warpsmith_tests::values::Values;
use warpsmith_tests::{Checked, say};

use super::case::Case;
use super::check::{Inputs, describe, options};

/// Query and key lengths for every device.
const SHAPES: [[usize; 2]; 6] = [
    [1, 1],
    [64, 128],
    [113, 203],
    [128, 217],
    [239, 1],
    [799, 3],
];

/// Larger lengths, for GPUs.
const LARGE_SHAPES: [[usize; 2]; 15] = [
    [64, 128],
    [128, 217],
    [239, 1],
    [113, 128],
    [113, 211],
    [108, 256],
    [128, 192],
    [256, 256],
    [256, 512],
    [384, 256],
    [640, 128],
    [512, 256],
    [1024, 1024],
    [1023, 1024],
    [1024, 1023],
];

/// The largest lengths, for one head.
const LARGEST_SHAPES: [[usize; 2]; 2] = [[4096, 4096], [4224, 4224]];

/// Scores are about as large as the cap.
const SOFTCAP: f32 = 2.0;

/// Checks every kernel of the case against the rule.
fn keeps_the_rule<T: Float + TestElement>(case: &Case, device: &Device) -> Checked {
    let stream = device.stream().map_err(say)?;
    let inputs = Inputs::<T>::draw(case, device)?;
    let attention = describe::<T, T>(case, &inputs);
    let options = options(case, &inputs, &attention, &stream)?;
    let (sequences, [q, k, v]) = (case.sequences(), inputs.by_position()?);
    let [q, k, v] = [q.view(), k.view(), v.view()];
    let exact = packed(&q, &k, &v, &sequences, &options).map_err(say)?;
    let exact = exact.o.values;
    let chain = unfused(&q, &k, &v, &sequences, &options, T::DTYPE).map_err(say)?;
    let largest = |errors: &mut dyn Iterator<Item = f64>| {
        // Counts a NaN as the largest error.
        errors.fold(
            0.0,
            |most: f64, error| {
                if error <= most { most } else { error }
            },
        )
    };
    let of_chain = largest(&mut chain.iter().zip(&exact).map(|(x, y)| (x - y).abs()));
    let of_rounding = largest(&mut exact.iter().map(|&x| (round_to(T::DTYPE, x) - x).abs()));
    let factor = if case.softcap.is_some() { 3.0 } else { 2.0 };
    let allowed = factor * of_chain + 2.0 * of_rounding;
    let plan = attention.plan(&stream).map_err(say)?;
    for candidate in plan.candidates() {
        let attention = attention.clone().with_kernel(&candidate.name);
        let o = attention.run(&stream).and_then(|o| o.to_vec());
        let o = o.map_err(say)?;
        let error = largest(&mut o.iter().zip(&exact).map(|(x, y)| (x.wide() - y).abs()));
        if error.is_nan() || error > allowed {
            return Err(format!(
                "{} errs by {error:.3e}, allowed are {allowed:.3e}: the chain of operations errs by \
                 {of_chain:.3e}, the rounding of o by {of_rounding:.3e}; {case:?}",
                candidate.name
            ));
        }
    }
    Ok(())
}

/// Head dimensions and types; the emulator gets the first two.
const KINDS: [(usize, DType); 5] = [
    (64, DType::Bf16),
    (128, DType::F16),
    (64, DType::F16),
    (128, DType::Bf16),
    (256, DType::Bf16),
];

/// Every mask for one shape.
fn of_shape(shape: [usize; 2], seed: u64, device: &Device) {
    let [seqlen_q, seqlen_k] = shape;
    let kinds = if device.is_emulator() {
        &KINDS[..2]
    } else {
        &KINDS
    };
    let keeps = |case: &Case| on(device, case);
    for &(head_dim, dtype) in kinds {
        let plain = Case {
            group: 2,
            values: Values::Normal,
            values_v: Values::Normal,
            seed,
            ..Case::plain(dtype, shape, head_dim)
        };
        keeps(&plain);
        keeps(&Case {
            causal: true,
            ..plain.clone()
        });
        keeps(&Case {
            left: Some(seqlen_k as u32 / 3),
            right: Some(seqlen_q as u32 / 5),
            ..plain.clone()
        });
        keeps(&Case {
            causal: true,
            softcap: Some(SOFTCAP),
            ..plain
        });
    }
}

fn on(device: &Device, case: &Case) {
    let kept = match case.dtype {
        DType::F16 => keeps_the_rule::<f16>(case, device),
        _ => keeps_the_rule::<bf16>(case, device),
    };
    if let Err(error) = kept {
        panic!("on {device}: {error}");
    }
}

#[test]
fn kernels_err_at_most_twice_as_much_as_a_chain_of_operations() {
    for device in warpsmith::testing::devices() {
        for (seed, shape) in (0..).zip(SHAPES) {
            of_shape(shape, seed, &device);
        }
        if device.is_emulator() {
            continue;
        }
        for (seed, shape) in (100..).zip(LARGE_SHAPES) {
            of_shape(shape, seed, &device);
        }
        for (seed, shape) in (200..).zip(LARGEST_SHAPES) {
            let plain = Case {
                values: Values::Normal,
                values_v: Values::Normal,
                seed,
                ..Case::plain(DType::Bf16, shape, 128)
            };
            on(&device, &plain);
            on(
                &device,
                &Case {
                    causal: true,
                    ..plain
                },
            );
        }
    }
}

#[test]
fn the_rule_finds_a_probability_too_coarse() {
    // Shows what the rule detects: 8 mantissa bits pass, 5 do not.
    let device = Device::emulator().expect("an emulator");
    let stream = device.stream().expect("a stream");
    let case = Case {
        values: Values::Normal,
        values_v: Values::Normal,
        ..Case::plain(DType::Bf16, [64, 128], 64)
    };
    let inputs = Inputs::<bf16>::draw(&case, &device).expect("inputs");
    let attention = describe::<bf16, bf16>(&case, &inputs);
    let options = options(&case, &inputs, &attention, &stream).expect("options");
    let [q, k, v] = inputs.by_position().expect("inputs");
    let [q, k, v] = [q.view(), k.view(), v.view()];
    let sequences = case.sequences();
    let exact = packed(&q, &k, &v, &sequences, &options).expect("a reference");
    let error = |dtype| {
        let chain = unfused(&q, &k, &v, &sequences, &options, dtype).expect("a chain");
        let apart = chain
            .iter()
            .zip(&exact.o.values)
            .map(|(x, y)| (x - y).abs());
        apart.fold(0.0, f64::max)
    };
    let rounding = exact
        .o
        .values
        .iter()
        .map(|&x| (round_to(DType::Bf16, x) - x).abs());
    let allowed = 2.0 * error(DType::Bf16) + 2.0 * rounding.fold(0.0, f64::max);
    assert!(error(DType::F32) <= allowed && error(DType::E4m3) > allowed);
}

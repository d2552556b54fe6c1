//! Plans: what they show, what they refuse, and that a requested kernel is the one that runs.

use half::bf16;
use warpsmith::emulator::EmulatorConfig;
use warpsmith::testing::devices;
use warpsmith::{
    Activation, Device, E4m3, E5m2, Float, Gemm, GemmInput, PlanSource, Precision, Tensor,
};
use warpsmith_tests::emulator;

use super::check::refusal;

#[test]
fn a_plan_names_its_kernel_and_the_others() {
    for device in devices() {
        let stream = device.stream().expect("a stream");
        let a = Tensor::<f32>::zeros(&stream, &[300, 2048]).expect("memory");
        let b = Tensor::<f32>::zeros(&stream, &[2048, 200]).expect("memory");
        let gemm = Gemm::new(&a, &b);
        let plan = gemm.plan(&stream).expect("a plan");
        let chosen = plan.chosen().expect("there is something to compute");
        assert_eq!(plan.source(), Some(PlanSource::Model));
        assert!(plan.candidates().contains(chosen));
        let least = plan.candidates().iter().map(|other| other.estimated).min();
        assert_eq!(least, Some(chosen.estimated));
        let mut names: Vec<_> = plan.candidates().iter().map(|other| &other.name).collect();
        let text = plan.to_string();
        assert!(
            names.iter().all(|name| text.contains(name.as_str())),
            "{text}"
        );
        names.sort();
        names.dedup();
        assert_eq!(names.len(), plan.candidates().len(), "names are unique");
        for other in plan.candidates() {
            let forced = gemm.with_kernel(&other.name).plan(&stream).expect("a plan");
            assert_eq!(forced.chosen(), Some(other));
            assert_eq!(forced.source(), Some(PlanSource::Forced));
        }
    }
}

#[test]
fn nothing_to_compute_has_an_empty_plan() {
    for device in devices() {
        let stream = device.stream().expect("a stream");
        let a = Tensor::<f32>::zeros(&stream, &[0, 7]).expect("memory");
        let b = Tensor::<f32>::zeros(&stream, &[7, 5]).expect("memory");
        let plan = Gemm::new(&a, &b).plan(&stream).expect("a plan");
        assert_eq!((plan.chosen(), plan.candidates().len()), (None, 0));
    }
}

#[test]
fn options_that_cannot_be_are_refused_with_what_could() {
    for device in devices() {
        // Tests share an emulator; on a separate one, the last launch is this test's.
        let device = match device.is_emulator() {
            true => Device::emulator_with(EmulatorConfig::default()).expect("an emulator"),
            false => device,
        };
        let stream = device.stream().expect("a stream");
        let zeros = |shape: &[usize]| Tensor::<f32>::zeros(&stream, shape).expect("memory");
        let (a, b) = (zeros(&[4, 6]), zeros(&[6, 5]));
        let (one, rows, columns) = (zeros(&[1]), zeros(&[4]), zeros(&[5]));
        let gemm = Gemm::new(&a, &b);
        let before = device.lane_instructions();
        for (refused, want) in [
            (gemm.split_k(0), "split_k is 0, want 1 to 6"),
            (gemm.split_k(7), "split_k is 7, want 1 to 6"),
            (gemm.with_kernel("gemm_wrong"), "kernel `gemm_wrong`"),
            (
                gemm.row_bias(&columns),
                "shape of `bias` is [5], want [4] or [1, 4]",
            ),
            (
                gemm.column_bias(&rows),
                "shape of `bias` is [4], want [5] or [1, 5]",
            ),
            (
                gemm.row_scales(&columns),
                "shape of `row_scales` is [5], want [4]",
            ),
            (
                gemm.column_scales(&rows),
                "shape of `column_scales` is [4], want [5]",
            ),
            (
                gemm.alpha_from(&rows),
                "shape of `alpha` is [4], want one element",
            ),
            (gemm.beta_from(&rows, &a), "shape of `c` is [4, 6]"),
            (
                gemm.scale_a_from(&rows),
                "shape of `scale_a` is [4], want one element",
            ),
            (gemm.residual(&a), "shape of `residual` is [4, 6]"),
            (
                gemm.scale_a_from(&one).row_scales(&rows),
                "scale_a_from beside row_scales is two factors",
            ),
            (
                gemm.scale_b_from(&one).column_scales(&columns),
                "scale_b_from beside column_scales is two factors",
            ),
            (
                gemm.scale_a(2.0)
                    .alpha_from(&one)
                    .row_scales(&rows)
                    .column_scales(&columns),
                "want 1, with the factor in one of those",
            ),
        ] {
            let message = refusal(refused.run(&stream));
            assert!(message.contains(want), "`{message}` does not say `{want}`");
        }
        let d = zeros(&[4, 5]);
        for (refused, want) in [
            (
                gemm.row_bias(
                    &d.slice(1, 0..1)
                        .expect("a view")
                        .reshape(&[4])
                        .expect("a view"),
                ),
                "`bias`",
            ),
            (
                gemm.residual(&d.slice(0, 0..1).expect("a view")),
                "`residual`",
            ),
        ] {
            let message = refusal(refused.run_into(&d, &stream));
            assert!(message.contains(want), "`{message}` does not say `{want}`");
        }
        assert_eq!(device.lane_instructions(), before, "something was launched");
    }
}

#[test]
fn eight_bit_operands_are_written_in_bf16_unless_said_otherwise() {
    for device in devices() {
        let stream = device.stream().expect("a stream");
        let a: Vec<E4m3> = [1.0, 2.0, -3.0, 448.0].map(E4m3::from_f32).into();
        let b: Vec<E5m2> = [0.5, 1.0, 2.0, -1.0].map(E5m2::from_f32).into();
        let a = Tensor::from_slice(&device, &[2, 2], &a).expect("memory");
        let b = Tensor::from_slice(&device, &[2, 2], &b).expect("memory");
        let d = Gemm::new(&a, &b)
            .scale_a(2.0)
            .run(&stream)
            .expect("a product");
        let got: Vec<f32> = d
            .to_vec()
            .expect("values")
            .iter()
            .map(|x| x.to_f32())
            .collect();
        assert_eq!(got, [9.0, -2.0, 1792.0, -904.0]);
        let relu = Gemm::new(&a, &b)
            .output::<f32>()
            .activation(Activation::Relu);
        let got = relu
            .run(&stream)
            .expect("a product")
            .to_vec()
            .expect("values");
        assert_eq!(got, [4.5, 0.0, 894.5, 0.0]);
    }
}

/// The names of the plan's candidates for `[m, k] @ [k, n]` of these views of storage, its choice
/// first.
fn names<T: GemmInput<T>, Out: Float>(
    device: &Device,
    [m, n, k]: [usize; 3],
    [trans_a, trans_b]: [bool; 2],
) -> Vec<String> {
    let stream = device.stream().expect("a stream");
    let zeros = |[rows, columns]: [usize; 2], transposed: bool| match transposed {
        false => Tensor::<T>::zeros(&stream, &[rows, columns]).expect("memory"),
        true => Tensor::<T>::zeros(&stream, &[columns, rows])
            .expect("memory")
            .t(),
    };
    let (a, b) = (zeros([m, k], trans_a), zeros([k, n], trans_b));
    let gemm = Gemm::new(&a, &b).output::<Out>().precision(Precision::Tf32);
    let plan = gemm.plan(&stream).expect("a plan");
    let chosen = plan.chosen().into_iter();
    let all = chosen.chain(plan.candidates());
    all.map(|candidate| candidate.name.clone()).collect()
}

#[test]
fn operands_that_wgmma_or_tensor_copies_do_not_read_are_copied_by_candidates_that_say_so() {
    for device in devices()
        .into_iter()
        .filter(|device| device.arch() == (9, 0))
    {
        let copies = |names: Vec<String>| names.iter().any(|name| name.ends_with("+kmajor"));
        for layout in [[false, false], [true, false], [true, true]] {
            assert!(copies(names::<f32, f32>(&device, [71, 132, 75], layout)));
            assert!(copies(names::<E4m3, bf16>(&device, [71, 132, 75], layout)));
            assert!(copies(names::<bf16, bf16>(&device, [70, 133, 75], layout)));
        }
        let k_major = [false, true];
        assert!(!copies(names::<f32, f32>(&device, [71, 132, 72], k_major)));
        assert!(!copies(names::<E4m3, bf16>(
            &device,
            [70, 133, 80],
            k_major
        )));
        assert!(!copies(names::<bf16, bf16>(
            &device,
            [72, 136, 72],
            [true, false]
        )));
        assert!(!copies(names::<E5m2, bf16>(
            &device,
            [70, 133, 75],
            [false; 2]
        )));
    }
}

/// An emulator with as many multiprocessors as an H200: the choice depends on them.
#[test]
fn a_single_column_goes_to_the_kernels_for_few_rows() {
    let emulator = emulator((9, 0), 132, EmulatorConfig::default());
    let gpus = devices().into_iter().filter(|device| {
        let is_gpu = !device.is_emulator();
        is_gpu && device.arch() >= (8, 0)
    });
    for device in gpus.chain([emulator]) {
        for transposed in [false, true] {
            let names = names::<bf16, bf16>(&device, [512, 1, 1024], [transposed, false]);
            assert!(names[0].starts_with("gemm_decode"), "{names:?}");
        }
    }
}

//! Products in f64 against their reference. Every kernel that the device runs is run, and all give
//! the same bits: on tensor cores as by multiply-adds, whatever the layout.

use ndarray::{ArrayD, Axis as Dim};
use proptest::prelude::*;
use warpsmith::reference::Expected;
use warpsmith::reference::gemm::{DoubleOptions, double};
use warpsmith::testing::devices;
use warpsmith::{Activation, Device, Gemm, Tensor};
use warpsmith_tests::operand::{Operand, View};
use warpsmith_tests::operation::{agrees, agrees_exactly, run_twice};
use warpsmith_tests::output::Output;
use warpsmith_tests::property::{Effort, extent, holds};
use warpsmith_tests::values::Values;
use warpsmith_tests::{Checked, say};

use crate::case::{Axis, Scale};

/// One product. Alpha, beta and scales are no f32.
#[derive(Clone, Debug)]
struct Case {
    extents: [usize; 3],
    /// Batch sizes of `a` and of `b`.
    batch: [Option<usize>; 2],
    alpha: f64,
    beta: f64,
    device_scalars: bool,
    scales: [Scale; 2],
    bias: Option<Axis>,
    bias_batched: bool,
    has_relu: bool,
    has_residual: bool,
    in_place: bool,
    /// Views of a, b, c and d.
    views: [View; 4],
    values: Values,
    /// Operands are multiplied by two to this, so that products are subnormal in some cases.
    exponent: i32,
    seed: u64,
}

fn cases(largest: usize) -> impl Strategy<Value = Case> {
    let batch = || prop_oneof![3 => Just(None), 1 => Just(Some(1)), 1 => Just(Some(3))];
    let scalar = || prop::sample::select(vec![0.0, 1.0, -0.1, 1.0 / 3.0, 1e-200]);
    let scale = || {
        prop_oneof![
            3 => Just(Scale::None),
            1 => Just(Scale::Host),
            1 => Just(Scale::Device),
            1 => Just(Scale::Each),
        ]
    };
    let bias = prop_oneof![
        2 => Just(None),
        1 => Just(Some(Axis::Row)),
        1 => Just(Some(Axis::Column)),
    ];
    let exponent = prop_oneof![4 => Just(0), 1 => Just(-530), 1 => Just(300)];
    (
        (extent(largest), extent(largest), extent(largest)),
        (batch(), batch(), scalar(), scalar(), any::<bool>()),
        (scale(), scale(), bias, any::<[bool; 4]>()),
        (View::any(), View::any(), View::any(), View::writable()),
        (Values::any(), exponent, any::<u32>()),
    )
        .prop_map(
            |(
                (m, n, k),
                (batch_a, batch_b, alpha, beta, device_scalars),
                (row, column, bias, [bias_batched, has_relu, has_residual, in_place]),
                (a, b, c, d),
                (values, exponent, seed),
            )| Case {
                extents: [m, n, k],
                batch: [batch_a, batch_b],
                alpha,
                beta,
                device_scalars,
                scales: [row, column],
                bias,
                bias_batched,
                has_relu,
                has_residual,
                in_place,
                views: [a, b, c, d],
                values,
                exponent,
                seed: seed.into(),
            },
        )
}

impl Case {
    fn batch(&self) -> Option<usize> {
        let [a, b] = self.batch;
        a.max(b)
    }

    fn options<'a>(&self, inputs: &'a Inputs) -> DoubleOptions<'a> {
        let scale = |idx: usize| match self.scales[idx] {
            Scale::None => None,
            Scale::Host => Some(inputs.host_scale.view()),
            Scale::Device => Some(inputs.scale[idx].values.view()),
            Scale::Each if idx == 0 => Some(inputs.scales[0].values.view().insert_axis(Dim(1))),
            Scale::Each => Some(inputs.scales[1].values.view()),
        };
        let bias = self.bias.map(|axis| {
            let bias = inputs.bias.values.view();
            let last = bias.ndim();
            bias.insert_axis(Dim(match axis {
                Axis::Row => last,
                Axis::Column => last - 1,
            }))
        });
        DoubleOptions {
            alpha: self.alpha,
            scales: [scale(0), scale(1)],
            beta: self.beta,
            c: Some(inputs.c.values.view()),
            bias,
            has_relu: self.has_relu,
            residual: self.has_residual.then(|| inputs.residual.values.view()),
        }
    }
}

struct Inputs {
    a: Operand<f64>,
    b: Operand<f64>,
    c: Operand<f64>,
    residual: Operand<f64>,
    bias: Operand<f64>,
    scales: [Operand<f64>; 2],
    scale: [Operand<f64>; 2],
    alpha: Operand<f64>,
    beta: Operand<f64>,
    host_scale: ArrayD<f64>,
}

/// A scale that is known on the host.
const HOST_SCALE: f64 = 0.7;

impl Inputs {
    fn draw(case: &Case, device: &Device) -> Result<Self, String> {
        let [m, n, k] = case.extents;
        let shape = |batch: Option<usize>, rows, columns| -> Vec<usize> {
            batch.into_iter().chain([rows, columns]).collect()
        };
        let shape_d = shape(case.batch(), m, n);
        let operand = |shape: &[usize], view: View, idx: u64| {
            let unit = 2f64.powi(case.exponent);
            let drawn = case.values.draw(shape, case.seed + 1000 * idx);
            let mut drawn = drawn.mapv(|x| x * unit);
            if view == View::Repeated && shape[0] > 0 {
                let first = drawn.index_axis(Dim(0), 0).to_owned();
                drawn
                    .outer_iter_mut()
                    .for_each(|mut row| row.assign(&first));
            }
            Operand::lay_out(device, drawn, view)
        };
        let c = match case.beta {
            // Reading it would show in the result.
            0.0 => Operand::lay_out(
                device,
                ArrayD::from_elem(&*shape_d, f64::NAN),
                case.views[2],
            ),
            _ => operand(&shape_d, case.views[2], 3),
        };
        let len = match case.bias {
            Some(Axis::Row) => m,
            _ => n,
        };
        let bias_shape = match case.batch().filter(|_| case.bias_batched) {
            Some(batch) => vec![batch, len],
            None => vec![len],
        };
        let factors = |len: usize, idx: u64| {
            let drawn = Values::Uniform.draw(&[len], case.seed + 1000 * idx);
            Operand::lay_out(device, drawn, View::Sliced)
        };
        let one = |value: f64| {
            let value = ArrayD::from_elem(vec![1], value);
            Operand::lay_out(device, value, View::Contiguous)
        };
        Ok(Self {
            a: operand(&shape(case.batch[0], m, k), case.views[0], 1)?,
            b: operand(&shape(case.batch[1], k, n), case.views[1], 2)?,
            c: c?,
            residual: operand(&shape_d, case.views[2], 4)?,
            bias: operand(&bias_shape, View::Sliced, 5)?,
            scales: [factors(m, 6)?, factors(n, 7)?],
            scale: [factors(1, 8)?, factors(1, 9)?],
            alpha: one(case.alpha)?,
            beta: one(case.beta)?,
            host_scale: ArrayD::from_elem(vec![1], HOST_SCALE),
        })
    }

    fn expect_unchanged(&self) -> Checked {
        let whole = [&self.a, &self.b, &self.c, &self.residual, &self.bias];
        let factors = self.scales.iter().chain(&self.scale);
        let all = whole.into_iter().chain(factors);
        for operand in all.chain([&self.alpha, &self.beta]) {
            operand.expect_unchanged()?;
        }
        Ok(())
    }

    /// The product of a case; `over` is both read and written.
    fn product<'a>(
        &'a self,
        case: &Case,
        over: Option<&'a Tensor<f64>>,
    ) -> Gemm<'a, f64, f64, f64> {
        let mut gemm = Gemm::new(&self.a.tensor, &self.b.tensor);
        let c = over.filter(|_| !case.has_residual);
        let c = c.unwrap_or(&self.c.tensor);
        gemm = match case.device_scalars {
            true => gemm
                .alpha_from(&self.alpha.tensor)
                .beta_from(&self.beta.tensor, c),
            false => gemm.alpha(case.alpha).beta(case.beta, c),
        };
        gemm = match case.scales[0] {
            Scale::None => gemm,
            Scale::Host => gemm.scale_a(HOST_SCALE),
            Scale::Device => gemm.scale_a_from(&self.scale[0].tensor),
            Scale::Each => gemm.row_scales(&self.scales[0].tensor),
        };
        gemm = match case.scales[1] {
            Scale::None => gemm,
            Scale::Host => gemm.scale_b(HOST_SCALE),
            Scale::Device => gemm.scale_b_from(&self.scale[1].tensor),
            Scale::Each => gemm.column_scales(&self.scales[1].tensor),
        };
        gemm = match case.bias {
            None => gemm,
            Some(Axis::Row) => gemm.row_bias(&self.bias.tensor),
            Some(Axis::Column) => gemm.column_bias(&self.bias.tensor),
        };
        if case.has_relu {
            gemm = gemm.activation(Activation::Relu);
        }
        match case.has_residual {
            true => gemm.residual(over.unwrap_or(&self.residual.tensor)),
            false => gemm,
        }
    }
}

/// The bits, but for those of NaN: which of two NaN an operation passes on is up to ptxas.
fn bits(got: &ArrayD<f64>) -> ArrayD<u64> {
    got.mapv(|x| if x.is_nan() { f64::NAN } else { x }.to_bits())
}

fn check(case: &Case, device: &Device) -> Checked {
    let inputs = Inputs::draw(case, device)?;
    let stream = device.stream().map_err(say)?;
    let in_place = case.in_place && (case.has_residual || case.beta != 0.0);
    let shape = inputs.c.values.shape().to_vec();
    let output = || {
        let start = match (in_place, case.has_residual) {
            (false, _) => return Output::new(device, &shape, case.views[3]),
            (true, true) => &inputs.residual.values,
            (true, false) => &inputs.c.values,
        };
        Output::with(device, start, case.views[3])
    };
    let names: Vec<String> = {
        let d = output()?;
        let gemm = inputs.product(case, in_place.then_some(&d.tensor));
        let plan = gemm.plan_into(&d.tensor, &stream).map_err(say)?;
        let candidates = plan.candidates().iter();
        candidates.map(|candidate| candidate.name.clone()).collect()
    };
    let options = case.options(&inputs);
    let want = double(&inputs.a.values.view(), &inputs.b.values.view(), &options).map_err(say)?;
    let mut first: Option<ArrayD<u64>> = None;
    for name in &names {
        let got = run_twice(output, |d| {
            let gemm = inputs.product(case, in_place.then_some(&d.tensor));
            gemm.with_kernel(name).run_into(&d.tensor, &stream)
        });
        let judged = got.and_then(|got| {
            agrees(&got, &want)?;
            let got = bits(&got);
            match first.get_or_insert_with(|| got.clone()) {
                first if *first == got => Ok(()),
                _ => Err(format!("its bits are not those of {}", names[0])),
            }
        });
        judged.map_err(|error| format!("{name}: {error}"))?;
    }
    inputs.expect_unchanged()
}

#[test]
fn products_in_f64_match_their_reference_and_all_kernels_give_the_same_bits() {
    holds(
        Effort {
            cases: 100,
            largest: [140, 400],
        },
        cases,
        check,
    );
}

/// A case without options.
fn plain(extents: [usize; 3]) -> Case {
    Case {
        extents,
        batch: [None; 2],
        alpha: 1.0,
        beta: 0.0,
        device_scalars: false,
        scales: [Scale::None; 2],
        bias: None,
        bias_batched: false,
        has_relu: false,
        has_residual: false,
        in_place: false,
        views: [View::Contiguous; 4],
        values: Values::Uniform,
        exponent: 0,
        seed: 7,
    }
}

#[test]
fn extents_around_tiles_and_none_at_all() {
    for device in devices() {
        for extents in [
            [1, 1, 1],
            [64, 64, 8],
            [65, 63, 9],
            [129, 66, 31],
            [127, 130, 33],
            [5, 7, 0],
            [0, 7, 5],
            [5, 0, 7],
        ] {
            let case = plain(extents);
            let with_c = Case {
                beta: 0.1,
                ..case.clone()
            };
            for case in [case, with_c] {
                check(&case, &device).unwrap_or_else(|error| panic!("{case:?}: {error}"));
            }
        }
    }
}

#[test]
fn every_layout_and_alignment_gives_the_same_bits() {
    use View::{Aligned, AlignedColumns, Padded, PaddedColumns, Reversed, Sliced};
    for device in devices() {
        for a in [Aligned, AlignedColumns, Padded, PaddedColumns] {
            for b in [Aligned, AlignedColumns, Padded, Sliced, Reversed] {
                let case = Case {
                    views: [a, b, Padded, PaddedColumns],
                    ..plain([70, 67, 29])
                };
                check(&case, &device).unwrap_or_else(|error| panic!("{case:?}: {error}"));
            }
        }
    }
}

#[test]
fn rows_backwards_are_read_in_place() {
    for device in devices() {
        let stream = device.stream().expect("a stream");
        let drawn = [1, 2].map(|seed| Values::Uniform.draw(&[70, 70], seed));
        let [a, b] = [&drawn[0], &drawn[1]].map(|array| {
            let tensor = Tensor::from_ndarray(&device, array).expect("memory");
            tensor.slice_step(0, .., -1).expect("a view")
        });
        let [x, y] = [&a, &b].map(|view| view.contiguous(&stream).expect("a copy"));
        let product = |a: &Tensor<f64>, b: &Tensor<f64>| {
            let gemm = Gemm::new(a, b);
            let plan = gemm.plan(&stream).expect("a plan");
            let run = |name: &str| {
                let d = gemm.with_kernel(name).run(&stream).expect("a product");
                d.to_vec().expect("values")
            };
            let names = plan.candidates().iter();
            names.map(|other| run(&other.name)).collect::<Vec<_>>()
        };
        assert_eq!(product(&a, &b), product(&x, &y));
        assert_eq!(product(&a, &b.t()), product(&x, &y.t()));
        assert_eq!(product(&a.t(), &b), product(&x.t(), &y));
    }
}

#[test]
fn integers_that_f32_does_not_hold_are_exact() {
    for device in devices() {
        let stream = device.stream().expect("a stream");
        let (m, n, k) = (66, 65, 40);
        let entry = |i: usize| (1u64 << 24) as f64 + (i % 7) as f64;
        let a = ArrayD::from_shape_fn(vec![m, k], |at| entry(at[0] + 3 * at[1]));
        let b = ArrayD::from_shape_fn(vec![k, n], |at| (at[0] as f64) - (at[1] % 5) as f64);
        let [x, y] = [&a, &b].map(|array| Tensor::from_ndarray(&device, array).expect("memory"));
        let d = Gemm::new(&x, &y).run(&stream).expect("a product");
        let got = d.to_ndarray().expect("values");
        let want = ArrayD::from_shape_fn(vec![m, n], |at| {
            (0..k).map(|l| a[[at[0], l]] * b[[l, at[1]]]).sum()
        });
        agrees_exactly(&got, &want).expect("exact");
        let halves = Gemm::new(&x, &y).alpha(1.0 + f64::EPSILON);
        let got = halves
            .run(&stream)
            .expect("a product")
            .to_ndarray()
            .expect("values");
        let want = want.mapv(|x: f64| x * (1.0 + f64::EPSILON));
        let want = Expected::exact(want, warpsmith::DType::F64);
        agrees(&got, &want).expect("alpha is in f64");
    }
}

#[test]
fn tensor_cores_are_planned_where_they_are() {
    for device in devices() {
        let stream = device.stream().expect("a stream");
        let a = Tensor::<f64>::zeros(&stream, &[512, 512]).expect("memory");
        let plan = Gemm::new(&a, &a).plan(&stream).expect("a plan");
        let chosen = plan.chosen().expect("something to compute");
        let has_16_rows = chosen.name.ends_with("_m16");
        assert_eq!(has_16_rows, device.arch() == (9, 0), "{plan}");
        if matches!(device.arch(), (8, 0) | (9, 0) | (10, _)) {
            assert!(chosen.name.starts_with("gemm_mma_f64_"), "{plan}");
        }
        let names = plan.candidates().iter().map(|other| other.name.as_str());
        assert!(
            names
                .into_iter()
                .any(|name| name == "gemm_simt_f64_64x64x8")
        );
    }
}

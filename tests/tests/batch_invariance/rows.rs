//! Norms and cross-entropy: every candidate for every number of rows.

use half::{bf16, f16};
use ndarray::{Array2, ArrayD};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use warpsmith::{
    CrossEntropy, Device, Float, LayerNorm, Plan, Reduction, Result, RmsNorm, Stream, Tensor,
};
use warpsmith_tests::element::TestElement;
use warpsmith_tests::operand::{Operand, View};
use warpsmith_tests::values::Values;

use super::{Filled, ROWS, Seen, batch, generations, random};

/// Rows whose bits are compared.
const KEPT: usize = 4;

/// Lengths of rows, for each way that rows are held: in registers, through rings, by clusters, and (not
/// of a multiple of 16 bytes) element by element.
const LENGTHS: [usize; 6] = [64, 1000, 1001, 4096, 5000, 24_576];

/// Ways to lay out rows.
const VIEWS: [View; 5] = [
    View::Contiguous,
    View::Aligned,
    View::Behind1,
    View::Padded,
    View::Behind4,
];

/// Outputs as bits, those of each row together.
type Bits = Vec<Vec<u64>>;

/// An operation on rows, as the checks see it.
trait Operation<T: TestElement> {
    /// Its plan, and the bits of its rows by a kernel.
    fn plan(&self, inputs: &Inputs<T>, stream: &Stream) -> Result<Plan>;
    fn run(&self, inputs: &Inputs<T>, kernel: &str, stream: &Stream) -> Result<Bits>;
    fn name(&self) -> &'static str;
}

/// Rows, further rows like them, and weights.
struct Inputs<T: TestElement> {
    x: Tensor<T>,
    other: Tensor<T>,
    weight: Tensor<T>,
    targets: Tensor<i64>,
}

fn bits<E: TestElement>(x: &Tensor<E>, rows: usize) -> Result<Bits> {
    let values = x.to_vec()?;
    let n = values.len() / rows;
    let row = |row: &[E]| row.iter().map(|&x| x.bits()).collect();
    Ok(values.chunks(n).map(row).collect())
}

fn joined(all: impl IntoIterator<Item = Bits>) -> Bits {
    let mut all = all.into_iter();
    let mut joined = all.next().unwrap_or_default();
    for other in all {
        joined
            .iter_mut()
            .zip(other)
            .for_each(|(row, more)| row.extend(more));
    }
    joined
}

struct Layer;

impl<T: Float + TestElement> Operation<T> for Layer {
    fn name(&self) -> &'static str {
        "layer norm"
    }

    fn plan(&self, inputs: &Inputs<T>, stream: &Stream) -> Result<Plan> {
        let norm = LayerNorm::new(&inputs.x)
            .weight(&inputs.weight)
            .bias(&inputs.weight);
        norm.batch_invariant(true).stats().plan(stream)
    }

    fn run(&self, inputs: &Inputs<T>, kernel: &str, stream: &Stream) -> Result<Bits> {
        let rows = inputs.x.shape()[0];
        let norm = LayerNorm::new(&inputs.x)
            .weight(&inputs.weight)
            .bias(&inputs.weight);
        let out = norm
            .batch_invariant(true)
            .with_kernel(kernel)
            .stats()
            .run(stream)?;
        let mut all = vec![bits(&out.y, rows)?];
        for kept in [&out.mean, &out.rstd].into_iter().flatten() {
            all.push(bits(kept, rows)?);
        }
        Ok(joined(all))
    }
}

struct Rms;

impl<T: Float + TestElement> Operation<T> for Rms {
    fn name(&self) -> &'static str {
        "RMS norm with a residual"
    }

    fn plan(&self, inputs: &Inputs<T>, stream: &Stream) -> Result<Plan> {
        let norm = RmsNorm::new(&inputs.x).residual(&inputs.other);
        norm.batch_invariant(true).stats().plan(stream)
    }

    fn run(&self, inputs: &Inputs<T>, kernel: &str, stream: &Stream) -> Result<Bits> {
        let rows = inputs.x.shape()[0];
        let norm = RmsNorm::new(&inputs.x).residual(&inputs.other);
        let out = norm
            .batch_invariant(true)
            .with_kernel(kernel)
            .stats()
            .run(stream)?;
        let mut all = vec![bits(&out.y, rows)?];
        if let Some(sum) = &out.sum {
            all.push(bits(sum, rows)?);
        }
        Ok(joined(all))
    }
}

struct Loss {
    is_soft: bool,
}

impl Loss {
    fn of<'a, T: Float + TestElement>(&self, inputs: &'a Inputs<T>) -> CrossEntropy<'a, T> {
        let loss = match self.is_soft {
            true => CrossEntropy::new(&inputs.x, &inputs.other),
            false => CrossEntropy::new(&inputs.x, &inputs.targets).label_smoothing(0.125),
        };
        loss.reduction(Reduction::None).batch_invariant(true)
    }
}

impl<T: Float + TestElement> Operation<T> for Loss {
    fn name(&self) -> &'static str {
        if self.is_soft {
            "soft cross-entropy"
        } else {
            "cross-entropy"
        }
    }

    fn plan(&self, inputs: &Inputs<T>, stream: &Stream) -> Result<Plan> {
        self.of(inputs).gradient().plan(stream)
    }

    fn run(&self, inputs: &Inputs<T>, kernel: &str, stream: &Stream) -> Result<Bits> {
        let rows = inputs.x.shape()[0];
        let out = self.of(inputs).with_kernel(kernel).gradient().run(stream)?;
        Ok(joined([bits(&out.loss, rows)?, bits(&out.dlogits, rows)?]))
    }
}

/// Rows of a batch of `kept` ones among others.
fn rows_of<T: TestElement>(
    (device, view): (&Device, View),
    kept: &ArrayD<f64>,
    filled: &[Filled],
    rng: &mut ChaCha8Rng,
) -> Tensor<T> {
    let n = kept.shape()[1];
    let rows = Array2::from_shape_fn((filled.len(), n), |(row, column)| match filled[row] {
        Filled::Row(row) => kept[[row, column]],
        Filled::Nan => f64::NAN,
        Filled::Other => rng.random_range(0.0..8.0),
    });
    let laid_out = Operand::<T>::lay_out(device, rows.into_dyn(), view);
    laid_out.expect("rows").tensor
}

fn check<T: Float + TestElement>(device: &Device, operation: &dyn Operation<T>, n: usize) {
    let stream = device.stream().expect("a stream");
    let [x, other] = [1, 2].map(|seed| Values::Normal.draw(&[KEPT, n], seed));
    let other = other.mapv(f64::abs);
    let weight = Operand::<T>::draw(device, &[n], Values::Uniform, View::Contiguous, 3);
    let weight = weight.expect("a weight").tensor;
    let mut seen = Seen::default();
    let mut rng = random(n as u64);
    let few = if n > 10_000 { 4 } else { ROWS.len() };
    for (idx, &rows) in ROWS[..few].iter().enumerate() {
        let filled = batch(rows, KEPT, &mut rng);
        let targets = filled.iter().map(|filled| match filled {
            Filled::Row(row) => (row * 7 % n) as i64,
            _ => 0,
        });
        let targets: Vec<i64> = targets.collect();
        let [of_x, of_other] = [VIEWS[idx % 5], VIEWS[(2 * idx + 1) % 5]];
        let inputs = Inputs {
            x: rows_of::<T>((device, of_x), &x, &filled, &mut rng),
            other: rows_of::<T>((device, of_other), &other, &filled, &mut rng),
            weight: weight.clone(),
            targets: Tensor::from_slice(device, &[rows], &targets).expect("targets"),
        };
        let plan = operation.plan(&inputs, &stream).expect("a plan");
        for candidate in plan.candidates() {
            let name = (operation.name(), &candidate.name, of_x, of_other);
            let of = format!("{name:?} of {rows} rows of {n} of {}", T::DTYPE);
            let bits = operation.run(&inputs, &candidate.name, &stream);
            let bits = bits.unwrap_or_else(|error| panic!("{of}: {error}"));
            for (filled, bits) in filled.iter().zip(&bits) {
                if let Filled::Row(row) = filled {
                    seen.check(*row, bits, &of);
                }
            }
        }
    }
}

fn check_all<T: Float + TestElement>(lengths: &[usize]) {
    let mut devices = generations();
    // Others compute rows element by element, as sm_80 does.
    devices.retain(|device| device.arch() != (7, 5));
    for device in devices {
        for &n in lengths {
            check::<T>(&device, &Layer, n);
            check::<T>(&device, &Rms, n);
            check::<T>(&device, &Loss { is_soft: false }, n);
            check::<T>(&device, &Loss { is_soft: true }, n);
        }
    }
}

#[test]
fn rows_of_bf16_have_the_same_bits_in_every_batch() {
    check_all::<bf16>(&LENGTHS);
}

#[test]
fn rows_of_f16_and_f32_have_the_same_bits_in_every_batch() {
    check_all::<f16>(&[130, 512]);
    check_all::<f32>(&[64, 333, 2048]);
}

#[test]
fn the_first_choice_is_the_only_one() {
    for device in generations() {
        let stream = device.stream().expect("a stream");
        let x = Tensor::<bf16>::zeros(&stream, &[3, 2048]).expect("x");
        let plan = RmsNorm::new(&x)
            .batch_invariant(true)
            .plan(&stream)
            .expect("a plan");
        let all = RmsNorm::new(&x).plan(&stream).expect("a plan");
        assert!(plan.candidates().len() <= 2, "{plan}");
        assert_eq!(
            plan.chosen().map(|it| &it.name),
            all.chosen().map(|it| &it.name),
            "{plan}"
        );
    }
}

//! Norms whose rows pass through a ring of stages, in few blocks, so that each has many rows. The
//! host's own grids have few rows a block unless there are millions of elements: what the host launches
//! is launched again with a smaller grid.

use std::mem::offset_of;

use abi::rows::RowParams;
use half::bf16;
use ndarray::{Array1, ArrayD, Axis, IxDyn, Slice};
use proptest::prelude::*;
use warpsmith::emulator::EmulatorConfig;
use warpsmith::reference::Expected;
use warpsmith::reference::norm::{Norm, norm};
use warpsmith::reference::norm_grad::{NormGrad, norm_grad};
use warpsmith::reference::precision::round_to;
use warpsmith::testing::{Capture, devices};
use warpsmith::{
    DType, Device, LayerNorm, LayerNormGrad, NormGradients, Normalized, RmsNorm, RmsNormGrad,
    Stream, Tensor,
};
use warpsmith_tests::operand::{Operand, View};
use warpsmith_tests::operation::agrees;
use warpsmith_tests::output::Output;
use warpsmith_tests::property::{Effort, holds};
use warpsmith_tests::replay::{launches, read_after, set};
use warpsmith_tests::values::Values;
use warpsmith_tests::{Checked, recording, say};

/// Epsilon of the norms.
const EPSILON: f32 = 1e-5;

const ARCH: (u32, u32) = (9, 0);

/// The parameter of the kernels with all numbers.
const PARAMS_OF_NORM: usize = 8;
const PARAMS_OF_GRADIENT: usize = 9;
const PARAMS_OF_FINISH: usize = 4;

#[derive(Clone, Debug)]
struct Case {
    rows: usize,
    /// More rows that the tensors have and the launch leaves out.
    more: usize,
    /// Vectors per row.
    vectors: usize,
    /// Blocks, or clusters, in the grid.
    teams: usize,
    /// Most stages that are used.
    stages: u32,
    rms: bool,
    /// Whether rows of another tensor are loaded too: a residual, or its gradient.
    joined: bool,
    weight: bool,
    seed: u64,
}

impl Case {
    fn shape(&self) -> [usize; 2] {
        [self.rows + self.more, self.vectors * 8]
    }

    fn teams(&self) -> usize {
        self.teams.min(self.rows + self.more)
    }

    fn draw(&self, device: &Device, shape: &[usize], seed: u64) -> Result<Operand<bf16>, String> {
        let view = View::Contiguous;
        Operand::draw(device, shape, Values::Uniform, view, self.seed + seed)
    }

    /// The values of the rows that are not left out.
    fn of_rows<T: Clone>(&self, values: &ArrayD<T>) -> ArrayD<T> {
        values
            .slice_axis(Axis(0), Slice::from(..self.rows))
            .to_owned()
    }

    /// The same launch in this case's grid, of its rows, with its stages.
    fn change(&self, capture: &mut Capture, kernel: &str, params: usize) -> Checked {
        let mut changed = launches(capture, kernel);
        let launch = changed.next().ok_or(format!("{kernel} is not launched"))?;
        let cluster = launch.config.cluster.map_or(1, |cluster| cluster[0]);
        launch.config.grid[0] = self.teams() as u32 * cluster;
        let rows = self.rows as u64;
        set(
            launch,
            params,
            offset_of!(RowParams, rows),
            rows.to_le_bytes(),
        );
        let at = offset_of!(RowParams, stages);
        let stages = &launch.params[params].bytes[at..at + 4];
        let stages = stages.try_into().map(u32::from_le_bytes).map_err(say)?;
        let stages = stages.min(self.stages);
        set(launch, params, at, stages.to_le_bytes());
        Ok(())
    }
}

/// What a replay reads.
fn replay(capture: &Capture, device: &Device) -> Result<Vec<Vec<u8>>, String> {
    // SAFETY: the emulator checks every access, and a GPU does the same as it.
    unsafe { capture.replay(device) }.map_err(say)
}

/// Gradients of a case: operands and outputs.
struct Gradient {
    x: Operand<bf16>,
    dy: Operand<bf16>,
    dsum: Operand<bf16>,
    weight: Operand<bf16>,
    mean: ArrayD<f32>,
    rstd: ArrayD<f32>,
    dx: Output<bf16>,
    dweight: Output<f32>,
    dbias: Output<f32>,
}

impl Gradient {
    fn new(case: &Case, device: &Device) -> Result<Self, String> {
        let shape = case.shape();
        let kept = |f: &dyn Fn(usize) -> f32| -> ArrayD<f32> {
            ArrayD::from_shape_fn(IxDyn(&shape[..1]), |index| f(index[0]))
        };
        let column = || Output::new(device, &shape[1..], View::Contiguous);
        Ok(Self {
            x: case.draw(device, &shape, 0)?,
            dy: case.draw(device, &shape, 1)?,
            dsum: case.draw(device, &shape, 2)?,
            weight: case.draw(device, &shape[1..], 3)?,
            mean: kept(&|row| (row % 7) as f32 * 0.125 - 0.25),
            rstd: kept(&|row| 0.5 + (row % 5) as f32 * 0.5),
            dx: Output::new(device, &shape, View::Contiguous)?,
            dweight: column()?,
            dbias: column()?,
        })
    }

    fn run(&self, case: &Case, stream: &Stream) -> warpsmith::Result<()> {
        let up = |kept| Tensor::from_ndarray(stream.device(), kept);
        let (mean, rstd) = (up(&self.mean)?, up(&self.rstd)?);
        let (x, dy) = (&self.x.tensor, &self.dy.tensor);
        let out = NormGradients {
            dx: self.dx.tensor.clone(),
            dweight: Some(self.dweight.tensor.clone()),
            dbias: (!case.rms).then(|| self.dbias.tensor.clone()),
        };
        macro_rules! run {
            ($gradient:expr) => {{
                let mut gradient = $gradient;
                if case.weight {
                    gradient = gradient.weight(&self.weight.tensor);
                }
                if case.joined {
                    gradient = gradient.sum_gradient(&self.dsum.tensor);
                }
                gradient.run_into(&out, stream)
            }};
        }
        match case.rms {
            true => run!(RmsNormGrad::new(x, &rstd, dy)),
            false => run!(LayerNormGrad::new(x, &mean, &rstd, dy)),
        }
    }

    /// Holds what a replay read to the reference.
    fn judge(&self, case: &Case, read: &[Vec<u8>]) -> Checked {
        let of_rows = |operand: &Operand<bf16>| case.of_rows(&operand.values);
        let (x, dy, dsum) = (of_rows(&self.x), of_rows(&self.dy), of_rows(&self.dsum));
        let (x, dy, dsum) = (x.view(), dy.view(), dsum.view());
        let wide = |kept: &ArrayD<f32>| -> Vec<f64> {
            kept.iter().take(case.rows).map(|&x| f64::from(x)).collect()
        };
        let (mean, rstd) = (wide(&self.mean), wide(&self.rstd));
        let weights = Array1::from_iter(self.weight.values.iter().copied());
        let of = NormGrad {
            x: &x,
            dy: &dy,
            mean: (!case.rms).then_some(&mean),
            rstd: &rstd,
            weight: case.weight.then(|| weights.view()),
            dsum: case.joined.then_some(&dsum),
        };
        let model = LayerNorm::new(&self.x.tensor).model().map_err(say)?;
        let want = norm_grad(&of, DType::Bf16, model).map_err(say)?;
        let is_row = |index: &[usize]| index[0] < case.rows;
        let dx = self.dx.replayed(&read[0], is_row, bf16::ZERO)?;
        agrees(&case.of_rows(&dx), &want.dx).map_err(|error| format!("dx: {error}"))?;
        let dweight = self.dweight.replayed(&read[1], |_| true, 0.0)?;
        agrees(&dweight, &want.dweight).map_err(|error| format!("dweight: {error}"))?;
        if case.rms {
            return Ok(());
        }
        let dbias = self.dbias.replayed(&read[2], |_| true, 0.0)?;
        agrees(&dbias, &want.dbias).map_err(|error| format!("dbias: {error}"))
    }
}

fn check_gradients(case: &Case, device: &Device) -> Checked {
    const KERNEL: &str = "norm_grad_bf16_smem_ring";
    if device.arch() != ARCH {
        return Ok(());
    }
    let recording = recording(ARCH, 2, EmulatorConfig::default());
    let stream = recording.device().default_stream();
    let gradient = Gradient::new(case, recording.device())?;
    gradient.run(case, &stream).map_err(say)?;
    gradient.dx.read()?;
    gradient.dweight.read()?;
    if !case.rms {
        gradient.dbias.read()?;
    }
    let mut capture = recording.capture().map_err(say)?;
    case.change(&mut capture, KERNEL, PARAMS_OF_GRADIENT)?;
    for launch in launches(&mut capture, "norm_grad_finish") {
        let teams = case.teams() as u64;
        set(
            launch,
            PARAMS_OF_FINISH,
            offset_of!(RowParams, rows),
            teams.to_le_bytes(),
        );
    }
    let pace = offset_of!(RowParams, pace);
    let counters = read_after(&mut capture, KERNEL, PARAMS_OF_GRADIENT, pace);
    let mut read = replay(&capture, device)?;
    if let Some(counters) = counters {
        let left = read.remove(counters);
        if left.iter().any(|&byte| byte != 0) {
            return Err(format!("the launch left its counters at {left:?}"));
        }
    }
    gradient.judge(case, &read)
}

/// A norm of a case: operands and outputs.
struct Forward {
    x: Operand<bf16>,
    residual: Operand<bf16>,
    weight: Operand<bf16>,
    bias: Operand<bf16>,
    y: Output<bf16>,
    sum: Output<bf16>,
    mean: Output<f32>,
    rstd: Output<f32>,
}

impl Forward {
    fn new(case: &Case, device: &Device) -> Result<Self, String> {
        let shape = case.shape();
        let out = || Output::new(device, &shape, View::Contiguous);
        let kept = || Output::new(device, &shape[..1], View::Contiguous);
        Ok(Self {
            x: case.draw(device, &shape, 0)?,
            residual: case.draw(device, &shape, 1)?,
            weight: case.draw(device, &shape[1..], 2)?,
            bias: case.draw(device, &shape[1..], 3)?,
            y: out()?,
            sum: out()?,
            mean: kept()?,
            rstd: kept()?,
        })
    }

    fn run(&self, case: &Case, stream: &Stream) -> warpsmith::Result<()> {
        let out = Normalized {
            y: self.y.tensor.clone(),
            sum: Some(self.sum.tensor.clone()),
            mean: (!case.rms).then(|| self.mean.tensor.clone()),
            rstd: Some(self.rstd.tensor.clone()),
        };
        macro_rules! with_options {
            ($norm:expr) => {{
                let norm = $norm.epsilon(EPSILON).residual(&self.residual.tensor);
                match case.weight {
                    true => norm.weight(&self.weight.tensor),
                    false => norm,
                }
            }};
        }
        if case.rms {
            let norm = with_options!(RmsNorm::new(&self.x.tensor));
            return norm.stats().run_into(&out, stream);
        }
        let norm = with_options!(LayerNorm::new(&self.x.tensor)).bias(&self.bias.tensor);
        norm.stats().run_into(&out, stream)
    }

    /// Holds what a replay read to the reference.
    fn judge(&self, case: &Case, read: &[Vec<u8>]) -> Checked {
        let vector = |operand: &Operand<bf16>| Array1::from_iter(operand.values.iter().copied());
        let (weights, biases) = (vector(&self.weight), vector(&self.bias));
        let sum = &self.x.values + &self.residual.values;
        let h = sum.mapv(|h| round_to(DType::Bf16, f64::from(h as f32)));
        let of = Norm {
            is_centered: !case.rms,
            epsilon: f64::from(EPSILON),
            weight: case.weight.then(|| weights.view()),
            bias: (!case.rms).then(|| biases.view()),
        };
        let model = LayerNorm::new(&self.x.tensor).model().map_err(say)?;
        let want = norm(&h.view(), DType::Bf16, &of, model).map_err(say)?;
        let of_halves =
            |output: &Output<bf16>, read: &[u8]| output.replayed(read, |_| true, bf16::ZERO);
        let of_floats = |output: &Output<f32>, read: &[u8]| output.replayed(read, |_| true, 0.0);
        let want_sum = Expected::exact(h, DType::Bf16);
        let (y, sum) = (
            of_halves(&self.y, &read[0])?,
            of_halves(&self.sum, &read[1])?,
        );
        agrees(&sum, &want_sum).map_err(|error| format!("sum: {error}"))?;
        agrees(&y, &want.y).map_err(|error| format!("y: {error}"))?;
        let rstd = of_floats(&self.rstd, &read[2])?;
        agrees(&rstd, &want.rstd).map_err(|error| format!("rstd: {error}"))?;
        if case.rms {
            return Ok(());
        }
        let mean = of_floats(&self.mean, &read[3])?;
        agrees(&mean, &want.mean).map_err(|error| format!("mean: {error}"))
    }
}

fn check_forward(case: &Case, device: &Device) -> Checked {
    if device.arch() != ARCH {
        return Ok(());
    }
    let recording = recording(ARCH, 2, EmulatorConfig::default());
    let stream = recording.device().default_stream();
    let forward = Forward::new(case, recording.device())?;
    forward.run(case, &stream).map_err(say)?;
    forward.y.read()?;
    forward.sum.read()?;
    forward.rstd.read()?;
    if !case.rms {
        forward.mean.read()?;
    }
    let mut capture = recording.capture().map_err(say)?;
    case.change(&mut capture, "norm_bf16_smem_ring", PARAMS_OF_NORM)?;
    forward.judge(case, &replay(&capture, device)?)
}

/// Rows of such lengths, in one to three blocks or clusters.
fn case(
    rows: impl Strategy<Value = usize>,
    vectors: impl Strategy<Value = usize>,
) -> impl Strategy<Value = Case> {
    let rest = (1..=3_usize, 2..=4_u32, any::<[bool; 3]>(), any::<u32>());
    (rows, vectors, rest).prop_map(
        |(rows, vectors, (teams, stages, [rms, joined, weight], seed))| Case {
            rows,
            more: 0,
            vectors,
            teams,
            stages,
            rms,
            joined,
            weight,
            seed: u64::from(seed),
        },
    )
}

/// Rows of one block, or of a cluster of 4, 8 or 16; short ones, of 8, 16 or 32 lanes.
fn gradients(largest_rows: usize) -> impl Strategy<Value = Case> {
    let few = || 1..=largest_rows;
    let many = || 6 * largest_rows..=12 * largest_rows;
    prop_oneof![
        2 => case(few(), 129..=1024_usize),
        1 => case(few(), prop_oneof![1025..=2048_usize, 2049..=4096_usize]),
        1 => case(1..=2_usize, 8193..=9000_usize),
        1 => case(many(), 129..=260_usize),
        2 => case(many(), 1..=128_usize),
    ]
}

/// Rows of a cluster of 4, 8 or 16. A ring has none that are shorter.
fn forwards(largest_rows: usize) -> impl Strategy<Value = Case> {
    prop_oneof![
        2 => case(1..=largest_rows, 4097..=4600_usize),
        1 => case(1..=largest_rows / 2, 8193..=9000_usize),
        1 => case(1..=largest_rows / 4, 16_385..=17_000_usize),
    ]
}

const EFFORT: Effort = Effort {
    cases: [24, 120],
    largest: [12, 12],
};

#[test]
fn norms_match_their_reference_however_many_rows_a_block_has() {
    let effort = Effort {
        cases: [8, 40],
        ..EFFORT
    };
    holds(effort, forwards, check_forward);
}

#[test]
fn gradients_of_norms_match_their_reference_however_many_rows_a_block_has() {
    holds(EFFORT, gradients, check_gradients);
}

const PLAIN: Case = Case {
    rows: 80,
    more: 0,
    vectors: 1025,
    teams: 1,
    stages: 3,
    rms: false,
    joined: true,
    weight: true,
    seed: 1,
};

/// So many that the barriers and places through which the blocks of a cluster exchange sums are used
/// again, in both phases.
#[test]
fn a_cluster_exchanges_sums_of_many_rows() {
    let norm = Case {
        rows: 72,
        vectors: 4097,
        rms: true,
        ..PLAIN
    };
    for device in devices() {
        check_gradients(&PLAIN, &device).expect("gradients of 80 rows");
        check_forward(&norm, &device).expect("72 rows");
    }
}

/// Where there are many rows, a block has several at a time.
#[test]
fn blocks_have_groups_of_rows() {
    for (rows, vectors) in [(1060, 129), (2120, 9)] {
        let case = Case {
            rows,
            vectors,
            teams: 3,
            ..PLAIN
        };
        for device in devices() {
            check_gradients(&case, &device).expect("gradients");
        }
    }
}

#[test]
fn blocks_without_rows_add_nothing() {
    // As many rows as make the host launch eight blocks, which have room for their sums.
    for (vectors, more) in [(9, 1021), (129, 253), (1025, 29)] {
        let case = Case {
            rows: 3,
            more,
            vectors,
            teams: 8,
            ..PLAIN
        };
        for device in devices() {
            check_gradients(&case, &device).expect("three rows for eight blocks");
        }
    }
}

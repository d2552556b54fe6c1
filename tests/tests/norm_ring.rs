//! Norms whose rows pass through a ring of stages, launched with few blocks, so that each block has
//! many rows. The host's own grids do that only for millions of elements.

use abi::rows::{
    RING_VECTORS, RING_WARPS, RowEntry, RowOp, RowParams, RowPlan, RowShape, SHORT_BLOCKS,
    SHORT_VECTORS, Stages, Strategy as Holding, flags,
};
use half::bf16;
use ndarray::{Array1, ArrayD, Axis, IxDyn};
use proptest::prelude::*;
use warpsmith::reference::Expected;
use warpsmith::reference::norm::{Norm, norm};
use warpsmith::reference::norm_grad::{NormGrad, norm_grad};
use warpsmith::reference::precision::round_to;
use warpsmith::testing::devices;
use warpsmith::{DType, Device, LaunchConfig, LayerNorm, Tensor};
use warpsmith_tests::operand::{Operand, View};
use warpsmith_tests::operation::agrees;
use warpsmith_tests::output::Output;
use warpsmith_tests::property::{Effort, holds};
use warpsmith_tests::rows::flat;
use warpsmith_tests::values::Values;
use warpsmith_tests::{Checked, say};

/// Epsilon of the norms.
const EPSILON: f32 = 1e-5;

/// Vectors of a row per warp.
const WARP_VECTORS: usize = 128;

#[derive(Clone, Debug)]
struct Case {
    rows: usize,
    /// Vectors per row.
    vectors: usize,
    /// Blocks per cluster, which share a row.
    cluster: u32,
    /// Rows that a single block has at a time.
    group: u32,
    /// Blocks, or clusters, in the grid.
    teams: u32,
    stages: u32,
    rms: bool,
    /// Whether rows of another tensor are loaded too: a residual, or its gradient.
    joined: bool,
    weight: bool,
    seed: u64,
}

impl Case {
    fn shape(&self) -> [usize; 2] {
        [self.rows, self.vectors * 8]
    }

    fn row_shape(&self, op: RowOp) -> RowShape {
        let least = if op == RowOp::Norm { 1 } else { 2 };
        RowShape {
            n: self.shape()[1] as u64,
            element_bytes: 2,
            is_aligned: true,
            inputs: least + u32::from(self.joined),
            is_centered: false,
            has_bias: false,
        }
    }

    /// A plan as the host makes it, with this cluster size and number of stages.
    fn plan(&self, op: RowOp) -> RowPlan {
        let vectors = RING_VECTORS as u32;
        let slice = self.row_shape(op).slice_vectors(self.cluster);
        let warps = slice.div_ceil(32 * vectors);
        let group = match self.cluster {
            1 => self.group.min(RING_WARPS / 2 / warps),
            _ => 1,
        };
        RowPlan {
            strategy: Holding::Ring(Stages {
                vectors,
                stages: self.stages,
                blocks: 1,
                rows: group,
            }),
            threads: 32 * warps,
            cluster: self.cluster,
        }
    }

    /// The plan of gradients of short rows, with this number of stages.
    fn short_plan(&self) -> Option<RowPlan> {
        // At least eight lanes have a row, and at most those of a warp.
        let lanes = self.vectors.div_ceil(SHORT_VECTORS).next_power_of_two();
        let threads = lanes.max(8) as u32;
        (self.cluster == 1 && threads <= 32).then_some(RowPlan {
            strategy: Holding::Short(Stages {
                vectors: SHORT_VECTORS as u32,
                stages: self.stages,
                blocks: SHORT_BLOCKS,
                rows: self.group * 32 / threads,
            }),
            threads,
            cluster: 1,
        })
    }

    /// The entry of the operation, and its launch with this plan.
    fn launch(&self, op: RowOp, plan: &RowPlan) -> (RowEntry, LaunchConfig) {
        let entry = RowEntry::of(op, DType::Bf16, plan.variant()).expect("it is in the table");
        let config = LaunchConfig::linear(self.teams() * self.cluster, plan.block_threads())
            .shared_bytes(plan.shared_bytes(&self.row_shape(op)))
            .cluster([self.cluster, 1, 1]);
        (entry, config)
    }

    fn teams(&self) -> u32 {
        self.teams.min(self.rows as u32)
    }

    /// `pace`: address of the counters of short rows, or 0.
    fn params(&self, plan: &RowPlan, pace: u64) -> RowParams {
        let [rows, n] = self.shape();
        RowParams {
            rows: rows as u64,
            n: n as u64,
            strides: [n as i64; 5],
            ignore_index: 0,
            epsilon: EPSILON,
            scale: 1.0 / n as f32,
            threads: plan.threads,
            flags: if self.rms { 0 } else { flags::CENTER },
            vectors: self.row_shape(RowOp::Norm).slice_vectors(self.cluster),
            stages: self.stages,
            pace,
        }
    }
}

fn check_gradients(case: &Case, device: &Device) -> Checked {
    check_gradients_by(&case.plan(RowOp::NormGrad), case, device)?;
    case.short_plan().map_or(Ok(()), |plan| {
        check_gradients_by(&plan, case, device).map_err(|error| format!("short rows: {error}"))
    })
}

fn check_gradients_by(plan: &RowPlan, case: &Case, device: &Device) -> Checked {
    let (shape, stream) = (case.shape(), device.stream().map_err(say)?);
    let draw = |shape: &[usize], seed| {
        let view = View::Contiguous;
        Operand::<bf16>::draw(device, shape, Values::Uniform, view, case.seed + seed)
    };
    let (x, dy, dsum) = (draw(&shape, 0)?, draw(&shape, 1)?, draw(&shape, 2)?);
    let weight = draw(&shape[1..], 3)?;
    let kept = |f: &dyn Fn(usize) -> f32| -> ArrayD<f32> {
        ArrayD::from_shape_fn(IxDyn(&shape[..1]), |index| f(index[0]))
    };
    let mean = kept(&|row| (row % 7) as f32 * 0.125 - 0.25);
    let rstd = kept(&|row| 0.5 + (row % 5) as f32 * 0.5);
    let (mean_tensor, rstd_tensor) = (
        Tensor::from_ndarray(device, &mean).map_err(say)?,
        Tensor::from_ndarray(device, &rstd).map_err(say)?,
    );
    let pace = Tensor::<i32>::zeros(&stream, &[2]).map_err(say)?;
    let dx = Output::<bf16>::new(device, &shape, View::Contiguous)?;
    let part = || Output::<f32>::new(device, &[case.teams() as usize, shape[1]], View::Contiguous);
    let (dweight, dbias) = (part()?, part()?);
    let (entry, config) = case.launch(RowOp::NormGrad, plan);
    let kernel = device.builtin_kernel(&entry.to_string()).map_err(say)?;
    let arguments = (
        &x.tensor,
        &dy.tensor,
        case.weight.then_some(&weight.tensor),
        (!case.rms).then_some(&mean_tensor),
        &rstd_tensor,
        case.joined.then_some(&dsum.tensor),
        &dx.tensor,
        &dweight.tensor,
        &dbias.tensor,
        case.params(plan, pace.device_ptr().as_raw()),
    );
    // SAFETY: the tensors have the extents and strides in the parameters, and there is a row of
    // partial sums for each block or cluster; the counters of short rows are there.
    unsafe { kernel.launch(&stream, config, arguments) }.map_err(say)?;
    let left = pace.to_vec().map_err(say)?;
    if left != [0, 0] {
        return Err(format!("the launch left its counters at {left:?}"));
    }
    let wide = |kept: &ArrayD<f32>| kept.iter().map(|&x| f64::from(x)).collect::<Vec<_>>();
    let (mean, rstd) = (wide(&mean), wide(&rstd));
    let (x_view, dy_view, dsum_view) = (x.values.view(), dy.values.view(), dsum.values.view());
    let weights = Array1::from_iter(weight.values.iter().copied());
    let of = NormGrad {
        x: &x_view,
        dy: &dy_view,
        mean: (!case.rms).then_some(&mean),
        rstd: &rstd,
        weight: case.weight.then(|| weights.view()),
        dsum: case.joined.then_some(&dsum_view),
    };
    let model = LayerNorm::new(&x.tensor).model().map_err(say)?;
    let want = norm_grad(&of, DType::Bf16, model).map_err(say)?;
    agrees(&dx.read()?, &want.dx).map_err(|error| format!("dx: {error}"))?;
    for (what, parts, want) in [
        ("dweight", &dweight, &want.dweight),
        ("dbias", &dbias, &want.dbias),
    ] {
        let sums = parts.read()?.mapv(f64::from).sum_axis(Axis(0));
        let sums = flat(&sums.mapv(|sum| sum as f32));
        agrees(&sums, want).map_err(|error| format!("{what}: {error}"))?;
    }
    Ok(())
}

fn check_forward(case: &Case, device: &Device) -> Checked {
    let (shape, stream) = (case.shape(), device.stream().map_err(say)?);
    let draw = |shape: &[usize], seed| {
        let view = View::Contiguous;
        Operand::<bf16>::draw(device, shape, Values::Uniform, view, case.seed + seed)
    };
    let (x, residual) = (draw(&shape, 0)?, draw(&shape, 1)?);
    let (weight, bias) = (draw(&shape[1..], 2)?, draw(&shape[1..], 3)?);
    let out = || Output::<bf16>::new(device, &shape, View::Contiguous);
    let kept = || Output::<f32>::new(device, &shape[..1], View::Contiguous);
    let (y, sum, mean, rstd) = (out()?, out()?, kept()?, kept()?);
    let plan = case.plan(RowOp::Norm);
    let (entry, config) = case.launch(RowOp::Norm, &plan);
    let kernel = device.builtin_kernel(&entry.to_string()).map_err(say)?;
    let arguments = (
        &x.tensor,
        case.joined.then_some(&residual.tensor),
        case.weight.then_some(&weight.tensor),
        (!case.rms).then_some(&bias.tensor),
        case.joined.then_some(&sum.tensor),
        &y.tensor,
        (!case.rms).then_some(&mean.tensor),
        &rstd.tensor,
        case.params(&plan, 0),
    );
    // SAFETY: the tensors have the extents and strides in the parameters.
    unsafe { kernel.launch(&stream, config, arguments) }.map_err(say)?;
    let vector = |operand: &Operand<bf16>| Array1::from_iter(operand.values.iter().copied());
    let (weights, biases) = (vector(&weight), vector(&bias));
    let mut h = x.values.clone();
    if case.joined {
        h = (&h + &residual.values).mapv(|h| round_to(DType::Bf16, f64::from(h as f32)));
        let want = Expected::exact(h.clone(), DType::Bf16);
        agrees(&sum.read()?, &want).map_err(|error| format!("sum: {error}"))?;
    }
    let of = Norm {
        is_centered: !case.rms,
        epsilon: f64::from(EPSILON),
        weight: case.weight.then(|| weights.view()),
        bias: (!case.rms).then(|| biases.view()),
    };
    let model = LayerNorm::new(&x.tensor).model().map_err(say)?;
    let want = norm(&h.view(), DType::Bf16, &of, model).map_err(say)?;
    agrees(&y.read()?, &want.y).map_err(|error| format!("y: {error}"))?;
    if !case.rms {
        agrees(&mean.read()?, &want.mean).map_err(|error| format!("mean: {error}"))?;
    }
    agrees(&rstd.read()?, &want.rstd).map_err(|error| format!("rstd: {error}"))
}

/// Few rows of any length, or many short ones, so that the blocks of a cluster exchange sums often.
fn case(largest_rows: usize) -> impl Strategy<Value = Case> {
    // As many as fit a block with three inputs and four stages of two KiB per warp.
    let most = RING_WARPS as usize / 2 * WARP_VECTORS;
    let few = (1..=largest_rows, 65..=most, 0..=4_u32, 1..=3_u32);
    let many = (
        6 * largest_rows..=12 * largest_rows,
        65..=130_usize,
        1..=2_u32,
        1..=1_u32,
    );
    let short = (
        2 * largest_rows..=12 * largest_rows,
        1..=64_usize,
        Just(0_u32),
        1..=3_u32,
    );
    let rest = (2..=4_u32, 0..=3_u32, any::<[bool; 3]>(), any::<u32>());
    (prop_oneof![3 => few, 1 => many, 2 => short], rest).prop_map(
        |((rows, vectors, cluster, teams), (stages, group, [rms, joined, weight], seed))| Case {
            rows,
            vectors: vectors << cluster.saturating_sub(1),
            cluster: 1 << cluster,
            group: 1 << group,
            teams,
            stages,
            rms,
            joined,
            weight,
            seed: u64::from(seed),
        },
    )
}

const EFFORT: Effort = Effort {
    cases: 24,
    largest: [12, 200],
};

#[test]
fn norms_match_their_reference_however_many_rows_a_block_has() {
    holds(EFFORT, case, check_forward);
}

#[test]
fn gradients_of_norms_match_their_reference_however_many_rows_a_block_has() {
    holds(EFFORT, case, check_gradients);
}

/// A block of eight warps has eight short rows at a time, so the first one has them all.
#[test]
fn blocks_without_rows_add_nothing() {
    let case = Case {
        rows: 3,
        vectors: 128,
        cluster: 1,
        group: 8,
        teams: 3,
        stages: 3,
        rms: false,
        joined: true,
        weight: true,
        seed: 1,
    };
    for device in devices() {
        check_gradients(&case, &device).expect("three rows for three blocks");
    }
}

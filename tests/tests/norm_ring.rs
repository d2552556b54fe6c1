//! Rows that come through a ring, launched with few blocks: so that each has many rows, which the
//! grids of the host have only where there are millions of elements.

use half::bf16;
use ndarray::{Array1, ArrayD, Axis, IxDyn};
use proptest::prelude::*;
use spec::rows::{
    RING_WARPS, RowDevice, RowEntry, RowOp, RowParams, RowPlan, RowShape, Strategy as Holding,
    flags,
};
use warpsmith::reference::norm_grad::{NormGrad, norm_grad};
use warpsmith::{DType, Device, LaunchConfig, LayerNorm, Tensor};
use warpsmith_tests::operand::{Operand, View};
use warpsmith_tests::operation::agrees;
use warpsmith_tests::output::Output;
use warpsmith_tests::property::{Effort, holds};
use warpsmith_tests::rows::flat;
use warpsmith_tests::values::Values;
use warpsmith_tests::{Checked, say};

/// Vectors of a row that one warp has.
const WARP_VECTORS: usize = 128;

#[derive(Clone, Debug)]
struct Case {
    rows: usize,
    /// Vectors of a row.
    vectors: usize,
    /// Blocks that share it.
    cluster: u32,
    /// Blocks, or clusters, of the grid.
    teams: u32,
    stages: u32,
    rms: bool,
    dsum: bool,
    weight: bool,
    seed: u64,
}

impl Case {
    fn shape(&self) -> [usize; 2] {
        [self.rows, self.vectors * 8]
    }

    fn row_shape(&self) -> RowShape {
        RowShape {
            n: self.shape()[1] as u64,
            element_bytes: 2,
            is_aligned: true,
            inputs: 2 + u32::from(self.dsum),
        }
    }

    /// The host's plan, with this cluster and as many stages.
    fn plan(&self) -> RowPlan {
        let shape = self.row_shape();
        let device = RowDevice {
            arch: (9, 0),
            shared_bytes: 226 << 10,
        };
        let plan = RowPlan::choose(&RowOp::NormGrad.kernels(), &shape, &device);
        let Holding::Ring(ring) = plan.strategy else {
            panic!("{self:?} is held otherwise: {plan:?}");
        };
        let of_warp = 32 * ring.vectors;
        RowPlan {
            strategy: Holding::Ring(spec::rows::Stages {
                stages: self.stages,
                ..ring
            }),
            threads: 32 * shape.slice_vectors(self.cluster).div_ceil(of_warp),
            cluster: self.cluster,
        }
    }

    fn params(&self, plan: &RowPlan) -> RowParams {
        let [rows, n] = self.shape();
        RowParams {
            rows: rows as u64,
            n: n as u64,
            strides: [n as i64; 5],
            ignore_index: 0,
            epsilon: 0.0,
            scale: 1.0,
            threads: plan.threads,
            flags: if self.rms { 0 } else { flags::CENTER },
            vectors: self.row_shape().slice_vectors(self.cluster),
            stages: self.stages,
        }
    }
}

fn check(case: &Case, device: &Device) -> Checked {
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
    let plan = case.plan();
    let teams = case.teams.min(case.rows as u32);
    let dx = Output::<bf16>::new(device, &shape, View::Contiguous)?;
    let part = || Output::<f32>::new(device, &[teams as usize, shape[1]], View::Contiguous);
    let (dweight, dbias) = (part()?, part()?);
    let entry = RowEntry {
        op: RowOp::NormGrad,
        dtype: DType::Bf16,
        form: plan.form(),
    };
    let kernel = device.builtin_kernel(&entry.to_string()).map_err(say)?;
    let config = LaunchConfig::linear(teams * case.cluster, plan.threads)
        .shared_bytes(plan.shared_bytes(&case.row_shape()))
        .cluster([case.cluster, 1, 1]);
    let arguments = (
        &x.tensor,
        &dy.tensor,
        case.weight.then_some(&weight.tensor),
        (!case.rms).then_some(&mean_tensor),
        &rstd_tensor,
        case.dsum.then_some(&dsum.tensor),
        &dx.tensor,
        &dweight.tensor,
        &dbias.tensor,
        case.params(&plan),
    );
    // SAFETY: tensors of the extents and strides that the parameters say; a row of partial sums for
    // each block or cluster.
    unsafe { kernel.launch(&stream, config, arguments) }.map_err(say)?;
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
        dsum: case.dsum.then_some(&dsum_view),
    };
    let model = LayerNorm::new(&x.tensor).model().map_err(say)?;
    let want = norm_grad(&of, DType::Bf16, model);
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

fn case(largest_rows: usize) -> impl Strategy<Value = Case> {
    let most = RING_WARPS as usize * WARP_VECTORS;
    let extents = (1..=largest_rows, 65..=most, 0..4_u32, 1..=3_u32);
    let rest = (2..=4_u32, any::<[bool; 3]>(), any::<u32>());
    (extents, rest).prop_map(
        |((rows, vectors, cluster, teams), (stages, [rms, dsum, weight], seed))| {
            // As many as a block has room for in three inputs and four stages of two KiB a warp.
            let vectors = vectors.min(8 * WARP_VECTORS) << cluster.saturating_sub(1);
            Case {
                rows,
                vectors,
                cluster: 1 << cluster,
                teams,
                stages,
                rms,
                dsum,
                weight,
                seed: u64::from(seed),
            }
        },
    )
}

#[test]
fn gradients_of_norms_match_their_reference_however_many_rows_a_block_has() {
    holds(
        Effort {
            cases: 24,
            largest: [12, 200],
        },
        case,
        check,
    );
}

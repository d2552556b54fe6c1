//! The gradients of a case, beside their reference.

use super::{Case, Shared, model};
use ndarray::ArrayD;
use warpsmith::reference::norm_grad::{NormGrad, norm_grad};
use warpsmith::{Device, Float, LayerNormGrad, NormGradients, RmsNormGrad, Tensor};
use warpsmith_tests::element::TestElement;
use warpsmith_tests::operand::{Operand, View};
use warpsmith_tests::operation::{agrees, by_candidate, repeats};
use warpsmith_tests::output::{Output, same_bits};
use warpsmith_tests::rows::flat;
use warpsmith_tests::values::Values;
use warpsmith_tests::{Checked, say};

pub(super) fn check<T: Float + TestElement>(
    case: &Case,
    device: &Device,
    h: &ArrayD<f64>,
    (mean, rstd): &(Option<ArrayD<f32>>, ArrayD<f32>),
    shared: &Shared<T>,
) -> Checked {
    let stream = device.stream().map_err(say)?;
    let view = case.view.writable_or_contiguous();
    let x = Operand::<T>::lay_out(device, h.clone(), view)?;
    let dy = Operand::<T>::draw(device, &case.shape, Values::Uniform, view, case.seed + 5)?;
    let dsum = Operand::<T>::draw(device, &case.shape, Values::Uniform, view, case.seed + 6)?;
    // Contiguous, but not at the start of its memory, nor aligned to a vector.
    let up = |kept: &ArrayD<f32>| {
        let all: Vec<f32> = [f32::NAN].into_iter().chain(kept.iter().copied()).collect();
        let all = Tensor::from_slice(device, &[all.len()], &all)?;
        all.slice(0, 1..)?.reshape(kept.shape())
    };
    let up = |kept| up(kept).map_err(say);
    let mean_tensor = mean.as_ref().map(up).transpose()?;
    let rstd_tensor = up(rstd)?;
    let (mean, rstd) = (mean.as_ref().map(wide), wide(rstd));
    let weight = shared.values(0);
    let [x_rows, dy_rows, dsum_rows] = [&x, &dy, &dsum].map(|of| case.axes.rows(&of.values));
    let (x_view, dy_view, dsum_view) = (x_rows.view(), dy_rows.view(), dsum_rows.view());
    let of = NormGrad {
        x: &x_view,
        dy: &dy_view,
        mean: mean.as_deref(),
        rstd: &rstd,
        weight: weight.as_ref().map(|weight| weight.view()),
        dsum: case.residual.then_some(&dsum_view),
    };
    let want = norm_grad(&of, T::DTYPE, model(case, &x.tensor)?).map_err(say)?;
    let n = case.axes.of_row(&case.shape);
    let mut first: Option<(ArrayD<T>, Vec<ArrayD<f32>>)> = None;
    for _ in 0..repeats(device) {
        let dx = Output::<T>::new(device, &case.shape, case.view_y)?;
        let column = || Output::<f32>::new(device, &n, View::Contiguous);
        let (dweight, dbias) = (column()?, column()?);
        let out = NormGradients {
            dx: dx.tensor.clone(),
            dweight: Some(dweight.tensor.clone()),
            dbias: mean_tensor.is_some().then(|| dbias.tensor.clone()),
        };
        macro_rules! run {
            ($gradient:expr) => {{
                let mut gradient = $gradient;
                if !case.axes.0.is_empty() {
                    gradient = gradient.axes(&case.axes.signed(x.tensor.rank()));
                }
                if case.residual {
                    gradient = gradient.sum_gradient(&dsum.tensor);
                }
                if let Some([weight, _]) = &shared.same {
                    gradient = gradient.weight(&weight.tensor);
                }
                if let Some([weight, _]) = &shared.f32 {
                    gradient = gradient.weight(&weight.tensor);
                }
                by_candidate(gradient.plan(&stream), case.candidate, |name| match name {
                    Some(name) => gradient.clone().with_kernel(name).run_into(&out, &stream),
                    None => gradient.run_into(&out, &stream),
                })
            }};
        }
        match &mean_tensor {
            Some(mean) => run!(LayerNormGrad::new(
                &x.tensor,
                mean,
                &rstd_tensor,
                &dy.tensor
            )),
            None => run!(RmsNormGrad::new(&x.tensor, &rstd_tensor, &dy.tensor)),
        }
        .map_err(say)?;
        let dx = dx.read()?;
        agrees(&case.axes.rows(&dx), &want.dx).map_err(|error| format!("dx: {error}"))?;
        let mut sums = vec![flat(&dweight.read()?)];
        agrees(&sums[0], &want.dweight).map_err(|error| format!("dweight: {error}"))?;
        if mean_tensor.is_some() {
            sums.push(flat(&dbias.read()?));
            agrees(&sums[1], &want.dbias).map_err(|error| format!("dbias: {error}"))?;
        }
        if let Some((first_dx, first)) = &first {
            let differs = |error| format!("not deterministic: {error}");
            same_bits(first_dx, &dx).map_err(differs)?;
            for (first, again) in first.iter().zip(&sums) {
                same_bits(first, again).map_err(differs)?;
            }
        }
        first = Some((dx, sums));
    }
    Ok(())
}

fn wide(kept: &ArrayD<f32>) -> Vec<f64> {
    kept.iter().map(|&x| f64::from(x)).collect()
}

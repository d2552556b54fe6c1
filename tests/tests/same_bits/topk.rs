//! Cases of the kernels for the first elements of rows.

use rand::Rng;
use rand_chacha::ChaCha8Rng;
use spec::topk::{DTYPES, SHORT_K, SHORT_N, TopKEntry, TopKParams, TopKPlan};
use warpsmith::{DType, LaunchConfig};

use super::trial::{Arg, Trial};

/// Multiprocessors of a plan that cuts no row.
const FEW: u32 = 1;

/// Rows of any values: short ones, rows with few or many wanted elements, or parts of rows and then
/// the pairs that they give.
pub(crate) fn topk(entry: TopKEntry, rng: &mut ChaCha8Rng) -> Trial {
    let mut trial = Trial::default();
    match entry {
        TopKEntry::Short(dtype) => {
            let n = rng.random_range(1..=SHORT_N);
            let k = rng.random_range(1..=n.min(SHORT_K));
            let rows = rng.random_range(1..=100);
            launch(&mut trial, dtype, [rows, n, k], FEW, rng);
        }
        TopKEntry::Rows(dtype) => {
            let n = rng.random_range(SHORT_N + 1..=12_000);
            let most = [20, n / 3, n.min(2048)][rng.random_range(0..3)];
            let k = rng.random_range(1..=most);
            let rows = rng.random_range(1..=3);
            launch(&mut trial, dtype, [rows, n, k], FEW, rng);
        }
        TopKEntry::Pairs => {
            let dtype = DTYPES[rng.random_range(0..DTYPES.len())];
            let n = rng.random_range(9000..=30_000);
            let most = [50, 1000][rng.random_range(0..2)];
            let k = rng.random_range(1..=most);
            let rows = rng.random_range(1..=2);
            launch(&mut trial, dtype, [rows, n, k], 200, rng);
        }
    }
    trial
}

fn launch(
    trial: &mut Trial,
    dtype: DType,
    [rows, n, k]: [u64; 3],
    multiprocessors: u32,
    rng: &mut ChaCha8Rng,
) {
    let plan = TopKPlan::new(rows, n, k, dtype, multiprocessors);
    let turn = if rng.random() {
        TopKParams::SMALLEST
    } else {
        0
    };
    let params = TopKParams::new(&plan, rows, n, k, dtype, turn);
    let x = trial.floats(dtype, rows * n, rng);
    let values = trial.noise(rows * k * dtype.size_bytes() as u64, rng);
    let indices = trial.noise(8 * rows * k, rng);
    let operands = [x, values, indices];
    if plan.is_short {
        let blocks = plan.blocks(rows).expect("few rows");
        let config = LaunchConfig::linear(blocks, plan.threads);
        let [x, values, indices] = operands;
        let args = [x, values, indices, Arg::params(params)];
        return trial.launch(TopKEntry::Short(dtype), config, args);
    }
    let pairs = match plan.parts {
        1 => Arg::Null,
        parts => trial.noise(8 * rows * u64::from(parts) * k, rng),
    };
    let mut of_plan = |entry: TopKEntry, plan: &TopKPlan, params: TopKParams| {
        let config = LaunchConfig {
            grid: [rows as u32, plan.parts, 1],
            ..LaunchConfig::linear(1, plan.threads)
        };
        let tensors = operands.iter().chain([&pairs]).map(Arg::again);
        let args: Vec<Arg> = tensors.chain([Arg::params(params)]).collect();
        trial.launch(entry, config.shared_bytes(plan.shared_bytes()), args);
    };
    of_plan(TopKEntry::Rows(dtype), &plan, params);
    if plan.parts > 1 {
        let whole = plan.of_pairs(k);
        of_plan(TopKEntry::Pairs, &whole, params.of_pairs(&whole));
    }
}

//! Fits the constants of GEMM's cost model to measured kernels.
//!
//! A sample is a kernel with the time that a result file has of it. Two numbers say how good a model
//! is. Its loss is the geometric mean of the times of its first choices by those of the fastest
//! kernels. Its error is the root mean square of the logarithm of estimated by measured times.
//! [`fitted`] lowers both by coordinate descent: each constant in turn is made larger or smaller by a
//! step, and the steps shrink.

use std::collections::BTreeMap;

use serde_json::Value;
use warpsmith::fitting::{GemmProblem, MachineModel};
use warpsmith::{DType, DeviceInfo, Precision};

use crate::record::Record;

/// A measured kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// What it computed.
    pub problem: GemmProblem,
    /// The name of the candidate.
    pub kernel: String,
    /// Its time, in nanoseconds.
    pub ns: f64,
}

/// The kernels that result files of GEMM name with a time. Products with an epilogue are left out.
pub fn samples(records: &[Record]) -> Vec<Sample> {
    let mut samples = Vec::new();
    for record in records {
        let Some(problem) = problem(&record.case) else {
            continue;
        };
        let kernel = record.kernel.split(" of ").next().unwrap_or_default();
        let others = record.other_kernels.split("; ");
        let others = others.filter_map(|other| other.rsplit_once(' '));
        let others = others.filter_map(|(kernel, us)| Some((kernel, us.parse().ok()?)));
        for (kernel, us) in others.chain([(kernel, record.ours_us)]) {
            samples.push(Sample {
                problem,
                kernel: kernel.to_owned(),
                ns: 1e3 * us,
            });
        }
    }
    samples
}

/// The product of a case such as `gemm/bf16/nt/m128_n256_k64`.
fn problem(case: &str) -> Option<GemmProblem> {
    let &["gemm", precision, layout, extents] = &*case.split('/').collect::<Vec<_>>() else {
        return None;
    };
    let (input, output) = match precision {
        "bf16" => (DType::Bf16, DType::Bf16),
        "bf16_f32" => (DType::Bf16, DType::F32),
        "f16" => (DType::F16, DType::F16),
        "f32" | "tf32" => (DType::F32, DType::F32),
        "e4m3" | "e4m3_fast" => (DType::E4m3, DType::Bf16),
        "f64" => (DType::F64, DType::F64),
        "int8" => (DType::I8, DType::I32),
        _ => return None,
    };
    let extent = |name: char| {
        let mut parts = extents.split('_');
        parts.find_map(|part| part.strip_prefix(name)?.parse().ok())
    };
    Some(GemmProblem {
        input,
        output,
        transposed: [layout.starts_with('t'), layout.ends_with('t')],
        batch: extent('b').unwrap_or(1),
        m: extent('m')?,
        n: extent('n')?,
        k: extent('k')?,
        precision: match precision {
            "tf32" => Precision::Tf32,
            _ => Precision::Full,
        },
        fast_accumulation: precision == "e4m3_fast",
    })
}

/// A product, the model's first choice, and its time by that of the fastest kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct FirstChoice {
    /// What was to be computed.
    pub problem: GemmProblem,
    /// The name of the first choice, and of the fastest kernel.
    pub names: [String; 2],
    /// The first choice's time by the fastest kernel's.
    pub loss: f64,
}

/// The loss of a kernel that a result file does not name: `compare_gemm` leaves out those that take
/// 1.3 times as long as the fastest.
const LEFT_OUT: f64 = 1.4;
/// The weight of the error beside the logarithm of the loss.
const ERROR_WEIGHT: f64 = 0.05;

/// How good a model is.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// Root mean square of the logarithms of estimated by measured times.
    pub error: f64,
    /// Geometric mean of the losses.
    pub loss: f64,
    /// The first choice for each product, the largest loss first.
    pub choices: Vec<FirstChoice>,
    /// Each sample whose kernel is a candidate, with its estimate by its time, the largest difference
    /// first.
    pub ratios: Vec<(Sample, f64)>,
}

/// How well `model` estimates the samples.
pub fn fit(samples: &[Sample], device: &DeviceInfo, model: &MachineModel) -> Fit {
    let mut of_problems: BTreeMap<String, Vec<&Sample>> = BTreeMap::new();
    for sample in samples {
        let key = format!("{:?}", sample.problem);
        of_problems.entry(key).or_default().push(sample);
    }
    let (mut ratios, mut choices) = (Vec::new(), Vec::new());
    for measured in of_problems.values() {
        let Some(fastest) = measured.iter().min_by(|x, y| x.ns.total_cmp(&y.ns)) else {
            continue;
        };
        let all = fastest.problem.estimates(device, model);
        for sample in measured {
            if let Some((_, ns)) = all.iter().find(|(name, _)| *name == sample.kernel) {
                ratios.push(((*sample).clone(), ns / sample.ns));
            }
        }
        let Some((first, _)) = all.first() else {
            continue;
        };
        let chosen = measured.iter().find(|sample| sample.kernel == *first);
        choices.push(FirstChoice {
            problem: fastest.problem,
            names: [first.clone(), fastest.kernel.clone()],
            loss: chosen.map_or(LEFT_OUT, |sample| sample.ns / fastest.ns),
        });
    }
    let mean = |values: &mut dyn Iterator<Item = f64>, count: usize| {
        values.sum::<f64>() / count.max(1) as f64
    };
    let mut squares = ratios.iter().map(|(_, ratio)| ratio.ln().powi(2));
    let error = mean(&mut squares, ratios.len()).sqrt();
    let mut losses = choices.iter().map(|choice| choice.loss.ln());
    let loss = mean(&mut losses, choices.len()).exp();
    ratios.sort_by(|(_, x), (_, y)| y.ln().abs().total_cmp(&x.ln().abs()));
    choices.sort_by(|x, y| y.loss.total_cmp(&x.loss));
    Fit {
        error,
        loss,
        choices,
        ratios,
    }
}

impl Fit {
    /// What [`fitted`] makes small.
    fn cost(&self) -> f64 {
        self.loss.ln() + ERROR_WEIGHT * self.error
    }
}

/// Steps by which constants are changed, one after the other.
const STEPS: [f64; 5] = [0.25, 0.1, 0.04, 0.1, 0.04];

/// The model with the constants of GEMM fitted to the samples, from `model` on.
pub fn fitted(samples: &[Sample], device: &DeviceInfo, model: &MachineModel) -> MachineModel {
    let mut values = constants(model);
    let mut best = (*model, fit(samples, device, model).cost());
    for step in STEPS {
        for idx in 0..values.len() {
            for factor in [1.0 + step, 1.0 - step] {
                let mut changed = values.clone();
                changed[idx].1 *= factor;
                let model = with_constants(&best.0, &changed);
                let cost = fit(samples, device, &model).cost();
                if cost < best.1 {
                    (best, values) = ((model, cost), changed);
                    break;
                }
            }
        }
    }
    best.0
}

/// The constants of GEMM by their paths in the model, such as `/gemm/sm90/flops`.
pub fn constants(model: &MachineModel) -> Vec<(String, f64)> {
    let mut found = Vec::new();
    let all = serde_json::to_value(model).unwrap_or_default();
    collect("", &all, &mut found);
    found.retain(|(path, _)| path == "/launch_ns" || path.starts_with("/gemm/"));
    found
}

fn collect(path: &str, value: &Value, found: &mut Vec<(String, f64)>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                collect(&format!("{path}/{name}"), value, found);
            }
        }
        value => found.extend(value.as_f64().map(|value| (path.to_owned(), value))),
    }
}

/// `model` with other values of these constants.
fn with_constants(model: &MachineModel, constants: &[(String, f64)]) -> MachineModel {
    let mut all = serde_json::to_value(model).unwrap_or_default();
    for (path, value) in constants {
        if let Some(place) = all.pointer_mut(path) {
            *place = Value::from(*value);
        }
    }
    serde_json::from_value(all).unwrap_or(*model)
}

//! One case: operands, both sides, times, and whether their answers agree.

use half::{bf16, f16};
use warpsmith::{Device, Float, Gemm, Stream, Tensor};

use super::cases::{Case, Precision};
use super::peer::Peer;
use crate::cublaslt::CublasLt;
use crate::error::Result;
use crate::inputs::{Sample, largest_difference, normals};
use crate::machine::Machine;
use crate::results::{Row, Side};
use crate::timing::{Launch, Timer, copies};

/// Operands of one product and a D for each side, as tensors over what is stored.
pub(super) struct Operands<T: Sample> {
    /// As multiplied: a view where it is stored transposed.
    pub(super) a: Tensor<T>,
    /// As multiplied.
    pub(super) b: Tensor<T>,
    ours: Tensor<T>,
    /// The peer's answer.
    pub(super) theirs: Tensor<T>,
}

impl<T: Sample> Operands<T> {
    fn new(case: &Case, device: &Device, a: &[T], b: &[T]) -> Result<Self> {
        let Case { batch, m, n, k, .. } = *case;
        let of_batch = |[rows, columns]: [usize; 2]| match batch {
            1 => vec![rows, columns],
            _ => vec![batch, rows, columns],
        };
        let operand = |values: &[T], shape: [usize; 2], transposed: bool| -> Result<Tensor<T>> {
            let [rows, columns] = shape;
            let stored = if transposed { [columns, rows] } else { shape };
            let tensor = Tensor::from_slice(device, &of_batch(stored), values)?;
            Ok(if transposed { tensor.t() } else { tensor })
        };
        // An answer that is not written stays not a number.
        let answer = || {
            Tensor::full(
                &device.default_stream(),
                &of_batch([m, n]),
                T::rounded(f32::NAN),
            )
        };
        Ok(Self {
            a: operand(a, [m, k], case.layout.trans_a())?,
            b: operand(b, [k, n], case.layout.trans_b())?,
            ours: answer()?,
            theirs: answer()?,
        })
    }
}

/// Measures `case`, beside the library's best where there is one.
pub(super) fn row(
    case: &Case,
    timer: &Timer,
    library: Option<&CublasLt>,
    machine: &Machine,
    repetitions: usize,
) -> Result<Row> {
    let measure = match case.precision {
        Precision::Bf16 => measure::<bf16>,
        Precision::F16 => measure::<f16>,
        Precision::F32 => measure::<f32>,
    };
    measure(case, timer, library, machine, repetitions)
}

fn measure<T: Sample + Float>(
    case: &Case,
    timer: &Timer,
    library: Option<&CublasLt>,
    machine: &Machine,
    repetitions: usize,
) -> Result<Row> {
    let copies = machine
        .l2_bytes
        .map_or(1, |l2_bytes| copies(case.bytes(), l2_bytes));
    let stream = timer.stream();
    let operands = operands::<T>(case, stream.device(), copies)?;
    let peer = match library {
        Some(library) => Peer::fastest(library, case, timer, &operands)?,
        None => None,
    };
    let mut works = vec![ours(&operands, stream)];
    works.extend(peer.as_ref().map(|peer| peer.launch(&operands)));
    let schedule = timer.plan(repetitions, copies, &mut works)?;
    let times = timer.interleaved(&schedule, &mut works, &mut || ())?;
    let difference = match peer {
        Some(_) => Some(difference(&operands, &mut works, stream)?),
        None => None,
    };
    drop(works);
    let ours = Side::new("warpsmith", None, &times[0]);
    let beside = peer.iter().zip(times.iter().skip(1)).next();
    let (input, flops, bytes) = (case.precision.input(), case.flops(), case.bytes() as f64);
    let weights_per_s = case.weight_bytes() as f64 / ours.ms * 1e3;
    let is_bound_by_weights = case.target.or_share_of_copy.is_some();
    Ok(Row {
        set: case.set.to_owned(),
        case: case.to_string(),
        flops,
        bytes,
        ours,
        peer: beside.map(|(peer, times)| Side::new(&peer.name(), Some(peer.choice()), times)),
        difference,
        difference_allowed: case.precision.difference_allowed(),
        roofline_flops_per_s: machine.roofline(input, false, flops, bytes),
        share_of_copy: machine
            .copy_bytes_per_s
            .filter(|_| is_bound_by_weights)
            .map(|rate| weights_per_s / rate),
        launches: schedule.launches,
        copies,
        repetitions,
        target: case.target,
    })
}

/// Copies of the same operands at different addresses.
fn operands<T: Sample>(case: &Case, device: &Device, copies: usize) -> Result<Vec<Operands<T>>> {
    let [a, b, _] = case.elements();
    let (a, b) = (normals::<T>(a, 1), normals::<T>(b, 2));
    let copy = |_| Operands::new(case, device, &a, &b);
    (0..copies).map(copy).collect()
}

fn ours<'a, T: Sample + Float>(operands: &'a [Operands<T>], stream: &'a Stream) -> Launch<'a> {
    Box::new(move |copy| {
        let Operands { a, b, ours, .. } = &operands[copy];
        Ok(Gemm::new(a, b).run_into(ours, stream)?)
    })
}

/// Runs each side once more, and holds the answers against each other.
fn difference<T: Sample>(
    operands: &[Operands<T>],
    works: &mut [Launch<'_>],
    stream: &Stream,
) -> Result<f64> {
    let Operands { ours, theirs, .. } = &operands[0];
    for answer in [ours, theirs] {
        answer.fill(T::rounded(f32::NAN), stream)?;
    }
    for work in works {
        work(0)?;
    }
    stream.synchronize()?;
    Ok(largest_difference(&ours.to_vec()?, &theirs.to_vec()?))
}

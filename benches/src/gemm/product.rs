//! The operands of a case on the device, and our launches on them.

use warpsmith::{Activation, Device, Gemm, GemmInput, GemmOutput, Stream, Tensor};

use super::cases::{Case, Precision};
use crate::cublaslt::Epilogue;
use crate::error::Result;
use crate::inputs::{Sample, largest_difference, normal_tensor, normals};
use crate::opponent::Opponent;
use crate::timing::Launch;

/// Our name in results.
const OURS: &str = "warpsmith";

/// The tensors of one launch: one of the copies.
pub(super) struct Copy<In: Sample, Out: GemmOutput + Sample> {
    /// A as it is multiplied; a view if it is stored transposed.
    pub(super) a: Tensor<In>,
    /// B as it is multiplied, likewise.
    pub(super) b: Tensor<In>,
    ours: Tensor<Out>,
    /// The peer's result.
    pub(super) theirs: Tensor<Out>,
}

/// A case with its operands.
pub(super) struct Product<In: Sample, Out: GemmOutput + Sample> {
    /// The case.
    pub(super) case: Case,
    /// Copies with equal values at different addresses.
    pub(super) copies: Vec<Copy<In, Out>>,
    /// The bias, one element per column, if the epilogue adds one.
    pub(super) bias: Option<Tensor<Out>>,
    /// The scales of A and B, if the operands are 8-bit.
    pub(super) scales: Option<[Tensor<Out::Factor>; 2]>,
}

impl<In: Sample, Out: GemmOutput + Sample> Product<In, Out> {
    /// Draws the operands and copies them to the device.
    pub(super) fn new(case: &Case, device: &Device, copies: usize) -> Result<Self> {
        let [a, b, _] = case.elements();
        let (a, b) = (normals::<In>(a, 1)?, normals::<In>(b, 2)?);
        let bias = match case.epilogue {
            Epilogue::None => None,
            Epilogue::BiasGelu => Some(normal_tensor(device, &[case.n], 3)?),
        };
        let scale = |value: f64| {
            let value = Out::Factor::rounded_from(value);
            Tensor::from_slice(device, &[1], &[value])
        };
        let scales = match case.precision {
            Precision::E4m3 | Precision::E4m3Fast => Some([scale(0.5)?, scale(0.25)?]),
            _ => None,
        };
        let copy = |_| Copy::new(case, device, &a, &b);
        Ok(Self {
            case: *case,
            copies: (0..copies).map(copy).collect::<Result<_>>()?,
            bias,
            scales,
        })
    }

    /// Runs each side once more and compares each result of ours with the peer's. The outputs are
    /// filled with NaN first, which elements that are not written keep.
    pub(super) fn difference(
        &self,
        all_of_ours: &mut [Launch<'_>],
        peer: &mut Launch<'_>,
        stream: &Stream,
    ) -> Result<f64> {
        let Copy { ours, theirs, .. } = &self.copies[0];
        theirs.fill(Out::rounded(f32::NAN), stream)?;
        peer(0)?;
        let theirs = theirs.to_vec()?;
        let mut largest = 0.0_f64;
        for work in all_of_ours {
            ours.fill(Out::rounded(f32::NAN), stream)?;
            work(0)?;
            largest = largest.max(largest_difference(&ours.to_vec()?, &theirs));
        }
        Ok(largest)
    }
}

impl<In, Out> Product<In, Out>
where
    In: GemmInput + Sample,
    Out: GemmOutput + Sample,
{
    /// The names of our kernels for it, in the order in which the cost model expects them to be
    /// fast.
    pub(super) fn kernels(&self, stream: &Stream) -> Result<Vec<String>> {
        let plan = self.gemm(&self.copies[0]).plan(stream)?;
        let names = plan.candidates().iter();
        Ok(names.map(|candidate| candidate.name.clone()).collect())
    }

    /// Ours with the kernel that it chooses itself.
    pub(super) fn chosen<'a>(&'a self, stream: &'a Stream) -> Result<Opponent<'a>> {
        let plan = self.gemm(&self.copies[0]).plan(stream)?;
        Ok(Opponent {
            name: OURS.into(),
            choice: plan.chosen().map(|candidate| candidate.name.clone()),
            launch: Box::new(move |copy| {
                let copy = &self.copies[copy];
                Ok(self.gemm(copy).run_into(&copy.ours, stream)?)
            }),
        })
    }

    /// Ours with the kernel of that name.
    pub(super) fn by_kernel<'a>(&'a self, kernel: String, stream: &'a Stream) -> Opponent<'a> {
        Opponent {
            name: OURS.into(),
            choice: Some(kernel.clone()),
            launch: Box::new(move |copy| {
                let copy = &self.copies[copy];
                let gemm = self.gemm(copy).with_kernel(&kernel);
                Ok(gemm.run_into(&copy.ours, stream)?)
            }),
        }
    }

    /// Ours without the epilogue, with the kernel that it chooses itself.
    pub(super) fn plain<'a>(&'a self, stream: &'a Stream) -> Opponent<'a> {
        Opponent {
            name: "warpsmith, plain".into(),
            choice: None,
            launch: Box::new(move |copy| {
                let copy = &self.copies[copy];
                Ok(self.product(copy).run_into(&copy.theirs, stream)?)
            }),
        }
    }

    /// The GEMM with its epilogue, as a user would write it.
    fn gemm<'a>(&'a self, copy: &'a Copy<In, Out>) -> Gemm<'a, In, In, Out> {
        let gemm = self.product(copy);
        match &self.bias {
            Some(bias) => gemm.column_bias(bias).activation(Activation::GeluTanh),
            None => gemm,
        }
    }

    fn product<'a>(&'a self, Copy { a, b, .. }: &'a Copy<In, Out>) -> Gemm<'a, In, In, Out> {
        let precision = self.case.precision;
        let mut gemm = Gemm::new(a, b)
            .output::<Out>()
            .fast_accumulation(precision == Precision::E4m3Fast);
        if precision == Precision::Tf32 {
            gemm = gemm.precision(warpsmith::Precision::Tf32);
        }
        match &self.scales {
            Some([scale_a, scale_b]) => gemm.scale_a_from(scale_a).scale_b_from(scale_b),
            None => gemm,
        }
    }
}

impl<In: Sample, Out: GemmOutput + Sample> Copy<In, Out> {
    fn new(case: &Case, device: &Device, a: &[In], b: &[In]) -> Result<Self> {
        let Case { batch, m, n, k, .. } = *case;
        let of_batch = |[rows, columns]: [usize; 2]| match batch {
            1 => vec![rows, columns],
            _ => vec![batch, rows, columns],
        };
        let operand = |values: &[In], shape: [usize; 2], transposed: bool| -> Result<_> {
            let [rows, columns] = shape;
            let stored = if transposed { [columns, rows] } else { shape };
            let tensor = Tensor::from_slice(device, &of_batch(stored), values)?;
            Ok(if transposed { tensor.t() } else { tensor })
        };
        let answer = || Tensor::empty(&device.default_stream(), &of_batch([m, n]));
        Ok(Self {
            a: operand(a, [m, k], case.layout.trans_a())?,
            b: operand(b, [k, n], case.layout.trans_b())?,
            ours: answer()?,
            theirs: answer()?,
        })
    }
}

//! Running a [`Gemm`]: validation, views, plan and launch.

use super::Gemm;
use super::call::Memory;
use super::desc::{BiasAxis, GemmDesc, MatrixDesc, ScaleExtent};
use super::operands::{Operands, is_by_rows, layout_desc, matrix_desc};
use super::options::{GemmInput, GemmOutput, Precision, Scalar};
use super::shape::{Extents, MatrixLayout, by_rows, orientation};
use crate::error::named;
use crate::ops::check;
use crate::ops::copy::strided_copy;
use crate::ops::plan::{self, Choice as _, Desc as _, Plan};
use crate::tensor::Layout;
use crate::{DType, Element, Error, Result, Stream, Tensor};
use abi::gemm::{Activation, Transpose};

impl<'a, A: GemmInput<B>, B: Element, Out: GemmOutput> Gemm<'a, A, B, Out> {
    /// Enqueues the GEMM and returns its result, a new contiguous tensor.
    ///
    /// # Errors
    /// See [`Gemm`].
    pub fn run(&self, stream: &Stream) -> Result<Tensor<Out>> {
        named(GemmDesc::OPERATION, || {
            let extents = self.validate(stream)?;
            let d = Tensor::empty(stream, &extents.shape())?;
            self.launch(&extents, &d, stream)?;
            Ok(d)
        })
    }

    /// Enqueues the GEMM into `d`, which has the shape of the result, and may be `c` or the
    /// residual itself.
    ///
    /// # Errors
    /// See [`Gemm`].
    pub fn run_into(&self, d: &Tensor<Out>, stream: &Stream) -> Result<()> {
        named(GemmDesc::OPERATION, || {
            let extents = self.validate_into(d, stream)?;
            self.launch(&extents, d, stream)
        })
    }

    pub(super) fn validate_into(&self, d: &Tensor<Out>, stream: &Stream) -> Result<Extents> {
        let extents = self.validate(stream)?;
        check::output("d", d, &extents.shape(), stream)?;
        check::no_overlap("d", d, "a", self.a)?;
        check::no_overlap("d", d, "b", self.b)?;
        for (operand, tensor) in [("c", self.c_read()), ("residual", self.options.residual)] {
            if let Some(tensor) = tensor {
                check::no_partial_overlap("d", d, operand, tensor)?;
            }
        }
        if let Some((_, bias)) = self.options.bias {
            check::no_overlap("d", d, "bias", bias)?;
        }
        for (operand, tensor) in self.device_factors() {
            check::no_overlap("d", d, operand, tensor)?;
        }
        Ok(extents)
    }

    /// The kernel that [`run`](Self::run) would launch, and the other candidates.
    ///
    /// # Errors
    /// See [`Gemm`].
    pub fn plan(&self, stream: &Stream) -> Result<Plan> {
        named(GemmDesc::OPERATION, || {
            let extents = self.validate(stream)?;
            let d = Layout::contiguous(&extents.shape())?;
            self.plan_of_layout(&extents, &d, MatrixDesc::MOST_ALIGN_BYTES.into(), stream)
        })
    }

    /// The kernel that [`run_into`](Self::run_into) would launch, and the other candidates.
    ///
    /// # Errors
    /// See [`Gemm`].
    pub fn plan_into(&self, d: &Tensor<Out>, stream: &Stream) -> Result<Plan> {
        named(GemmDesc::OPERATION, || {
            let extents = self.validate_into(d, stream)?;
            self.plan_of_layout(&extents, d.layout(), d.alignment_bytes(), stream)
        })
    }

    fn plan_of_layout(
        &self,
        extents: &Extents,
        d: &Layout,
        align_bytes: u64,
        stream: &Stream,
    ) -> Result<Plan> {
        if d.is_empty() {
            return Ok(Plan::empty());
        }
        let operands = self.operands(extents, stream)?;
        let desc = |d: &Layout| layout_desc(Out::DTYPE, d, align_bytes, is_by_rows);
        match self.orientation(d) {
            Some(Transpose::T) => {
                let (operands, extents) = (operands.transposed(), extents.transposed());
                self.plan_rows(&operands, &extents, desc(&d.transposed()), stream)
            }
            _ => self.plan_rows(&operands, extents, desc(d), stream),
        }
    }

    fn plan_rows<X: Element, Y: Element>(
        &self,
        operands: &Operands<X, Y, Out>,
        extents: &Extents,
        d: MatrixDesc,
        stream: &Stream,
    ) -> Result<Plan> {
        let desc = operands.describe(extents, d, &self.description())?;
        Plan::of(&desc, self.options.kernel, stream)
    }

    /// `c`, if it is read.
    fn c_read(&self) -> Option<&'a Tensor<Out>> {
        self.options.c.filter(|_| !self.options.beta.is_zero())
    }

    /// Factors in device memory, with their names.
    fn device_factors(&self) -> impl Iterator<Item = (&'static str, &'a Tensor<Out::Factor>)> {
        [
            ("alpha", self.options.alpha.device()),
            ("beta", self.options.beta.device()),
            ("scale_a", self.options.scale_a.device()),
            ("scale_b", self.options.scale_b.device()),
            ("row_scales", self.options.row_scales),
            ("column_scales", self.options.column_scales),
        ]
        .into_iter()
        .filter_map(|(operand, tensor)| Some((operand, tensor?)))
    }

    pub(super) fn validate(&self, stream: &Stream) -> Result<Extents> {
        check::device("a", self.a, stream)?;
        check::device("b", self.b, stream)?;
        let extents = Extents::new(self.a, self.b)?;
        for (operand, tensor) in [("c", self.options.c), ("residual", self.options.residual)] {
            let Some(tensor) = tensor else { continue };
            check::device(operand, tensor, stream)?;
            let shape = extents.shape();
            if tensor.broadcast_to(&shape).is_err() {
                let want = format!("one that broadcasts to {:?}", &*shape);
                return Err(check::shape_mismatch(operand, tensor, want));
            }
        }
        if let Some((axis, bias)) = self.options.bias {
            check::device("bias", bias, stream)?;
            check_bias(bias, axis, &extents)?;
        }
        for (operand, tensor) in self.device_factors() {
            check::device(operand, tensor, stream)?;
            let (want, is_right) = match operand {
                "row_scales" => (format!("[{}]", extents.m), *tensor.shape() == [extents.m]),
                "column_scales" => (format!("[{}]", extents.n), *tensor.shape() == [extents.n]),
                _ => ("one element".into(), tensor.len() == 1),
            };
            if !is_right {
                return Err(check::shape_mismatch(operand, tensor, want));
            }
        }
        self.validate_options(&extents)?;
        Ok(extents)
    }

    /// Refuses what no kernel does with these types.
    fn validate_types(&self) -> Result<()> {
        let is_double = |dtype| dtype == DType::F64;
        let is_integer = Out::DTYPE == DType::I32;
        if is_double(A::DTYPE) != is_double(Out::DTYPE) || (is_integer && A::DTYPE != DType::I8) {
            return unsupported(
                format!("a product of {} written in {}", A::DTYPE, Out::DTYPE),
                "f64 in f64, i8 in i32, f32, f16 or bf16, others in f32, f16 or bf16",
            );
        }
        if !is_double(Out::DTYPE) && !is_integer {
            return Ok(());
        }
        if !matches!(
            self.options.activation,
            Activation::Identity | Activation::Relu
        ) {
            return unsupported(
                format!("{} of a product in {}", self.options.activation, Out::DTYPE),
                "identity, relu; others by `Unary` after it",
            );
        }
        if is_integer {
            return self.validate_integer();
        }
        match self.options.split_k {
            Some(splits @ 2..) => unsupported(
                format!("split_k of {splits} for a product in f64"),
                "1, as its sums have one order",
            ),
            _ => Ok(()),
        }
    }

    /// Refuses scales of results in i32, which are alpha's as integers.
    fn validate_integer(&self) -> Result<()> {
        let is_one =
            |scale: Scalar<'a, Out::Factor>| scale.device().is_none() && scale.host_or_one() == 1.0;
        let has_scales = self.options.row_scales.is_some() || self.options.column_scales.is_some();
        if has_scales || !is_one(self.options.scale_a) || !is_one(self.options.scale_b) {
            return unsupported(
                "scales of a product in i32".into(),
                "alpha, an integer; scales of results in f32, f16 or bf16",
            );
        }
        Ok(())
    }

    fn validate_options(&self, extents: &Extents) -> Result<()> {
        if self.options.came_before_output {
            return Err(Error::value(
                "output",
                "set behind options that have its dtype",
                "set before tensors and factors of the epilogue",
            ));
        }
        self.validate_types()?;
        for (what, scale, scales) in [
            (
                "scale_a_from beside row_scales",
                self.options.scale_a,
                self.options.row_scales,
            ),
            (
                "scale_b_from beside column_scales",
                self.options.scale_b,
                self.options.column_scales,
            ),
        ] {
            if scale.device().is_some() && scales.is_some() {
                return Err(Error::value(
                    what,
                    "two factors from device memory",
                    "one of them, multiplied by the other",
                ));
            }
        }
        let are_taken = [
            (self.options.scale_a, self.options.row_scales),
            (self.options.scale_b, self.options.column_scales),
        ]
        .iter()
        .all(|(scale, scales)| scale.device().is_some() || scales.is_some());
        let known = self.known_scale();
        if are_taken && known != 1.0 && self.options.alpha.device().is_some() {
            return Err(Error::value(
                "scale_a times scale_b beside alpha, row and column scales on the device",
                format!("{:?}", Out::Factor::rounded_from(known)),
                "1, with the factor in one of those",
            ));
        }
        let most = extents.k.max(1);
        match self.options.split_k {
            Some(splits) if splits == 0 || splits as usize > most => Err(Error::value(
                "split_k",
                splits.to_string(),
                format!("1 to {most}, so that each part has some of k"),
            )),
            _ => Ok(()),
        }
    }

    /// What is known on the host of the product of both scales.
    fn known_scale(&self) -> f64 {
        self.options.scale_a.host_or_one() * self.options.scale_b.host_or_one()
    }

    /// A description with the options in it; all else is filled in by [`Operands::describe`].
    pub(super) fn description(&self) -> GemmDesc {
        let matrix = |dtype| MatrixDesc::new(dtype, MatrixLayout::contiguous(&[]), 1);
        let is_f8 = |dtype| matches!(dtype, DType::E4m3 | DType::E5m2);
        GemmDesc {
            m: 0,
            n: 0,
            k: 0,
            batch: 0,
            a: matrix(A::DTYPE),
            b: matrix(B::DTYPE),
            d: matrix(Out::DTYPE),
            c: None,
            residual: None,
            bias: None,
            row_scale: None,
            column_scale: None,
            activation: self.options.activation,
            device_scalars: false,
            precision: match A::DTYPE {
                DType::F32 => self.options.precision,
                _ => Precision::Full,
            },
            fast_accumulation: self.options.fast_accumulation && is_f8(A::DTYPE),
            deterministic: self.options.deterministic,
            batch_invariant: self.options.batch_invariant,
            split_k: self.options.split_k.unwrap_or(0),
        }
    }

    /// All that is read, broadcast to the extents of the result.
    pub(super) fn operands(
        &self,
        extents: &Extents,
        stream: &Stream,
    ) -> Result<Operands<A, B, Out>> {
        let shape = extents.shape();
        let whole = |tensor: Option<&Tensor<Out>>| {
            tensor.map(|tensor| tensor.broadcast_to(&shape)).transpose()
        };
        let scale = |scale: Scalar<'a, Out::Factor>, scales: Option<&Tensor<Out::Factor>>| match (
            scale, scales,
        ) {
            (Scalar::Device(scale), _) => Some((ScaleExtent::One, scale.clone())),
            (Scalar::Host(_), Some(scales)) => Some((ScaleExtent::Each, scales.clone())),
            (Scalar::Host(_), None) => None,
        };
        let mut row_scale = scale(self.options.scale_a, self.options.row_scales);
        let mut column_scale = scale(self.options.scale_b, self.options.column_scales);
        let known = self.known_scale();
        let mut alpha = self.options.alpha.host_or_one() * known;
        if self.options.alpha.device().is_some() && known != 1.0 {
            // The device's alpha takes the place of the host's: the known factor becomes a scale,
            // of which one is free.
            let factor = Out::Factor::rounded_from(known);
            let factor = Some((ScaleExtent::One, Tensor::full(stream, &[1], factor)?));
            match row_scale {
                None => row_scale = factor,
                Some(_) => column_scale = factor,
            }
            alpha = 1.0;
        }
        Ok(Operands {
            a: self.a.clone(),
            b: self.b.clone(),
            c: whole(self.c_read())?,
            residual: whole(self.options.residual)?,
            bias: self.options.bias.map(|(axis, bias)| (axis, bias.clone())),
            row_scale,
            column_scale,
            device_alpha: self.options.alpha.device().cloned(),
            device_beta: self.options.beta.device().cloned(),
            alpha,
            beta: match self.c_read() {
                Some(_) => self.options.beta.host_or_one(),
                None => 0.0,
            },
        })
    }

    /// How a `d` of this layout is written. Rows of a batch-invariant one always become rows of tiles.
    pub(super) fn orientation(&self, d: &Layout) -> Option<Transpose> {
        match self.options.batch_invariant {
            true => by_rows(d).then_some(Transpose::N),
            false => orientation(d),
        }
    }

    /// Launches the validated GEMM, or the transposed one: see [`Self::orientation`].
    fn launch(&self, extents: &Extents, d: &Tensor<Out>, stream: &Stream) -> Result<()> {
        if d.is_empty() {
            return Ok(());
        }
        let operands = self.operands(extents, stream)?;
        match self.orientation(d.layout()) {
            Some(Transpose::N) => self.launch_rows(&operands, extents, d, stream),
            Some(Transpose::T) => {
                let (operands, extents) = (operands.transposed(), extents.transposed());
                self.launch_rows(&operands, &extents, &d.t(), stream)
            }
            None => {
                let rows = Tensor::empty(stream, d.shape())?;
                self.launch_rows(&operands, extents, &rows, stream)?;
                strided_copy(&rows, d, stream)
            }
        }
    }

    /// Launches into a row-major `d`.
    fn launch_rows<X: Element, Y: Element>(
        &self,
        operands: &Operands<X, Y, Out>,
        extents: &Extents,
        d: &Tensor<Out>,
        stream: &Stream,
    ) -> Result<()> {
        let layout = matrix_desc(d, is_by_rows);
        let desc = operands.describe(extents, layout, &self.description())?;
        let (candidate, _) = plan::choose(&desc, self.options.kernel, stream)?;
        let call = operands.call(desc, Memory::of(d), stream)?;
        candidate.launch(&call)
    }
}

#[cold]
fn unsupported(what: String, supported: &'static str) -> Result<()> {
    Err(Error::unsupported(what, supported))
}

/// Checks that the bias is `[extent]` or `[batch or 1, extent]`, with the extent of its axis.
fn check_bias<T: Element>(bias: &Tensor<T>, axis: BiasAxis, extents: &Extents) -> Result<()> {
    let extent = match axis {
        BiasAxis::Row => extents.m,
        BiasAxis::Column => extents.n,
    };
    let batch = extents.batch.unwrap_or(1);
    let is_right = match *bias.shape() {
        [len] => len == extent,
        [of_bias, len] => len == extent && (of_bias == 1 || of_bias == batch),
        _ => false,
    };
    if is_right {
        return Ok(());
    }
    let want = format!("[{extent}] or [{batch}, {extent}]");
    Err(check::shape_mismatch("bias", bias, want))
}

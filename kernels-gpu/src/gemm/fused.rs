//! The built-in epilogue, chosen at run time: see [`spec::gemm::epilogue`].

use cuda_std::element::Element;
use cuda_std::epilogue::{
    Activate, AddMatrix, AddVector, Epilogue, GELU_TANH, Gelu, Logistic, Place, Relu, SIGMOID,
    SILU, Scale, ScaleByVector, TANH,
};
use spec::gemm::{Activation, EpilogueParams, GemmParams};

/// Scales, C, bias, activation and residual, each where it is there.
#[derive(Clone, Copy)]
pub(crate) struct Fused<Out> {
    alpha: f32,
    row_scale: Option<ScaleByVector>,
    column_scale: Option<ScaleByVector>,
    c: Option<AddMatrix<Out>>,
    bias: Option<AddVector<Out>>,
    activation: u32,
    /// The activation where it is one of those of one formula.
    logistic: Logistic,
    residual: Option<AddMatrix<Out>>,
}

/// The pointers among an entry's arguments that an epilogue reads.
#[derive(Clone, Copy)]
pub(crate) struct Pointers<Out> {
    pub(crate) c: *const Out,
    pub(crate) bias: *const Out,
    pub(crate) residual: *const Out,
    pub(crate) row_scale: *const f32,
    pub(crate) column_scale: *const f32,
    pub(crate) alpha: *const f32,
    pub(crate) beta: *const f32,
}

impl<Out: Element> Fused<Out> {
    /// What the arguments of an entry say.
    ///
    /// # Safety
    /// The pointers are null, or point to what [`spec::gemm::epilogue`] says of them.
    #[inline(always)]
    pub(crate) unsafe fn new(
        pointers: Pointers<Out>,
        params: &GemmParams,
        epilogue: &EpilogueParams,
    ) -> Self {
        // SAFETY: the caller's pointers; those that are null are not used.
        unsafe {
            let scalar = |pointer: *const f32, value| {
                if pointer.is_null() {
                    value
                } else {
                    pointer.read()
                }
            };
            let alpha = scalar(pointers.alpha, params.alpha);
            let beta = scalar(pointers.beta, params.beta);
            let Pointers {
                c,
                bias,
                residual,
                row_scale,
                column_scale,
                ..
            } = pointers;
            Self {
                alpha,
                row_scale: (!row_scale.is_null())
                    .then(|| ScaleByVector::new(row_scale, epilogue.row_scale_stride, 0)),
                column_scale: (!column_scale.is_null())
                    .then(|| ScaleByVector::new(column_scale, 0, epilogue.column_scale_stride)),
                c: (beta != 0.0)
                    .then(|| AddMatrix::new(c, params.ldc, params.batch_stride_c, beta)),
                bias: (!bias.is_null()).then(|| {
                    let strides = (epilogue.bias_stride_m, epilogue.bias_stride_n);
                    AddVector::new(bias, strides, epilogue.batch_stride_bias)
                }),
                activation: epilogue.activation,
                logistic: logistic(epilogue.activation),
                residual: (!residual.is_null()).then(|| {
                    let (ld, stride) = (epilogue.ld_residual, epilogue.batch_stride_residual);
                    AddMatrix::new(residual, ld, stride, 1.0)
                }),
            }
        }
    }
}

/// Applies `epilogue` where it is there.
#[inline(always)]
fn maybe<const N: usize>(
    epilogue: &Option<impl Epilogue>,
    place: &impl Fn(usize) -> Place,
    x: &mut [f32; N],
) {
    if let Some(epilogue) = epilogue {
        epilogue.apply_all(place, x);
    }
}

impl<Out: Element> Epilogue for Fused<Out> {
    #[inline(always)]
    fn apply(&self, place: Place, x: f32) -> f32 {
        let mut x = [x];
        self.apply_all(|_| place, &mut x);
        x[0]
    }

    /// Asks once for all results what there is to do, not once for each.
    #[inline(always)]
    fn apply_all<const N: usize>(&self, place: impl Fn(usize) -> Place, x: &mut [f32; N]) {
        Scale(self.alpha).apply_all(&place, x);
        maybe(&self.row_scale, &place, x);
        maybe(&self.column_scale, &place, x);
        maybe(&self.c, &place, x);
        maybe(&self.bias, &place, x);
        const IDENTITY: u32 = Activation::Identity.code();
        const RELU: u32 = Activation::Relu.code();
        const GELU: u32 = Activation::Gelu.code();
        // A chain: a `match` becomes a table of branches, which costs more than three tests.
        if self.activation == IDENTITY {
        } else if self.activation == RELU {
            Activate(Relu).apply_all(&place, x);
        } else if self.activation == GELU {
            Activate(Gelu).apply_all(&place, x);
        } else {
            Activate(self.logistic).apply_all(&place, x);
        }
        maybe(&self.residual, &place, x);
    }
}

/// The activation of that code among those of one formula.
#[inline(always)]
fn logistic(code: u32) -> Logistic {
    const GELU_TANH_CODE: u32 = Activation::GeluTanh.code();
    const SILU_CODE: u32 = Activation::Silu.code();
    const SIGMOID_CODE: u32 = Activation::Sigmoid.code();
    if code == GELU_TANH_CODE {
        GELU_TANH
    } else if code == SILU_CODE {
        SILU
    } else if code == SIGMOID_CODE {
        SIGMOID
    } else {
        TANH
    }
}

//! `+`, `-`, `*`, `/` and the negation of tensors.

use super::{Binary, Chain, ChainElement, Number, Unary};
use crate::{Result, Tensor};
use abi::elementwise::{BinaryOp, UnaryOp};
use std::ops::{Add, Div, Mul, Neg, Sub};

macro_rules! operators {
    ($($operator:ident $method:ident $op:ident $sign:literal;)*) => {$(
        /// Of all elements, with broadcasting:
        #[doc = concat!("`&a ", $sign, " &b` is [`Binary`] on the device's")]
        /// [default stream](crate::Device::default_stream), with its errors. An operator that
        /// assigns could not return them: use [`Binary::run_into`].
        impl<T: ChainElement> $operator<&Tensor<T>> for &Tensor<T> {
            type Output = Result<Tensor<T>>;

            fn $method(self, other: &Tensor<T>) -> Self::Output {
                Binary::new(BinaryOp::$op, self, other).run(&self.device().default_stream())
            }
        }

        /// With one number for all elements: a [`Chain`] on the device's
        /// [default stream](crate::Device::default_stream), with its errors.
        impl<T: ChainElement + Into<Number>> $operator<T> for &Tensor<T> {
            type Output = Result<Tensor<T>>;

            fn $method(self, number: T) -> Self::Output {
                let chain = Chain::new(self).scalar(BinaryOp::$op, number);
                chain.run(&self.device().default_stream())
            }
        }
    )*};
}

operators! {
    Add add Add "+";
    Sub sub Sub "-";
    Mul mul Mul "*";
    Div div Div "/";
}

/// Of all elements: [`Unary`] on the device's
/// [default stream](crate::Device::default_stream), with its errors.
impl<T: ChainElement> Neg for &Tensor<T> {
    type Output = Result<Tensor<T>>;

    fn neg(self) -> Self::Output {
        Unary::new(UnaryOp::Neg, self).run(&self.device().default_stream())
    }
}

//! The steps of functions of scores, and their derivatives, in the holes of kernels.

use super::compose::Writer;
use super::function::{PLACE, Step, derivative_of};
use super::places::At;
use crate::fuse::{Fragment, FuseError, Scalar, Value, builtin_fragment};
use crate::{BinaryOp, Error, Result};

impl Writer<'_> {
    /// A slope times the derivative of a step, whose first value is in slot `value`.
    pub(super) fn derivative(
        &mut self,
        step: &Step,
        (score, slope): (Value, Option<Value>),
        at: &At,
        value: usize,
    ) -> Result<Option<Value>> {
        match step {
            Step::Apply {
                derivative: Some(derivative),
                values,
                ..
            } => {
                let arguments = self.arguments(score, at, values.len(), value, derivative)?;
                let own = self.body.apply(derivative, &arguments)?;
                self.times(slope, own)
            }
            Step::Unary(op) => {
                const KNOWN: Error = Error::Bug("a function without a known derivative");
                let name = derivative_of(*op).ok_or(KNOWN)?;
                let slope = self.or_one(slope);
                Ok(Some(self.apply(name, &[score, slope])?))
            }
            Step::Scalar(op @ (BinaryOp::Mul | BinaryOp::Div), _) => {
                let (scalar, slope) = (self.slot(value, Scalar::F32), self.or_one(slope));
                Ok(Some(self.named(op.name(), &[slope, scalar])?))
            }
            Step::Scalar(..) | Step::Apply { .. } => Ok(slope),
        }
    }

    /// One step of a function, whose first value is in slot `value`.
    pub(super) fn step(
        &mut self,
        step: &Step,
        score: Value,
        at: &At,
        value: &mut usize,
    ) -> Result<Value> {
        match step {
            Step::Apply {
                fragment, values, ..
            } => {
                let arguments = self.arguments(score, at, values.len(), *value, fragment)?;
                *value += values.len();
                Ok(self.body.apply(fragment, &arguments)?)
            }
            Step::Unary(op) => self.named(op.name(), &[score]),
            Step::Scalar(op, _) => {
                let scalar = self.slot(*value, Scalar::F32);
                *value += 1;
                self.named(op.name(), &[score, scalar])
            }
        }
    }

    /// A function of the library, by its name.
    fn named(&mut self, name: &str, arguments: &[Value]) -> Result<Value> {
        let fragment = builtin_fragment(&format!("f32_{name}"), self.arch)?;
        Ok(self.body.apply(&fragment, arguments)?)
    }

    /// What a fragment of scores takes.
    fn arguments(
        &mut self,
        score: Value,
        at: &At,
        count: usize,
        first: usize,
        fragment: &Fragment,
    ) -> Result<Vec<Value>, FuseError> {
        let mut arguments = vec![score, at.batch, at.head, at.query, at.key];
        let params = fragment.params().iter().skip(PLACE.len());
        for (slot, scalar) in (first..first + count).zip(params) {
            arguments.push(self.slot(slot, *scalar));
        }
        Ok(arguments)
    }
}

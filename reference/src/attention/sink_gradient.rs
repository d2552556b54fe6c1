//! The gradient of a head's sink.

use super::AttentionGradModel;
use crate::precision::{ETA32, TINY32, U32, gamma};

/// `-sum exp(sink - lse) * delta` over queries of a head, and what its bound is made of.
#[derive(Clone, Copy)]
pub(super) struct SinkSum {
    sink: f64,
    value: f64,
    /// Errors of the terms.
    errors: f64,
    /// `sum |term| + error`.
    magnitude: f64,
    terms: usize,
}

impl SinkSum {
    /// That of no query.
    pub(super) fn new(sink: f64) -> Self {
        Self {
            sink,
            value: 0.0,
            errors: 0.0,
            magnitude: 0.0,
            terms: 0,
        }
    }

    /// Adds a query with this lse, which is not -inf, and delta with its error.
    pub(super) fn add(&mut self, lse: f64, delta: (f64, f64), model: &AttentionGradModel) {
        let exponent = self.sink - lse;
        let p = exponent.exp();
        let exponential = 1.0 + model.exp_ulps * 2.0 * U32;
        // exp(-inf) is 0 without error; 0 * inf would make it NaN.
        let p_error = if p == 0.0 {
            TINY32
        } else {
            p * ((U32 * exponent.abs()).exp() * exponential - 1.0) + TINY32
        };
        let term = p * delta.0;
        let error = p_error * (delta.0.abs() + delta.1) + p * delta.1;
        self.value -= term;
        self.errors += error;
        self.magnitude += term.abs() + error;
        self.terms += 1;
    }

    /// The sum of both, which are of one head.
    pub(super) fn and(self, other: &Self) -> Self {
        Self {
            sink: self.sink,
            value: self.value + other.value,
            errors: self.errors + other.errors,
            magnitude: self.magnitude + other.magnitude,
            terms: self.terms + other.terms,
        }
    }

    /// The gradient and its error.
    pub(super) fn finish(&self, model: &AttentionGradModel) -> (f64, f64) {
        let roundings = self.terms.min(model.sink_additions);
        // What is lost of products that are subnormal; sums that are lose nothing.
        let lost = self.terms as f64 * ETA32;
        (
            self.value,
            self.errors + gamma(roundings) * self.magnitude + lost,
        )
    }
}

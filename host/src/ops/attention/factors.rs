//! Factors of the scores.

use super::Attention;
use super::extents::Extents;
use crate::{Element, Error, Float, Result};
use std::f64::consts::LOG2_E;

/// Factors of the scores, in the form that kernels take.
pub(in crate::ops) struct Factors {
    /// The factor itself, whether there is a softcap or not.
    pub(in crate::ops) softmax_scale: f32,
    pub(in crate::ops) softmax_scale_log2: f32,
    pub(in crate::ops) softcap_scale: f32,
}

impl Factors {
    /// Those of kernels whose scores are changed, and scaled and capped with that.
    fn scored(softmax_scale: f32) -> Self {
        Self {
            softmax_scale,
            softmax_scale_log2: LOG2_E as f32,
            softcap_scale: 0.0,
        }
    }
}

impl<T: Float, Out: Float, Kv: Element> Attention<'_, T, Out, Kv> {
    /// The factors of the call.
    pub(super) fn factors(&self, extents: &Extents) -> Result<Factors> {
        let scale = match self.options.softmax_scale {
            Some(scale) => f64::from(scale),
            None => 1.0 / (extents.head_dim.max(1) as f64).sqrt(),
        };
        if !((scale * LOG2_E) as f32).is_finite() {
            return Err(Error::value(
                "softmax_scale",
                format!("{:?}", scale as f32),
                format!("a finite number, of magnitude up to {MOST_FACTOR:e}"),
            ));
        }
        let has_softcap = self.options.softcap.is_some();
        let is_scored = self.options.scores.changes(scale as f32, has_softcap);
        let Some(softcap) = self.options.softcap else {
            if is_scored {
                return Ok(Factors::scored(scale as f32));
            }
            return Ok(Factors {
                softmax_scale: scale as f32,
                softmax_scale_log2: (scale * LOG2_E) as f32,
                softcap_scale: 0.0,
            });
        };
        let factors = Factors {
            softmax_scale: scale as f32,
            softmax_scale_log2: (f64::from(softcap) * LOG2_E) as f32,
            softcap_scale: (scale / f64::from(softcap)) as f32,
        };
        let fits = softcap > 0.0
            && factors.softmax_scale_log2.is_finite()
            && factors.softcap_scale.is_finite();
        if !fits {
            return Err(Error::value(
                "softcap",
                format!("{softcap:?}"),
                format!(
                    "a number above 0, up to {MOST_FACTOR:e}, that softmax_scale {:?} can be \
                     divided by; leave softcap out for none",
                    scale as f32
                ),
            ));
        }
        if is_scored {
            return Ok(Factors::scored(scale as f32));
        }
        if factors.softcap_scale == 0.0 {
            // Kernels take 0 for no softcap, so express it by a scale of 0: all scores are 0.
            return Ok(Factors {
                softmax_scale_log2: 0.0,
                softcap_scale: 0.0,
                ..factors
            });
        }
        Ok(factors)
    }
}

/// Largest scale that stays finite after multiplication by log2(e), rounded down.
const MOST_FACTOR: f32 = 2.35e38;

//! Scales of keys and values in e4m3.

use super::Attention;
use super::call::{Memory, Scales};
use super::extents::Extents;
use crate::ops::check;
use crate::{Element, Float, Result, Stream, Tensor};

impl<T: Float, Out: Float, Kv: Element> Attention<'_, T, Out, Kv> {
    /// The factors, with their names.
    fn scales(&self) -> [(&'static str, Option<&Tensor<f32>>); 2] {
        [
            ("k_scale", self.options.k_scale),
            ("v_scale", self.options.v_scale),
        ]
    }

    /// Checks the shapes of the factors.
    pub(super) fn check_scales(&self, extents: &Extents, stream: &Stream) -> Result<()> {
        for (name, scale) in self.scales() {
            let Some(scale) = scale else { continue };
            check::device(name, scale, stream)?;
            let Extents {
                batch, heads_kv, ..
            } = *extents;
            let fits = match *scale.shape() {
                [] | [1] => true,
                [heads] => heads == heads_kv,
                [batches, heads] => (batches, heads) == (batch, heads_kv),
                _ => false,
            };
            if !fits {
                let want = format!("one element, [{heads_kv}] or [{batch}, {heads_kv}]");
                return Err(check::shape_mismatch(name, scale, want));
            }
        }
        Ok(())
    }

    /// The memory of the factors, and their strides between sequences and key heads.
    pub(super) fn call_scales(
        &self,
        extents: &Extents,
        stream: &Stream,
    ) -> Result<[Option<Scales>; 2]> {
        let of = |scale: Option<&Tensor<f32>>| -> Result<Option<Scales>> {
            let Some(scale) = scale else {
                return Ok(None);
            };
            let dense = scale.contiguous(stream)?;
            let strides = match *scale.shape() {
                [_, heads] => [heads as i64, 1],
                [heads] if heads == extents.heads_kv => [0, i64::from(heads > 1)],
                _ => [0, 0],
            };
            Ok(Some((Memory::of(&dense), strides)))
        };
        let [(_, k), (_, v)] = self.scales();
        Ok([of(k)?, of(v)?])
    }
}

//! Extents in x, y, z.

use std::fmt;

use anyhow::{Result, ensure};
use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// `5`, `[5]`, `[5, 2]` or `[5, 2, 1]`; missing extents are 1.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extents(pub(super) [u32; 3]);

impl<'de> Deserialize<'de> for Extents {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ExtentsVisitor)
    }
}

struct ExtentsVisitor;

impl<'de> Visitor<'de> for ExtentsVisitor {
    type Value = Extents;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("one to three extents: `4`, `[4, 2]` or `[4, 2, 1]`")
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Extents, E> {
        match u32::try_from(value) {
            Ok(x) => Ok(Extents([x, 1, 1])),
            Err(_) => Err(E::invalid_value(de::Unexpected::Signed(value), &self)),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Extents, A::Error> {
        let mut extents = [1; 3];
        let mut count = 0;
        while let Some(extent) = items.next_element()? {
            *extents
                .get_mut(count)
                .ok_or_else(|| de::Error::invalid_length(count + 1, &self))? = extent;
            count += 1;
        }
        if count == 0 {
            return Err(de::Error::invalid_length(0, &self));
        }
        Ok(Extents(extents))
    }
}

/// Checks that no extent is 0.
pub(super) fn positive(key: &str, extents: Extents) -> Result<[u32; 3]> {
    let Extents(extents) = extents;
    ensure!(
        !extents.contains(&0),
        "{key}: {extents:?} has an extent of 0; each is at least 1"
    );
    Ok(extents)
}

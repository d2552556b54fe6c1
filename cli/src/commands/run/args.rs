//! Arguments of the kernel, as described by `launch.toml`.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use warpsmith::TensorMap;

/// One argument of the kernel.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Arg {
    /// Address of the buffer with this name.
    Buffer(String),
    /// The tensor map with this name: a pointer to its 128 bytes, or those bytes.
    Map(String),
    U32(u32),
    I32(i32),
    U64(u64),
    I64(i64),
    F32(#[serde(deserialize_with = "single")] f32),
    F64(f64),
    /// A struct by value: fields laid out as `#[repr(C)]` does.
    Struct(Vec<Field>),
}

/// A field of [`Arg::Struct`].
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Field {
    U32(u32),
    I32(i32),
    U64(u64),
    I64(i64),
    F32(#[serde(deserialize_with = "single")] f32),
    F64(f64),
}

/// A number as f32; a finite one stays finite.
fn single<'de, D: Deserializer<'de>>(value: D) -> Result<f32, D::Error> {
    let value = f64::deserialize(value)?;
    let single = value as f32;
    match single.is_infinite() && value.is_finite() {
        true => Err(D::Error::custom(format!("{value:e} is too large for f32"))),
        false => Ok(single),
    }
}

impl Arg {
    /// The bytes of a value; `None` for a buffer or map, which need a device.
    pub(super) fn bytes(&self) -> Option<Vec<u8>> {
        Some(match self {
            Arg::Buffer(_) | Arg::Map(_) => return None,
            Arg::U32(value) => value.to_le_bytes().into(),
            Arg::I32(value) => value.to_le_bytes().into(),
            Arg::U64(value) => value.to_le_bytes().into(),
            Arg::I64(value) => value.to_le_bytes().into(),
            Arg::F32(value) => value.to_le_bytes().into(),
            Arg::F64(value) => value.to_le_bytes().into(),
            Arg::Struct(fields) => laid_out(fields),
        })
    }

    /// Sizes in bytes of the parameters that it can fill.
    pub(super) fn sizes_bytes(&self) -> Vec<u64> {
        match (self, self.bytes()) {
            (Arg::Map(_), _) => vec![size_of::<u64>() as u64, TensorMap::BYTES as u64],
            (_, None) => vec![size_of::<u64>() as u64],
            (_, Some(bytes)) => vec![bytes.len() as u64],
        }
    }

    /// Its key in the file.
    pub(super) fn key(&self) -> &'static str {
        match self {
            Arg::Buffer(_) => "buffer",
            Arg::Map(_) => "map",
            Arg::U32(_) => "u32",
            Arg::I32(_) => "i32",
            Arg::U64(_) => "u64",
            Arg::I64(_) => "i64",
            Arg::F32(_) => "f32",
            Arg::F64(_) => "f64",
            Arg::Struct(_) => "struct",
        }
    }
}

/// Fields one after the other, each aligned to its size; padding is zero.
fn laid_out(fields: &[Field]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut largest = 1;
    for field in fields {
        let value: Vec<u8> = match field {
            Field::U32(value) => value.to_le_bytes().into(),
            Field::I32(value) => value.to_le_bytes().into(),
            Field::U64(value) => value.to_le_bytes().into(),
            Field::I64(value) => value.to_le_bytes().into(),
            Field::F32(value) => value.to_le_bytes().into(),
            Field::F64(value) => value.to_le_bytes().into(),
        };
        largest = largest.max(value.len());
        bytes.resize(bytes.len().next_multiple_of(value.len()), 0);
        bytes.extend(value);
    }
    bytes.resize(bytes.len().next_multiple_of(largest), 0);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_struct_is_padded_as_c_does() {
        let arg = Arg::Struct(vec![Field::U32(1), Field::F64(-0.5), Field::I32(-1)]);
        let mut want = vec![1, 0, 0, 0, 0, 0, 0, 0];
        want.extend((-0.5_f64).to_le_bytes());
        want.extend([0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]);
        assert_eq!(arg.bytes(), Some(want));
    }
}

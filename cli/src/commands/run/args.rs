//! Arguments of the kernel, as described by `launch.toml`.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use warpsmith::TensorMap;

/// Alignment of a tensor map in a struct, in bytes.
const MAP_ALIGN: usize = 64;

/// One argument of the kernel, or a field of a struct.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Arg {
    /// An address in a buffer.
    Buffer(Pointer),
    /// The tensor map with this name: a pointer to its 128 bytes, or those bytes. In a struct, those
    /// bytes.
    Map(String),
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    U64(u64),
    I64(i64),
    F32(#[serde(deserialize_with = "single")] f32),
    F64(f64),
    /// A struct by value: fields laid out as `#[repr(C)]` does.
    Struct(Vec<Arg>),
}

/// The start of the buffer with this name, or a place in it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(
    untagged,
    expecting = "a buffer is a name, or { name = \"x\", offset_bytes = 16 }"
)]
pub(super) enum Pointer {
    Start(String),
    Place { name: String, offset_bytes: u64 },
}

impl Pointer {
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Start(name) | Self::Place { name, .. } => name,
        }
    }

    pub(super) fn offset_bytes(&self) -> u64 {
        match self {
            Self::Start(_) => 0,
            Self::Place { offset_bytes, .. } => *offset_bytes,
        }
    }
}

/// What the names in arguments stand for on a device.
pub(super) trait Places {
    fn address(&self, pointer: &Pointer) -> u64;
    fn map(&self, name: &str) -> [u8; TensorMap::BYTES];
}

/// Before there is a device: all is zero.
struct Nowhere;

impl Places for Nowhere {
    fn address(&self, _: &Pointer) -> u64 {
        0
    }

    fn map(&self, _: &str) -> [u8; TensorMap::BYTES] {
        [0; TensorMap::BYTES]
    }
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
    /// Its bytes by value.
    pub(super) fn bytes(&self, places: &dyn Places) -> Vec<u8> {
        self.laid_out(places).0
    }

    /// Its bytes and their alignment. Fields of a struct follow one another, each aligned; padding
    /// is zero.
    fn laid_out(&self, places: &dyn Places) -> (Vec<u8>, usize) {
        let bytes: Vec<u8> = match self {
            Self::Buffer(pointer) => places.address(pointer).to_le_bytes().into(),
            Self::Map(name) => return (places.map(name).into(), MAP_ALIGN),
            Self::U8(value) => value.to_le_bytes().into(),
            Self::I8(value) => value.to_le_bytes().into(),
            Self::U16(value) => value.to_le_bytes().into(),
            Self::I16(value) => value.to_le_bytes().into(),
            Self::U32(value) => value.to_le_bytes().into(),
            Self::I32(value) => value.to_le_bytes().into(),
            Self::U64(value) => value.to_le_bytes().into(),
            Self::I64(value) => value.to_le_bytes().into(),
            Self::F32(value) => value.to_le_bytes().into(),
            Self::F64(value) => value.to_le_bytes().into(),
            Self::Struct(fields) => {
                let (mut bytes, mut largest) = (Vec::<u8>::new(), 1);
                for field in fields {
                    let (own, align) = field.laid_out(places);
                    bytes.resize(bytes.len().next_multiple_of(align), 0);
                    bytes.extend(own);
                    largest = largest.max(align);
                }
                bytes.resize(bytes.len().next_multiple_of(largest), 0);
                return (bytes, largest);
            }
        };
        let align = bytes.len();
        (bytes, align)
    }

    /// Sizes in bytes of the parameters that it can fill.
    pub(super) fn sizes_bytes(&self) -> Vec<u64> {
        let own = self.bytes(&Nowhere).len() as u64;
        match self {
            Self::Map(_) => vec![size_of::<u64>() as u64, own],
            _ => vec![own],
        }
    }

    /// It, or its fields and theirs.
    pub(super) fn leaves(&self) -> Vec<&Self> {
        match self {
            Self::Struct(fields) => fields.iter().flat_map(Self::leaves).collect(),
            leaf => vec![leaf],
        }
    }

    /// Its key in the file.
    pub(super) fn key(&self) -> &'static str {
        match self {
            Self::Buffer(_) => "buffer",
            Self::Map(_) => "map",
            Self::U8(_) => "u8",
            Self::I8(_) => "i8",
            Self::U16(_) => "u16",
            Self::I16(_) => "i16",
            Self::U32(_) => "u32",
            Self::I32(_) => "i32",
            Self::U64(_) => "u64",
            Self::I64(_) => "i64",
            Self::F32(_) => "f32",
            Self::F64(_) => "f64",
            Self::Struct(_) => "struct",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_struct_is_padded_as_c_does() {
        let arg = Arg::Struct(vec![Arg::U32(1), Arg::F64(-0.5), Arg::I32(-1)]);
        let mut want = vec![1, 0, 0, 0, 0, 0, 0, 0];
        want.extend((-0.5_f64).to_le_bytes());
        want.extend([0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]);
        assert_eq!(arg.bytes(&Nowhere), want);
        let inner = Arg::Struct(vec![Arg::U8(2), Arg::I16(-3)]);
        let arg = Arg::Struct(vec![Arg::I8(-1), inner, Arg::U16(4), Arg::Struct(vec![])]);
        assert_eq!(arg.bytes(&Nowhere), [0xff, 0, 2, 0, 0xfd, 0xff, 4, 0]);
        let pointer = Arg::Buffer(Pointer::Start("x".into()));
        assert_eq!(Arg::Struct(vec![Arg::U8(1), pointer]).sizes_bytes(), [16]);
        assert_eq!(
            Arg::Struct(vec![Arg::U8(1), Arg::Map("m".into())]).sizes_bytes(),
            [192]
        );
    }
}

//! The rules of the driver's cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col, for maps without
//! interleave.

use super::{Fill, Im2col, TENSOR_MAP_RANK, TensorMapDesc, TensorMapType};

/// Why a tensor map cannot be encoded or decoded: the value and the rule that it breaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TensorMapError {
    /// Too few or too many dimensions.
    #[error("dims: a tensor of {got} dimensions, want {least} to {TENSOR_MAP_RANK}")]
    Rank {
        /// Dimensions given.
        got: usize,
        /// Fewest dimensions that are allowed.
        least: usize,
    },
    /// A list whose length does not fit the number of dimensions.
    #[error("{what}: {got} values, want {want} for {rank} dimensions")]
    Count {
        /// The list.
        what: &'static str,
        /// Values given.
        got: usize,
        /// Values wanted.
        want: usize,
        /// Dimensions of the tensor.
        rank: usize,
    },
    /// An address that is not aligned.
    #[error("address: 0x{got:x} is not a multiple of 16")]
    Address {
        /// The address.
        got: u64,
    },
    /// A value outside of its range.
    #[error("{what}[{index}]: {got}, want {want}")]
    Value {
        /// The list.
        what: &'static str,
        /// Index of the value in the list.
        index: usize,
        /// The value.
        got: i64,
        /// The values that are allowed.
        want: &'static str,
    },
    /// The innermost extent of the box is not a multiple of 16 bytes.
    #[error(
        "box[0]: {got} elements of {element} bytes are {} bytes, want a multiple of 16",
        u64::from(*.got) * .element
    )]
    InnerBox {
        /// Elements of the box's innermost dimension.
        got: u32,
        /// Bytes of an element.
        element: u64,
    },
    /// The innermost extent of the box is larger than the swizzle's span.
    #[error(
        "box[0]: {got} elements of {element} bytes are {} bytes, want at most the swizzle's {span}",
        u64::from(*.got) * .element
    )]
    SwizzledBox {
        /// Elements of the box's innermost dimension.
        got: u32,
        /// Bytes of an element.
        element: u64,
        /// Bytes of the swizzle's span.
        span: u64,
    },
    /// A NaN fill for a type that has no NaN.
    #[error("fill: NaN for elements of type {got:?}, want a float type or zeros")]
    Fill {
        /// The type.
        got: TensorMapType,
    },
    /// The bytes are not a tensor map of the emulator.
    #[error("the 128 bytes are not a tensor map")]
    NotAMap,
}

type Checked = Result<(), TensorMapError>;

impl TensorMapDesc {
    pub(super) fn check(&self, im2col: Option<&Im2col>) -> Checked {
        let rank = self.dims.len();
        let least = if im2col.is_some() { 3 } else { 1 };
        if !(least..=TENSOR_MAP_RANK).contains(&rank) {
            return Err(TensorMapError::Rank { got: rank, least });
        }
        if !self.address.is_multiple_of(16) {
            return Err(TensorMapError::Address { got: self.address });
        }
        let count = |what, got, want| match got == want {
            true => Ok(()),
            false => Err(TensorMapError::Count {
                what,
                got,
                want,
                rank,
            }),
        };
        count("strides_bytes", self.strides_bytes.len(), rank - 1)?;
        let boxes = if im2col.is_some() { 0 } else { rank };
        count("box", self.box_dims.len(), boxes)?;
        count("element_strides", self.element_strides.len(), rank)?;
        each("dims", &self.dims, "1 to 2^32", |dim| {
            (1..=1 << 32).contains(&dim)
        })?;
        each(
            "strides_bytes",
            &self.strides_bytes,
            "a multiple of 16",
            |stride| stride.is_multiple_of(16),
        )?;
        each(
            "strides_bytes",
            &self.strides_bytes,
            "less than 2^40",
            |stride| stride < 1 << 40,
        )?;
        each(
            "element_strides",
            &self.element_strides,
            "1 to 8",
            |stride| (1..=8).contains(&stride),
        )?;
        each("box", &self.box_dims, "1 to 256", |extent| {
            (1..=256).contains(&extent)
        })?;
        match im2col {
            None => self.check_row(self.box_dims[0])?,
            Some(im2col) => self.check_im2col(im2col)?,
        }
        match self.fill {
            Fill::Nan if !self.data_type.is_float() => Err(TensorMapError::Fill {
                got: self.data_type,
            }),
            _ => Ok(()),
        }
    }

    /// Checks a row of `got` elements of the box, as it lies in shared memory.
    fn check_row(&self, got: u32) -> Checked {
        let element = self.data_type.bytes();
        let bytes = u64::from(got) * element;
        if !bytes.is_multiple_of(16) {
            return Err(TensorMapError::InnerBox { got, element });
        }
        match self.swizzle.span() {
            Some(span) if bytes > span => Err(TensorMapError::SwizzledBox { got, element, span }),
            _ => Ok(()),
        }
    }

    fn check_im2col(&self, im2col: &Im2col) -> Checked {
        let rank = self.dims.len();
        let (limit, want) = match rank {
            3 => (1 << 15, "-32768 to 32767"),
            4 => (1 << 7, "-128 to 127"),
            _ => (1 << 4, "-16 to 15"),
        };
        for (what, corner) in [
            ("lower_corner", &im2col.lower_corner),
            ("upper_corner", &im2col.upper_corner),
        ] {
            if corner.len() != rank - 2 {
                return Err(TensorMapError::Count {
                    what,
                    got: corner.len(),
                    want: rank - 2,
                    rank,
                });
            }
            each(what, corner, want, |at| (-limit..limit).contains(&at))?;
        }
        each(
            "channels_per_pixel",
            &[im2col.channels_per_pixel],
            "1 to 256",
            |channels| (1..=256).contains(&channels),
        )?;
        each(
            "pixels_per_column",
            &[im2col.pixels_per_column],
            "1 to 1024",
            |pixels| (1..=1024).contains(&pixels),
        )?;
        self.check_row(im2col.channels_per_pixel)
    }
}

/// Checks that every value of a list keeps a rule.
fn each<T: Copy + TryInto<i64>>(
    what: &'static str,
    values: &[T],
    want: &'static str,
    is_right: impl Fn(T) -> bool,
) -> Checked {
    match values.iter().position(|value| !is_right(*value)) {
        None => Ok(()),
        Some(index) => Err(TensorMapError::Value {
            what,
            index,
            got: values[index].try_into().unwrap_or(i64::MAX),
            want,
        }),
    }
}

//! The driver's rules for tensor maps without interleave. They are checked here, so that a GPU and
//! the emulator refuse the same maps with the same messages. The emulator's own encoder repeats
//! them for users of the emulator crate alone; a test compares the two.

use super::{Im2col, TensorMapDesc, TensorMapFill};
use crate::error::{ArgumentError, Error, Result};

/// Most dimensions of a tensor map.
const MAX_RANK: usize = 5;

impl TensorMapDesc {
    /// Checks every value against the rules.
    pub(super) fn check(&self, address: u64) -> Result<()> {
        let rank = self.dims.len();
        let (least, boxes) = match self.im2col {
            Some(_) => (3, 0),
            None => (1, rank),
        };
        if !(least..=MAX_RANK).contains(&rank) {
            return refuse("number of dims", rank, format!("{least} to {MAX_RANK}"));
        }
        if !address.is_multiple_of(16) {
            return refuse("address", format!("0x{address:x}"), "a multiple of 16");
        }
        for (what, got, want) in [
            ("strides_bytes", self.strides_bytes.len(), rank - 1),
            ("box", self.box_dims.len(), boxes),
            ("element_strides", self.element_strides.len(), rank),
        ] {
            count(what, got, want, rank)?;
        }
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
        match &self.im2col {
            None => self.check_row(self.box_dims[0])?,
            Some(im2col) => self.check_im2col(im2col)?,
        }
        if self.fill == TensorMapFill::Nan && !self.data_type.is_float() {
            let got = format!("NaN for elements of type {:?}", self.data_type);
            return refuse("fill", got, "zeros, or a float type");
        }
        Ok(())
    }

    /// Checks the innermost box extent, which is a row of `elements` elements in shared memory.
    fn check_row(&self, elements: u32) -> Result<()> {
        let bytes = u64::from(elements) * self.data_type.size_bytes();
        let got = || {
            let element = self.data_type.size_bytes();
            format!("{elements} elements of {element} bytes, {bytes} bytes")
        };
        if !bytes.is_multiple_of(16) {
            return refuse("box[0]", got(), "a multiple of 16 bytes");
        }
        match self.swizzle.span_bytes() {
            Some(span) if bytes > span => refuse(
                "box[0]",
                got(),
                format!("at most the {span} bytes of the swizzle"),
            ),
            _ => Ok(()),
        }
    }

    fn check_im2col(&self, im2col: &Im2col) -> Result<()> {
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
            count(what, corner.len(), rank - 2, rank)?;
            each(what, corner, want, |at| (-limit..limit).contains(&at))?;
        }
        let (channels, pixels) = (im2col.channels_per_pixel, im2col.pixels_per_column);
        if !(1..=256).contains(&channels) {
            return refuse("channels_per_pixel", channels, "1 to 256");
        }
        if !(1..=1024).contains(&pixels) {
            return refuse("pixels_per_column", pixels, "1 to 1024");
        }
        self.check_row(channels)
    }
}

fn count(what: &'static str, got: usize, want: usize, rank: usize) -> Result<()> {
    if got == want {
        return Ok(());
    }
    let want = format!("{want} values for {rank} dimensions");
    refuse(what, format!("{got} values"), want)
}

/// Checks that every value of a list satisfies `is_right`.
fn each<T: Copy + ToString>(
    what: &str,
    values: &[T],
    want: &str,
    is_right: impl Fn(T) -> bool,
) -> Result<()> {
    match values.iter().position(|value| !is_right(*value)) {
        None => Ok(()),
        Some(index) => refuse(&format!("{what}[{index}]"), values[index], want),
    }
}

#[cold]
fn refuse(what: &str, got: impl ToString, want: impl ToString) -> Result<()> {
    Err(Error::Argument(ArgumentError::TensorMap {
        what: what.into(),
        got: got.to_string().into(),
        want: want.to_string().into(),
    }))
}

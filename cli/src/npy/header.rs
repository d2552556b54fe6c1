//! The header of a `.npy` file: a magic string, a version, and a Python dictionary literal.

use std::io::Read;

use anyhow::{Context, Result, bail, ensure};

use super::FloatType;
use super::source::Source;

pub(super) const MAGIC: &[u8] = b"\x93NUMPY";

/// Headers are padded so that the data starts at a multiple of this.
const ALIGNMENT: usize = 64;

/// Longest header that is read: more than version 1 can have, and NumPy itself writes a few hundred
/// bytes.
const MAX_BYTES: u32 = 1 << 20;

/// Most dimensions that NumPy allows.
const MAX_RANK: usize = 64;

/// The contents of a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) dtype: FloatType,
    pub(super) order: ByteOrder,
    /// Whether the first index varies fastest.
    pub(super) is_fortran: bool,
    pub(super) shape: Vec<usize>,
}

/// Byte order of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ByteOrder {
    Little,
    Big,
}

impl Header {
    /// Number of elements.
    pub(super) fn elements(&self) -> Result<usize> {
        // An extent of 0 counts as 1 here: the other extents must not overflow either.
        let product = self
            .shape
            .iter()
            .filter(|&&extent| extent != 0)
            .try_fold(1usize, |n, &extent| n.checked_mul(extent))
            .filter(|&n| isize::try_from(n).is_ok());
        let product = product.with_context(|| {
            format!(
                "shape {:?} is too large, want at most 2^63 - 1 elements",
                self.shape
            )
        })?;
        Ok(if self.shape.contains(&0) { 0 } else { product })
    }

    /// Of an array of floats.
    pub(super) fn parse(text: &str) -> Result<Self> {
        Self::of(text, float)
    }

    /// Of an array of floats, or of integers that f64 represents.
    pub(super) fn parse_numbers(text: &str) -> Result<Self> {
        let number = |kind: &str| match kind.trim_start_matches('|') {
            "i1" => Some(FloatType::I8),
            "i4" => Some(FloatType::I32),
            _ => float(kind),
        };
        Self::of(text, number)
    }

    fn of(text: &str, known: impl Fn(&str) -> Option<FloatType>) -> Result<Self> {
        let entries = Entries::parse(text)?;
        let (dtype, order) = dtype(entries.descr, known)?;
        Ok(Self {
            dtype,
            order,
            is_fortran: entries.is_fortran,
            shape: entries.shape,
        })
    }
}

/// Reads the text of a file's header, and no further.
pub(super) fn text(source: &mut Source<impl Read>) -> Result<String> {
    ensure!(source.up_to(MAGIC.len())? == MAGIC, "not a .npy file");
    let [major, _minor] = source.array()?;
    let length = match major {
        1 => u32::from(u16::from_le_bytes(source.array()?)),
        2 | 3 => u32::from_le_bytes(source.array()?),
        other => bail!("format version {other} is not known; known are 1, 2 and 3"),
    };
    ensure!(
        length <= MAX_BYTES,
        "the header has {length} bytes; at most {MAX_BYTES} are read"
    );
    let bytes = source.up_to(length as usize)?;
    ensure!(bytes.len() == length as usize, "the header is cut off");
    String::from_utf8(bytes).context("the header is not text")
}

/// The dictionary of a header, with the element type as text.
pub(super) struct Entries<'a> {
    pub(super) descr: &'a str,
    pub(super) is_fortran: bool,
    pub(super) shape: Vec<usize>,
}

impl<'a> Entries<'a> {
    pub(super) fn parse(text: &'a str) -> Result<Self> {
        let mut literal = Literal(text.trim());
        let (mut descr, mut fortran, mut shape) = (None, None, None);
        literal.expect('{')?;
        while !literal.skip('}') {
            let key = literal.string()?;
            literal.expect(':')?;
            match key {
                "descr" => descr = Some(literal.string()?),
                "fortran_order" => fortran = Some(literal.boolean()?),
                "shape" => shape = Some(literal.tuple()?),
                other => bail!("the header has an unknown entry '{other}'"),
            }
            if !literal.skip(',') {
                literal.expect('}')?;
                break;
            }
        }
        ensure!(
            literal.0.is_empty(),
            "the header goes on after its end: {}",
            literal.ahead()
        );
        Ok(Self {
            descr: descr.context("the header has no 'descr'")?,
            is_fortran: fortran.context("the header has no 'fortran_order'")?,
            shape: shape.context("the header has no 'shape'")?,
        })
    }
}

/// The type of that name, without the byte order.
fn float(kind: &str) -> Option<FloatType> {
    match kind {
        "f2" => Some(FloatType::F16),
        "f4" => Some(FloatType::F32),
        "f8" => Some(FloatType::F64),
        _ => None,
    }
}

fn dtype(descr: &str, known: impl Fn(&str) -> Option<FloatType>) -> Result<(FloatType, ByteOrder)> {
    let (order, kind) = match descr.as_bytes().first() {
        Some(b'<') => (ByteOrder::Little, &descr[1..]),
        Some(b'>') => (ByteOrder::Big, &descr[1..]),
        _ => (ByteOrder::Little, descr),
    };
    let dtype = known(kind).with_context(|| {
        format!(
            "elements are of type '{descr}'; want f16, f32 or f64 ('<f2', '<f4', '<f8'); convert \
             with numpy's astype"
        )
    })?;
    Ok((dtype, order))
}

/// The unparsed rest of a Python literal of strings, booleans and tuples of integers.
struct Literal<'a>(&'a str);

impl<'a> Literal<'a> {
    /// The next characters for an error message; only a few, since the file may contain anything.
    fn ahead(&self) -> String {
        const SHOWN: usize = 40;
        match self.0.char_indices().nth(SHOWN) {
            Some((end, _)) => format!("{}..", &self.0[..end]),
            None => self.0.to_owned(),
        }
    }

    fn skip(&mut self, token: char) -> bool {
        match self.0.strip_prefix(token) {
            Some(rest) => {
                self.0 = rest.trim_start();
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, token: char) -> Result<()> {
        let found = self.skip(token);
        ensure!(
            found,
            "the header is not as numpy writes it: expected `{token}` at `{}`",
            self.ahead()
        );
        Ok(())
    }

    fn string(&mut self) -> Result<&'a str> {
        let quote = if self.0.starts_with('"') { '"' } else { '\'' };
        self.0 = self.0.strip_prefix(quote).with_context(|| {
            // A list here is a structured dtype.
            format!(
                "the header is not that of an array of floats: a string expected at `{}`",
                self.ahead()
            )
        })?;
        let (text, rest) = self
            .0
            .split_once(quote)
            .context("a string in the header has no end")?;
        self.0 = rest.trim_start();
        Ok(text)
    }

    fn boolean(&mut self) -> Result<bool> {
        for (word, value) in [("True", true), ("False", false)] {
            if let Some(rest) = self.0.strip_prefix(word) {
                self.0 = rest.trim_start();
                return Ok(value);
            }
        }
        bail!(
            "the header is not as numpy writes it: True or False expected at `{}`",
            self.ahead()
        )
    }

    fn tuple(&mut self) -> Result<Vec<usize>> {
        let mut extents = Vec::new();
        self.expect('(')?;
        while !self.skip(')') {
            let end = self
                .0
                .find(|c: char| !c.is_ascii_digit())
                .unwrap_or(self.0.len());
            let (digits, rest) = self.0.split_at(end);
            let extent = digits.parse().ok().with_context(|| {
                format!(
                    "an extent of the shape is not a number from 0 to {} at `{}`",
                    usize::MAX,
                    self.ahead()
                )
            })?;
            ensure!(extents.len() < MAX_RANK, "more than {MAX_RANK} dimensions");
            extents.push(extent);
            // Python 2 wrote long integers with a suffix.
            self.0 = rest.strip_prefix('L').unwrap_or(rest).trim_start();
            if !self.skip(',') {
                self.expect(')')?;
                break;
            }
        }
        Ok(extents)
    }
}

/// A version 1 header for an array in C order.
pub(super) fn encode(descr: &str, shape: &[usize]) -> Result<Vec<u8>> {
    let extents: String = match shape {
        [single] => format!("{single},"),
        _ => shape
            .iter()
            .map(usize::to_string)
            .collect::<Vec<_>>()
            .join(", "),
    };
    let mut text =
        format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({extents}), }}");
    let start = MAGIC.len() + 4;
    let padded = (start + text.len() + 1).next_multiple_of(ALIGNMENT);
    text.extend(std::iter::repeat_n(' ', padded - start - text.len() - 1));
    text.push('\n');
    let length = u16::try_from(text.len()).context("too many dimensions for a .npy file")?;
    let mut bytes = MAGIC.to_vec();
    bytes.extend([1, 0]);
    bytes.extend(length.to_le_bytes());
    bytes.extend(text.bytes());
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(descr: &str, fortran: bool, shape: &[usize]) -> Header {
        let (dtype, order) = dtype(descr, float).unwrap();
        Header {
            dtype,
            order,
            is_fortran: fortran,
            shape: shape.to_vec(),
        }
    }

    #[test]
    fn reads_the_literals_numpy_writes() {
        for (text, want) in [
            (
                "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }   \n",
                header("<f4", false, &[3, 4]),
            ),
            (
                "{'descr': '>f8', 'fortran_order': True, 'shape': (3,), }",
                header(">f8", true, &[3]),
            ),
            (
                "{'descr': '<f2', 'fortran_order': False, 'shape': (), }",
                header("<f2", false, &[]),
            ),
            (
                "{\"shape\": (2L, 0L), \"fortran_order\": False, \"descr\": \"<f4\"}",
                header("<f4", false, &[2, 0]),
            ),
        ] {
            assert_eq!(Header::parse(text).unwrap(), want, "{text}");
        }
    }

    #[test]
    fn refuses_what_is_not_an_array_of_floats() {
        for (text, word) in [
            (
                "{'descr': '<i4', 'fortran_order': False, 'shape': (1,), }",
                "'<i4'",
            ),
            (
                "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }",
                "'|O'",
            ),
            (
                "{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (1,), }",
                "floats",
            ),
            ("{'descr': '<f4', 'fortran_order': False, }", "no 'shape'"),
            (
                "{'descr': '<f4', 'fortran_order': Maybe, 'shape': (1,), }",
                "True or False",
            ),
            (
                "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }",
                "extent",
            ),
            (
                "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), } x",
                "after its end",
            ),
            ("{'descr': '<f4', 'extra': '', }", "unknown entry"),
            ("", "expected `{`"),
        ] {
            let error = format!("{:#}", Header::parse(text).unwrap_err());
            assert!(error.contains(word), "{text}: {error}");
        }
    }

    #[test]
    fn every_way_to_cut_a_file_off_is_an_error() {
        let read = |bytes: &[u8]| text(&mut Source::of(bytes));
        let whole = encode("<f4", &[2, 3]).unwrap();
        assert_eq!(whole.len() % ALIGNMENT, 0);
        for end in 0..whole.len() {
            assert!(read(&whole[..end]).is_err(), "{end}");
        }
        assert!(Header::parse(&read(&whole).unwrap()).is_ok());
        let mut version_9 = whole;
        version_9[6] = 9;
        assert!(read(&version_9).is_err());
    }
}

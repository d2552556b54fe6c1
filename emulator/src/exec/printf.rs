//! `vprintf`: C format strings with a buffer of arguments.
//!
//! As in CUDA, a call reads at most 32 arguments, and prints the conversions of further ones as
//! they are written. It returns the number of arguments it read, or -1 without a format.

use super::access::Intent;
use super::block::Block;
use super::fault::{Checked, Fault};
use super::row::{LANES, Lanes, Row};
use super::warp::Warp;
use crate::fifo::Fifo;
use crate::memory::space::Space;
use crate::program::{AssertFail, Printf};
use crate::report::FaultKind;

mod format;

use format::{Conversion, Field, Length, Piece, Style};

/// Longest format or string that is read, in bytes.
const LONGEST: usize = 1 << 16;
/// Most arguments that one call reads.
const MOST_ARGUMENTS: u32 = 32;
/// Result of a call without a format.
const NULL_FORMAT: u32 = -1_i32 as u32;

impl Warp {
    /// Prints for the lanes of `mask`, lowest first.
    pub(crate) fn printf(
        &mut self,
        block: &mut Block<'_>,
        printf: &Printf,
        path: usize,
        mask: u32,
    ) -> Checked<()> {
        let frame = self.paths.list[path].frame().local;
        let formats = self.peek(block, Space::Local, frame + printf.format, mask, 8)?;
        let arguments = self.peek(block, Space::Local, frame + printf.arguments, mask, 8)?;
        for lane in Lanes(mask) {
            let (format, arguments) = (formats.0[lane], arguments.0[lane]);
            let result = match format {
                0 => NULL_FORMAT,
                _ => self.print(block, format, arguments, lane)?,
            };
            if let Some(place) = printf.result {
                self.planes[0] = Row([result; LANES]);
                let at = Row([frame + place; LANES]);
                self.transfer(block, Space::Local, &at, 1 << lane, 4, Intent::Write)?;
            }
        }
        Ok(())
    }

    /// The fault of a failed device-side assertion.
    pub(crate) fn assertion(
        &mut self,
        block: &mut Block<'_>,
        places: &AssertFail,
        path: usize,
        mask: u32,
    ) -> Checked<Box<Fault>> {
        let lane = mask.trailing_zeros() as usize;
        let frame = self.paths.list[path].frame().local;
        let value = |warp: &mut Self, block: &mut Block<'_>, place: u64, bytes| -> Checked<u64> {
            let at = frame + place;
            let read = warp.peek(block, Space::Local, at, 1 << lane, bytes)?;
            Ok(read.0[lane])
        };
        let mut text = |place: u64| -> Checked<String> {
            let at = value(self, block, place, 8)?;
            Ok(String::from_utf8_lossy(&self.string(block, at, usize::MAX, lane)?).into_owned())
        };
        let message = text(places.message)?;
        let (file, function) = (text(places.file)?, text(places.function)?);
        let line = value(self, block, places.line, 4)?;
        let mut values = Vec::new();
        for place in &places.values {
            values.push(value(self, block, *place, 8)?);
        }
        let values = match *values {
            [index, len] => format!(": the len is {len} but the index is {index}"),
            [start, end, len] => format!(": the len is {len} but the range is {start}..{end}"),
            _ => String::new(),
        };
        let message =
            format!("assertion `{message}{values}` failed at {file}:{line} in `{function}`");
        Ok(Fault::new(FaultKind::Trap, Some(lane as u32), message))
    }

    /// Reads up to 8 bytes at one address per lane of `mask`.
    pub(super) fn peek(
        &mut self,
        block: &mut Block<'_>,
        space: Space,
        address: u64,
        mask: u32,
        bytes: usize,
    ) -> Checked<Row<u64>> {
        let addresses = Row([address; LANES]);
        self.each_space(space, &addresses, mask, |warp, space, own, mask| {
            warp.transfer(block, space, own, mask, bytes, Intent::Read)
        })?;
        let mut out = Row::default();
        for lane in 0..LANES {
            let high = if bytes == 8 {
                self.planes[1].0[lane]
            } else {
                0
            };
            out.0[lane] = u64::from(self.planes[0].0[lane]) | u64::from(high) << 32;
        }
        Ok(out)
    }

    /// The string at a generic address, up to its zero byte or to `most` bytes.
    fn string(
        &mut self,
        block: &mut Block<'_>,
        address: u64,
        most: usize,
        lane: usize,
    ) -> Checked<Vec<u8>> {
        let mut out = Vec::new();
        while out.len() < most {
            let at = address.wrapping_add(out.len() as u64);
            let byte = self.peek(block, Space::Generic, at, 1 << lane, 1)?.0[lane] as u8;
            if byte == 0 {
                break;
            }
            if out.len() == LONGEST {
                let message = format!(
                    "the string at 0x{address:x} is longer than the {LONGEST} bytes that are read"
                );
                return Err(Fault::new(FaultKind::BadFormat, Some(lane as u32), message));
            }
            out.push(byte);
        }
        Ok(out)
    }

    /// Prints for one lane. Returns the number of arguments that were read.
    fn print(
        &mut self,
        block: &mut Block<'_>,
        format: u64,
        arguments: u64,
        lane: usize,
    ) -> Checked<u32> {
        let format = self.string(block, format, usize::MAX, lane)?;
        let pieces = format::parse(&format)
            .map_err(|message| Fault::new(FaultKind::BadFormat, Some(lane as u32), message))?;
        let mut text = Fifo::default();
        let mut arguments = Arguments {
            at: arguments,
            read: 0,
        };
        for piece in pieces {
            match piece {
                Piece::Text(part) => text.write(part),
                Piece::Value(style, _) if arguments.suffice(&style) => {
                    self.convert(block, style, &mut arguments, lane, &mut text)?;
                }
                Piece::Value(_, part) => text.write(part),
            }
        }
        block.printed.append(&mut text);
        Ok(arguments.read)
    }

    /// Prints one value.
    fn convert(
        &mut self,
        block: &mut Block<'_>,
        mut style: Style,
        arguments: &mut Arguments,
        lane: usize,
        out: &mut Fifo,
    ) -> Checked<()> {
        let mut next = |warp: &mut Self, bytes| {
            let address = arguments.next(bytes);
            let value = warp.peek(block, Space::Generic, address, 1 << lane, bytes as usize)?;
            Ok::<_, Box<Fault>>(value.0[lane])
        };
        if style.width_given {
            let width = next(self, 4)? as i32;
            style.left |= width < 0;
            style.width = width.unsigned_abs() as usize;
        }
        if style.precision_given {
            let precision = next(self, 4)? as i32;
            style.precision = usize::try_from(precision).ok();
        }
        let value = next(self, argument_bytes(&style))?;
        let field = if style.conversion == Conversion::String {
            let most = style.precision.unwrap_or(usize::MAX);
            Field::text(self.string(block, value, most, lane)?)
        } else {
            style.number(value)
        };
        style.pad(&field, out);
        Ok(())
    }
}

/// The arguments of one call.
struct Arguments {
    /// Where the next one may begin.
    at: u64,
    /// Number of those that were read.
    read: u32,
}

impl Arguments {
    /// Whether the arguments of a conversion are among the first [`MOST_ARGUMENTS`]. If they are
    /// not, no later one is read either.
    fn suffice(&mut self, style: &Style) -> bool {
        let wanted = 1 + u32::from(style.width_given) + u32::from(style.precision_given);
        let suffice = self.read + wanted <= MOST_ARGUMENTS;
        if !suffice {
            self.read = MOST_ARGUMENTS;
        }
        suffice
    }

    /// The address of the next one; each is aligned to its size.
    fn next(&mut self, bytes: u64) -> u64 {
        let address = self.at.wrapping_add(bytes - 1) / bytes * bytes;
        self.at = address.wrapping_add(bytes);
        self.read += 1;
        address
    }
}

/// C promotes integers shorter than `int` to `int`, and `float` to `double`.
fn argument_bytes(style: &Style) -> u64 {
    match style.conversion {
        Conversion::Signed | Conversion::Unsigned | Conversion::Octal | Conversion::Hex(_) => {
            match style.length {
                Length::Long => 8,
                _ => 4,
            }
        }
        Conversion::Char => 4,
        _ => 8,
    }
}

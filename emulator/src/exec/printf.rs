//! `vprintf`: C format strings with a buffer of arguments.

use super::block::Block;
use super::fault::{Checked, Fault};
use super::row::{LANES, Lanes, Row};
use super::warp::Warp;
use crate::memory::space::Space;
use crate::program::Printf;
use crate::report::FaultKind;

mod format;

use format::{Conversion, Length, Piece, Style};

/// Longest format or string that is read, in bytes.
const LONGEST: usize = 1 << 16;

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
            let format = self.string(block, formats.0[lane], lane)?;
            let pieces = format::parse(&format)
                .map_err(|message| Fault::new(FaultKind::BadFormat, Some(lane as u32), message))?;
            let text = self.render(block, &pieces, arguments.0[lane], lane)?;
            block.printed.extend_from_slice(&text);
            let count = pieces
                .iter()
                .filter(|piece| matches!(piece, Piece::Value(_)))
                .count();
            if let Some(result) = printf.result {
                self.planes[0] = Row([count as u32; LANES]);
                let at = Row([frame + result; LANES]);
                self.write(block, Space::Local, &at, 1 << lane, 4)?;
            }
        }
        Ok(())
    }

    /// The fault of a failed device-side assertion.
    pub(crate) fn assertion(
        &mut self,
        block: &mut Block<'_>,
        places: &[u64; 4],
        path: usize,
        mask: u32,
    ) -> Checked<Box<Fault>> {
        let lane = mask.trailing_zeros() as usize;
        let frame = self.paths.list[path].frame().local;
        let [message, file, line, function] = *places;
        let mut text = |place: u64| -> Checked<String> {
            let at = self
                .peek(block, Space::Local, frame + place, 1 << lane, 8)?
                .0[lane];
            Ok(String::from_utf8_lossy(&self.string(block, at, lane)?).into_owned())
        };
        let (message, file, function) = (text(message)?, text(file)?, text(function)?);
        let line = self
            .peek(block, Space::Local, frame + line, 1 << lane, 4)?
            .0[lane];
        let message = format!("assertion `{message}` failed at {file}:{line} in `{function}`");
        Ok(Fault::new(FaultKind::Trap, Some(lane as u32), message))
    }

    /// Reads up to 8 bytes at one address per lane of `mask`.
    fn peek(
        &mut self,
        block: &mut Block<'_>,
        space: Space,
        address: u64,
        mask: u32,
        bytes: usize,
    ) -> Checked<Row<u64>> {
        let addresses = Row([address; LANES]);
        self.each_space(space, &addresses, mask, |warp, space, own, mask| {
            warp.read(block, space, own, mask, bytes)
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

    /// The string at a generic address, up to its zero byte.
    fn string(&mut self, block: &mut Block<'_>, address: u64, lane: usize) -> Checked<Vec<u8>> {
        let mut out = Vec::new();
        loop {
            let at = address + out.len() as u64;
            let byte = self.peek(block, Space::Generic, at, 1 << lane, 1)?.0[lane] as u8;
            if byte == 0 {
                return Ok(out);
            }
            if out.len() == LONGEST {
                let message = format!("the string at 0x{address:x} has no end");
                return Err(Fault::new(FaultKind::BadFormat, Some(lane as u32), message));
            }
            out.push(byte);
        }
    }

    fn render(
        &mut self,
        block: &mut Block<'_>,
        pieces: &[Piece],
        arguments: u64,
        lane: usize,
    ) -> Checked<Vec<u8>> {
        let mut out = Vec::new();
        let mut at = arguments;
        for piece in pieces {
            let style = match piece {
                Piece::Text(text) => {
                    out.extend_from_slice(text);
                    continue;
                }
                Piece::Value(style) => style,
            };
            let mut style = *style;
            if style.width_given {
                let width = self.argument(block, &mut at, 4, lane)? as i32;
                style.left |= width < 0;
                style.width = width.unsigned_abs() as usize;
            }
            if style.precision_given {
                let precision = self.argument(block, &mut at, 4, lane)? as i32;
                style.precision = usize::try_from(precision).ok();
            }
            let bytes = argument_bytes(&style);
            let value = self.argument(block, &mut at, bytes, lane)?;
            let text = if style.conversion == Conversion::String {
                let mut text = self.string(block, value, lane)?;
                text.truncate(style.precision.unwrap_or(usize::MAX));
                text
            } else {
                style.number(value).into_bytes()
            };
            style.pad(&text, &mut out);
        }
        Ok(out)
    }

    /// The next argument; each is aligned to its size.
    fn argument(
        &mut self,
        block: &mut Block<'_>,
        at: &mut u64,
        bytes: usize,
        lane: usize,
    ) -> Checked<u64> {
        let address = at.next_multiple_of(bytes as u64);
        *at = address + bytes as u64;
        Ok(self
            .peek(block, Space::Generic, address, 1 << lane, bytes)?
            .0[lane])
    }
}

/// C promotes integers shorter than `int` to `int`, and `float` to `double`.
fn argument_bytes(style: &Style) -> usize {
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

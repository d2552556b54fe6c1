//! PTX in images: plain text, or in fat binaries, which hold code for several GPUs, compressed or
//! not. Machine code cannot be used here.

use std::ffi::CStr;
use std::io::Read;

use crate::c::Data;
use crate::code::Code;
use crate::report;

/// First bytes of the wrapper that programs of nvcc have around a container.
const WRAPPER: u32 = 0x4662_43b1;
const WRAPPER_BYTES: usize = 24;
/// Version of a wrapper that may list the containers of several modules.
const WITH_MODULES: u32 = 2;
/// First bytes of a container.
const CONTAINER: u32 = 0xba55_ed50;
/// First bytes of an ELF file: machine code.
const ELF: u32 = u32::from_le_bytes(*b"\x7fELF");

const CONTAINER_HEADER: usize = 16;
/// Bytes of an entry's header that are read; headers have more.
const ENTRY_HEADER: usize = 64;

/// The kind of an entry that holds PTX.
const PTX: u16 = 1;
const LZ4: u64 = 0x2000;
const ZSTD: u64 = 0x8000;
/// The entry is for one architecture alone, as sm_90a is.
const ONE_ARCHITECTURE: u64 = 0x10_0000;

/// Newest architecture that the emulator runs.
const ARCHITECTURE: u32 = 90;

/// Most bytes that the PTX of an entry may have.
const MOST_BYTES: u64 = 1 << 30;

/// Why an image has no PTX.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ImageError {
    /// It is not there.
    Null,
    /// It holds machine code only.
    NoPtx,
    /// It is damaged, or of a kind that nobody knows.
    Damaged(&'static str),
}

impl ImageError {
    /// Tells the error on stderr, and gives its code.
    pub(crate) fn told(self, what: &str) -> Code {
        match self {
            Self::Null => Code::INVALID_VALUE,
            Self::NoPtx => {
                report::note(format_args!(
                    "{what}: the image has no PTX for sm_90 or older: compile it with \
                     `-gencode arch=compute_90,code=compute_90`"
                ));
                Code::NO_BINARY_FOR_GPU
            }
            Self::Damaged(why) => {
                report::note(format_args!("{what}: damaged image: {why}"));
                Code::INVALID_IMAGE
            }
        }
    }
}

/// Most modules of a program that links its device code.
const MOST_MODULES: usize = 1 << 16;

/// The PTX of an image: one module, or those that the program would have linked.
///
/// # Safety
/// As of [`ptx_of_image`]; a wrapper may also have a list of containers that ends with null.
pub(crate) unsafe fn modules_of_image(image: Data) -> Result<Vec<String>, ImageError> {
    let only = || {
        // SAFETY: the caller's contract.
        unsafe { ptx_of_image(image) }.map(|ptx| vec![ptx])
    };
    if image.is_null() {
        return Err(ImageError::Null);
    }
    // SAFETY: as in `ptx_of_image`.
    if unsafe { first_word(image.cast()) } != WRAPPER {
        return only();
    }
    // SAFETY: a wrapper has 24 bytes.
    let wrapper = unsafe { std::slice::from_raw_parts(image.cast::<u8>(), WRAPPER_BYTES) };
    let list = read_u64(wrapper, 16).unwrap_or(0) as *const Data;
    if read_u32(wrapper, 4) != Some(WITH_MODULES) || list.is_null() {
        return only();
    }
    let mut modules = Vec::new();
    for at in 0..MOST_MODULES {
        // SAFETY: the list ends with null, which was not before this place.
        let container = unsafe { list.add(at).read_unaligned() };
        if container.is_null() {
            break;
        }
        // SAFETY: items of the list are images.
        match unsafe { ptx_of_image(container) } {
            Ok(ptx) => modules.push(ptx),
            // A library of NVIDIA's: what is needed of it, the emulator has.
            Err(ImageError::NoPtx) => {}
            Err(error) => return Err(error),
        }
    }
    match modules.is_empty() {
        true => only(),
        false => Ok(modules),
    }
}

/// The PTX of an image.
///
/// # Safety
/// `image` is null, or a whole image: text that ends with a zero byte, a fat binary, its wrapper,
/// or an ELF file.
pub(crate) unsafe fn ptx_of_image(image: Data) -> Result<String, ImageError> {
    if image.is_null() {
        return Err(ImageError::Null);
    }
    let bytes = image.cast::<u8>();
    // SAFETY: a text ends with a zero byte, and the other kinds are longer than four bytes; reading
    // stops at a zero byte.
    let first = unsafe { first_word(bytes) };
    match first {
        // SAFETY: a wrapper has its container's address 8 bytes in, which is an image too.
        WRAPPER => unsafe { ptx_of_image(bytes.add(8).cast::<Data>().read_unaligned()) },
        CONTAINER => {
            // SAFETY: a container has its header.
            let header = unsafe { std::slice::from_raw_parts(bytes, CONTAINER_HEADER) };
            let header_bytes = u16::from_le_bytes([header[6], header[7]]);
            let len = read_u64(header, 8).unwrap_or(0);
            if len > MOST_BYTES {
                return Err(ImageError::Damaged("a container of more than 1 GiB"));
            }
            let len = len as usize + usize::from(header_bytes);
            // SAFETY: a container has as many bytes as its header says.
            let container = unsafe { std::slice::from_raw_parts(bytes, len) };
            ptx_of_container(container)
        }
        ELF => Err(ImageError::NoPtx),
        _ => {
            // SAFETY: neither of the other kinds, so a text.
            let text = unsafe { CStr::from_ptr(bytes.cast()) };
            Ok(text.to_string_lossy().into_owned())
        }
    }
}

/// The first four bytes, or fewer if a zero byte ends them.
///
/// # Safety
/// `bytes` leads to four bytes, or to fewer of which the last is zero.
unsafe fn first_word(bytes: *const u8) -> u32 {
    let mut word = [0; 4];
    for (at, byte) in word.iter_mut().enumerate() {
        // SAFETY: no byte before this one was zero.
        *byte = unsafe { bytes.add(at).read() };
        if *byte == 0 {
            break;
        }
    }
    u32::from_le_bytes(word)
}

fn read_u64(bytes: &[u8], at: usize) -> Option<u64> {
    let field = bytes.get(at..at + 8)?.try_into().ok()?;
    Some(u64::from_le_bytes(field))
}

fn read_u32(bytes: &[u8], at: usize) -> Option<u32> {
    let field = bytes.get(at..at + 4)?.try_into().ok()?;
    Some(u32::from_le_bytes(field))
}

/// The PTX for the newest architecture that runs here.
fn ptx_of_container(container: &[u8]) -> Result<String, ImageError> {
    const SHORT: ImageError = ImageError::Damaged("an entry is cut off");
    let mut best: Option<((u32, bool), String)> = None;
    let mut rest = &container[CONTAINER_HEADER.min(container.len())..];
    while rest.len() >= ENTRY_HEADER {
        let kind = u16::from_le_bytes([rest[0], rest[1]]);
        let header_bytes = read_u32(rest, 4).ok_or(SHORT)? as usize;
        let payload_bytes = read_u64(rest, 8).ok_or(SHORT)? as usize;
        let compressed_bytes = read_u32(rest, 16).ok_or(SHORT)? as usize;
        let architecture = read_u32(rest, 28).ok_or(SHORT)?;
        let flags = read_u64(rest, 40).ok_or(SHORT)?;
        let text_bytes = read_u64(rest, 56).ok_or(SHORT)?;
        let end = payload_bytes
            .max(compressed_bytes)
            .checked_add(header_bytes)
            .filter(|end| *end >= ENTRY_HEADER && *end <= rest.len())
            .ok_or(SHORT)?;
        let rank = (architecture, flags & ONE_ARCHITECTURE != 0);
        let runs = architecture < ARCHITECTURE && !rank.1 || architecture == ARCHITECTURE;
        let is_better = best.as_ref().is_none_or(|(other, _)| rank > *other);
        if kind == PTX && runs && is_better {
            let payload = rest.get(header_bytes..end).ok_or(SHORT)?;
            let payload = match compressed_bytes {
                0 => payload,
                bytes => payload.get(..bytes).ok_or(SHORT)?,
            };
            best = Some((rank, text(payload, flags, text_bytes)?));
        }
        rest = &rest[end..];
    }
    best.map(|(_, ptx)| ptx).ok_or(ImageError::NoPtx)
}

/// The text of an entry, which has `bytes` bytes if it is compressed.
fn text(payload: &[u8], flags: u64, bytes: u64) -> Result<String, ImageError> {
    if bytes > MOST_BYTES {
        return Err(ImageError::Damaged("PTX of more than 1 GiB"));
    }
    let unpacked = if flags & LZ4 != 0 {
        lz4_flex::block::decompress(payload, bytes as usize)
            .map_err(|_| ImageError::Damaged("bad LZ4"))?
    } else if flags & ZSTD != 0 {
        let bad = |_| ImageError::Damaged("bad zstd");
        let mut unpacked = Vec::new();
        ruzstd::decoding::StreamingDecoder::new(payload)
            .map_err(bad)?
            .take(bytes)
            .read_to_end(&mut unpacked)
            .map_err(|_| ImageError::Damaged("bad zstd"))?;
        unpacked
    } else {
        payload.to_vec()
    };
    let text = String::from_utf8_lossy(&unpacked);
    Ok(text.trim_end_matches('\0').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = ".version 8.0\n.target sm_80\n";
    const NEW: &str = ".version 8.0\n.target sm_90a\n.visible .entry k() { ret; }\n";

    /// An entry with its header, padded to 8 bytes.
    fn entry(
        kind: u16,
        architecture: u32,
        flags: u64,
        payload: &[u8],
        text_bytes: usize,
    ) -> Vec<u8> {
        let mut bytes = vec![0; ENTRY_HEADER];
        let padded = payload.len().next_multiple_of(8);
        let compressed = if flags & (LZ4 | ZSTD) != 0 {
            payload.len()
        } else {
            0
        };
        bytes[0..2].copy_from_slice(&kind.to_le_bytes());
        bytes[4..8].copy_from_slice(&(ENTRY_HEADER as u32).to_le_bytes());
        bytes[8..16].copy_from_slice(&(padded as u64).to_le_bytes());
        bytes[16..20].copy_from_slice(&(compressed as u32).to_le_bytes());
        bytes[28..32].copy_from_slice(&architecture.to_le_bytes());
        bytes[40..48].copy_from_slice(&flags.to_le_bytes());
        bytes[56..64].copy_from_slice(&(text_bytes as u64).to_le_bytes());
        bytes.extend_from_slice(payload);
        bytes.resize(ENTRY_HEADER + padded, 0);
        bytes
    }

    fn container(entries: &[Vec<u8>]) -> Vec<u8> {
        let entries = entries.concat();
        let mut bytes = CONTAINER.to_le_bytes().to_vec();
        bytes.extend([1, 0, CONTAINER_HEADER as u8, 0]);
        bytes.extend((entries.len() as u64).to_le_bytes());
        bytes.extend(entries);
        bytes
    }

    fn ptx(image: &[u8]) -> Result<String, ImageError> {
        // SAFETY: the tests' images are whole.
        unsafe { ptx_of_image(image.as_ptr().cast()) }
    }

    #[test]
    fn the_newest_ptx_that_runs_is_taken_however_it_is_packed() {
        let packed = lz4_flex::block::compress(NEW.as_bytes());
        let squeezed = ruzstd::encoding::compress_to_vec(
            NEW.as_bytes(),
            ruzstd::encoding::CompressionLevel::Fastest,
        );
        for (flags, payload) in [
            (0, NEW.as_bytes()),
            (LZ4, packed.as_slice()),
            (ZSTD, squeezed.as_slice()),
        ] {
            let image = container(&[
                entry(2, 90, 0, b"machine code", 0),
                entry(PTX, 100, 0, b".target sm_100", 0),
                entry(PTX, 80, 0, OLD.as_bytes(), 0),
                entry(PTX, 90, flags | ONE_ARCHITECTURE, payload, NEW.len()),
                entry(PTX, 90, 0, OLD.as_bytes(), 0),
            ]);
            assert_eq!(ptx(&image).as_deref(), Ok(NEW));
            let mut wrapper = WRAPPER.to_le_bytes().to_vec();
            wrapper.extend(1_u32.to_le_bytes());
            wrapper.extend((image.as_ptr() as u64).to_le_bytes());
            wrapper.extend([0; 8]);
            assert_eq!(ptx(&wrapper).as_deref(), Ok(NEW));
        }
    }

    #[test]
    fn a_wrapper_lists_modules_to_link() {
        let modules = [
            container(&[entry(PTX, 90, 0, NEW.as_bytes(), 0)]),
            container(&[entry(2, 90, 0, b"machine code", 0)]),
            container(&[entry(PTX, 80, 0, OLD.as_bytes(), 0)]),
        ];
        let mut list: Vec<u64> = modules.iter().map(|m| m.as_ptr() as u64).collect();
        list.push(0);
        let linked = container(&[entry(2, 90, 0, b"machine code", 0)]);
        let mut wrapper = WRAPPER.to_le_bytes().to_vec();
        wrapper.extend(WITH_MODULES.to_le_bytes());
        wrapper.extend((linked.as_ptr() as u64).to_le_bytes());
        wrapper.extend((list.as_ptr() as u64).to_le_bytes());
        // SAFETY: the wrapper and what it leads to are whole.
        let found = unsafe { modules_of_image(wrapper.as_ptr().cast()) };
        assert_eq!(found, Ok(vec![NEW.to_owned(), OLD.to_owned()]));
    }

    #[test]
    fn text_is_taken_as_it_is_and_machine_code_is_refused() {
        assert_eq!(ptx(b".version 8.0\n\0").as_deref(), Ok(".version 8.0\n"));
        assert_eq!(ptx(b"\0").as_deref(), Ok(""));
        assert_eq!(ptx(b"\x7fELF\x02\x01\0"), Err(ImageError::NoPtx));
        assert_eq!(ptx(&container(&[])), Err(ImageError::NoPtx));
        let other = container(&[entry(PTX, 86, ONE_ARCHITECTURE, OLD.as_bytes(), 0)]);
        assert_eq!(ptx(&other), Err(ImageError::NoPtx));
    }

    #[test]
    fn damaged_containers_are_errors() {
        let whole = entry(
            PTX,
            90,
            LZ4,
            &lz4_flex::block::compress(NEW.as_bytes()),
            NEW.len(),
        );
        for at in 0..ENTRY_HEADER {
            for value in [0, 1, 0x7f, 0xff] {
                let mut entry = whole.clone();
                entry[at] = value;
                // No panic, whatever it says.
                let _ = ptx_of_container(&container(&[entry]));
            }
        }
        let mut large = whole;
        large[8..16].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(matches!(
            ptx_of_container(&container(&[large])),
            Err(ImageError::Damaged(_))
        ));
    }
}

//! The files of a captured launch: the kernel's PTX, a launch file, and a .npy file for each buffer.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::fmt::{self, Write as _};
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::api::launch::packed;
use crate::c::{Address, In, bytes};
use crate::code::Code;

/// Most bytes of all buffers, unless the user says otherwise.
pub(super) const MOST_BYTES: usize = 1 << 30;
/// Bytes that are copied at a time.
const CHUNK: usize = 16 << 20;

/// Why a launch cannot be captured.
#[derive(Debug, thiserror::Error)]
pub(super) enum CaptureError {
    #[error("its module was loaded without PTX for sm_90 or older")]
    NoPtx,
    #[error("its PTX cannot be read: {0}")]
    Ptx(String),
    #[error("its PTX has no kernel of this name")]
    NoKernel,
    #[error(
        "parameter {number} has {bytes} bytes and an alignment of {align}: it may be a tensor map"
    )]
    TensorMap {
        number: usize,
        bytes: usize,
        align: usize,
    },
    #[error("the arguments are not there")]
    NoArguments,
    #[error("the driver's error while it waited for earlier work: {0:?}")]
    Wait(Code),
    #[error("buffers of {bytes} bytes are more than {most}; WARPSMITH_CAPTURE_BYTES is the limit")]
    TooLarge { bytes: usize, most: usize },
    #[error("{bytes} bytes at {address:#x} cannot be read: {code:?}")]
    Read {
        address: Address,
        bytes: usize,
        code: Code,
    },
    #[error("{path}: {source}", path = .path.display())]
    Write { path: PathBuf, source: io::Error },
}

/// Size and alignment of a parameter, and where it is among them all.
pub(super) struct Param {
    pub(super) offset: usize,
    pub(super) bytes: usize,
    pub(super) align: usize,
}

/// A launch.
pub(super) struct Captured<'a> {
    pub(super) name: &'a str,
    pub(super) ptx: &'a str,
    pub(super) grid: [u32; 3],
    pub(super) block: [u32; 3],
    pub(super) cluster: Option<[u32; 3]>,
    pub(super) shared_bytes: u32,
    pub(super) params: &'a [Param],
    /// The bytes of each parameter.
    pub(super) arguments: &'a [Vec<u8>],
}

/// What was written.
pub(super) struct Files {
    folder: PathBuf,
    buffers: usize,
    bytes: usize,
}

impl fmt::Display for Files {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (buffers, bytes) = (self.buffers, self.bytes);
        let place = |name| self.folder.join(name).display().to_string();
        let (ptx, launch) = (place("kernel.ptx"), place("launch.toml"));
        write!(
            f,
            "{buffers} buffers of {bytes} bytes; `warpsmith run {ptx} {launch}`"
        )
    }
}

/// The parameters of a kernel.
pub(super) fn params(ptx: &str, kernel: &str) -> Result<Vec<Param>, CaptureError> {
    let module = ptx_syntax::parse(ptx).map_err(|error| CaptureError::Ptx(error.to_string()))?;
    let mut functions = module.functions.iter();
    let found = functions.find(|function| function.name == kernel && function.body.is_some());
    let mut end = 0_usize;
    let params = found.ok_or(CaptureError::NoKernel)?.params.iter();
    let params = params.map(|param| {
        let bytes = param.bytes().unwrap_or(0) as usize;
        let align = (param.alignment() as usize).max(1);
        let offset = end.next_multiple_of(align);
        end = offset + bytes;
        Param {
            offset,
            bytes,
            align,
        }
    });
    Ok(params.collect())
}

/// The bytes of each argument.
pub(super) fn arguments(
    params: &[Param],
    each: In<*const c_void>,
    extra: In<usize>,
) -> Result<Vec<Vec<u8>>, CaptureError> {
    let missing = |_| CaptureError::NoArguments;
    if params.is_empty() {
        return Ok(Vec::new());
    }
    if extra.is_null() {
        let params = params.iter().enumerate();
        let arguments = params.map(|(at, param)| {
            let place = each.at(at).map_err(missing)?;
            // SAFETY: by the contract of launches, a pointer to a value of this size.
            Ok(unsafe { bytes(place, param.bytes) }
                .map_err(missing)?
                .to_vec())
        });
        return arguments.collect();
    }
    let packed = packed(extra).map_err(missing)?;
    let params = params.iter();
    let arguments = params.map(|param| {
        let found = packed.get(param.offset..param.offset + param.bytes);
        Ok(found.ok_or(CaptureError::NoArguments)?.to_vec())
    });
    arguments.collect()
}

/// Finds the allocation of an address.
type RangeOf<'a> = &'a dyn Fn(Address) -> Option<(Address, usize)>;
/// Reads memory.
type Read<'a> = &'a dyn Fn(Address, &mut [u8]) -> Result<(), Code>;

impl Captured<'_> {
    /// Writes the files.
    pub(super) fn write(
        &self,
        folder: &Path,
        most: usize,
        range: RangeOf<'_>,
        read: Read<'_>,
    ) -> Result<Files, CaptureError> {
        let buffers = self.buffers(range)?;
        let bytes = buffers.values().sum();
        if bytes > most {
            return Err(CaptureError::TooLarge { bytes, most });
        }
        let wrong = |path: &Path| {
            let path = path.to_owned();
            |source| CaptureError::Write { path, source }
        };
        fs::create_dir_all(folder).map_err(wrong(folder))?;
        let write = |name: &str, text: &str| {
            let path = folder.join(name);
            fs::write(&path, text).map_err(wrong(&path))
        };
        write("kernel.ptx", self.ptx)?;
        write("launch.toml", &self.launch_file(&buffers)?)?;
        for (number, (base, bytes)) in buffers.iter().enumerate() {
            let path = folder.join(format!("buffer_{number}.npy"));
            let mut file = fs::File::create(&path).map_err(wrong(&path))?;
            file.write_all(&header(*bytes)).map_err(wrong(&path))?;
            let mut chunk = vec![0; CHUNK.min(*bytes)];
            let mut done = 0;
            while done < *bytes {
                let part = &mut chunk[..CHUNK.min(bytes - done)];
                let address = base + done as u64;
                read(address, part).map_err(|code| CaptureError::Read {
                    address,
                    bytes: part.len(),
                    code,
                })?;
                file.write_all(part).map_err(wrong(&path))?;
                done += part.len();
            }
        }
        Ok(Files {
            folder: folder.to_owned(),
            buffers: buffers.len(),
            bytes,
        })
    }

    /// The 8-byte words of a parameter that may be addresses.
    fn words(&self, number: usize) -> impl Iterator<Item = u64> {
        let whole = self.params[number].align >= 8;
        let bytes = if whole {
            &self.arguments[number][..]
        } else {
            &[]
        };
        bytes.chunks_exact(8).map(word)
    }

    /// The allocations that arguments lead to: base and size.
    fn buffers(&self, range: RangeOf<'_>) -> Result<BTreeMap<Address, usize>, CaptureError> {
        /// Alignment of a tensor map.
        const MAP_ALIGN: usize = 64;
        let mut buffers = BTreeMap::new();
        for (number, param) in self.params.iter().enumerate() {
            if param.align >= MAP_ALIGN {
                return Err(CaptureError::TensorMap {
                    number,
                    bytes: param.bytes,
                    align: param.align,
                });
            }
            buffers.extend(self.words(number).filter_map(range));
        }
        Ok(buffers)
    }

    fn launch_file(&self, buffers: &BTreeMap<Address, usize>) -> Result<String, CaptureError> {
        let mut text = format!(
            "# A launch of {}, captured in front of its driver.\nkernel = {:?}\ngrid = {:?}\n\
             block = {:?}\nshared_bytes = {}\n",
            self.name, self.name, self.grid, self.block, self.shared_bytes
        );
        if let Some(cluster) = self.cluster {
            let _ = writeln!(text, "cluster = {cluster:?}");
        }
        for (number, bytes) in buffers.values().enumerate() {
            let _ = write!(
                text,
                "\n[[buffer]]\nname = \"buffer_{number}\"\ndtype = \"u8\"\nshape = [{bytes}]\n\
                 fill = \"buffer_{number}.npy\"\n"
            );
        }
        for (param, bytes) in self.params.iter().zip(self.arguments) {
            let fields = fields(param, bytes, buffers);
            let _ = match fields.as_slice() {
                [field] => write!(text, "\n[[arg]]\n{field}\n"),
                fields => {
                    let fields: Vec<String> = fields.iter().map(|f| format!("{{ {f} }}")).collect();
                    write!(text, "\n[[arg]]\nstruct = [{}]\n", fields.join(", "))
                }
            };
        }
        Ok(text)
    }
}

/// A parameter as fields of a struct, whose alignment is the parameter's.
fn fields(param: &Param, bytes: &[u8], buffers: &BTreeMap<Address, usize>) -> Vec<String> {
    let unit = param.align.min(8);
    let field = |part: &[u8]| {
        let mut value = [0; 8];
        value[..part.len()].copy_from_slice(part);
        let value = u64::from_le_bytes(value);
        if part.len() == 8
            && let Some((base, size)) = buffers.range(..=value).next_back()
            && value - base < *size as u64
        {
            let number = buffers.range(..base).count();
            return match value - base {
                0 => format!("buffer = \"buffer_{number}\""),
                offset => {
                    format!("buffer = {{ name = \"buffer_{number}\", offset_bytes = {offset} }}")
                }
            };
        }
        format!("u{} = {value}", 8 * part.len())
    };
    bytes.chunks(unit).map(field).collect()
}

fn word(bytes: &[u8]) -> u64 {
    let mut value = [0; 8];
    value.copy_from_slice(bytes);
    u64::from_le_bytes(value)
}

/// The header of a .npy file with so many bytes.
fn header(bytes: usize) -> Vec<u8> {
    let mut text = format!("{{'descr': '|u1', 'fortran_order': False, 'shape': ({bytes},), }}");
    let prefix = 10;
    while (prefix + text.len() + 1) % 64 != 0 {
        text.push(' ');
    }
    text.push('\n');
    let mut header = b"\x93NUMPY\x01\x00".to_vec();
    header.extend((text.len() as u16).to_le_bytes());
    header.extend(text.bytes());
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    const PTX: &str = ".version 8.0 .target sm_80 .address_size 64
        .visible .entry k(.param .u64 a, .param .u32 n, .param .align 8 .b8 s[24]) { ret; }
        .visible .entry map(.param .align 64 .b8 m[128]) { ret; }";

    fn captured<'a>(params: &'a [Param], arguments: &'a [Vec<u8>]) -> Captured<'a> {
        Captured {
            name: "k",
            ptx: PTX,
            grid: [1, 2, 3],
            block: [32, 1, 1],
            cluster: Some([1, 2, 1]),
            shared_bytes: 16,
            params,
            arguments,
        }
    }

    fn range(address: Address) -> Option<(Address, usize)> {
        (0x1000..0x1100)
            .contains(&address)
            .then_some((0x1000, 0x100))
    }

    #[test]
    fn a_launch_becomes_files() {
        let params = params(PTX, "k").expect("the kernel is there");
        let words = |words: &[u64]| {
            words
                .iter()
                .flat_map(|w| w.to_le_bytes())
                .collect::<Vec<u8>>()
        };
        let arguments = [
            words(&[0x1000]),
            vec![7, 0, 0, 0],
            words(&[5, 0x1010, 0x2000]),
        ];
        let captured = captured(&params, &arguments);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let read = |address: Address, bytes: &mut [u8]| {
            bytes.fill(address as u8 + 1);
            Ok(())
        };
        let files = captured
            .write(folder.path(), 0x100, &range, &read)
            .expect("it is right");
        assert_eq!((files.buffers, files.bytes), (1, 0x100));
        let launch = fs::read_to_string(folder.path().join("launch.toml")).expect("it is there");
        let expected = "# A launch of k, captured in front of its driver.
kernel = \"k\"
grid = [1, 2, 3]
block = [32, 1, 1]
shared_bytes = 16
cluster = [1, 2, 1]

[[buffer]]
name = \"buffer_0\"
dtype = \"u8\"
shape = [256]
fill = \"buffer_0.npy\"

[[arg]]
buffer = \"buffer_0\"

[[arg]]
u32 = 7

[[arg]]
struct = [{ u64 = 5 }, { buffer = { name = \"buffer_0\", offset_bytes = 16 } }, { u64 = 8192 }]
";
        assert_eq!(launch, expected);
        let buffer = fs::read(folder.path().join("buffer_0.npy")).expect("it is there");
        assert_eq!(buffer.len(), 128 + 256);
        assert_eq!(buffer[128..], [1; 256]);
        let error = captured.write(folder.path(), 255, &range, &read).err();
        let error = error.expect("it is too large").to_string();
        assert!(
            error.starts_with("buffers of 256 bytes are more than 255"),
            "{error}"
        );
    }

    #[test]
    fn what_cannot_be_captured_is_an_error() {
        let params = params(PTX, "map").expect("the kernel is there");
        let arguments = [vec![0; 128]];
        let map = captured(&params, &arguments).buffers(&range).err();
        assert!(matches!(
            map,
            Some(CaptureError::TensorMap { number: 0, .. })
        ));
        assert!(matches!(
            super::params(PTX, "other"),
            Err(CaptureError::NoKernel)
        ));
        assert!(matches!(
            super::params("no PTX", "k"),
            Err(CaptureError::Ptx(_))
        ));
    }
}

//! `launch.toml`: the kernels to launch, and their arguments.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, ensure};
use serde::Deserialize;
use serde::de::IgnoredAny;
use warpsmith::DType;

use super::args::Arg;
use super::extents::{Extents, positive};
use super::fill::Fill;
use super::tensor_map::{Map, RawMap};

/// A file's launches, in the order in which they run, and what they share. Names and sizes are
/// checked, but not yet against the kernels.
#[derive(Debug)]
pub(super) struct Description {
    pub(super) launches: Vec<Launch>,
    pub(super) buffers: Vec<Buffer>,
    pub(super) maps: Vec<Map>,
}

/// A launch of one kernel.
#[derive(Debug)]
pub(super) struct Launch {
    pub(super) kernel: String,
    pub(super) grid: [u32; 3],
    pub(super) block: [u32; 3],
    pub(super) cluster: Option<[u32; 3]>,
    pub(super) shared_bytes: u32,
    pub(super) args: Vec<Arg>,
}

/// A buffer in device memory.
#[derive(Debug)]
pub(super) struct Buffer {
    pub(super) name: String,
    pub(super) dtype: DType,
    pub(super) shape: Vec<usize>,
    pub(super) bytes: usize,
    pub(super) fill: Fill,
    pub(super) seed: Option<u64>,
    pub(super) save: Option<PathBuf>,
    /// The variable of the PTX file whose memory it is.
    pub(super) variable: Option<String>,
}

/// A file with one launch, whose keys stand at the top.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSingle {
    kernel: String,
    grid: Extents,
    block: Extents,
    cluster: Option<Extents>,
    #[serde(default)]
    shared_bytes: u32,
    #[serde(default)]
    arg: Vec<Arg>,
    #[serde(default)]
    buffer: Vec<RawBuffer>,
    #[serde(default)]
    tensor_map: Vec<RawMap>,
}

/// Tells the two kinds of files apart.
#[derive(Deserialize)]
struct Probe {
    launch: Option<IgnoredAny>,
}

/// A file with `[[launch]]` tables.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSeveral {
    launch: Vec<RawLaunch>,
    #[serde(default)]
    buffer: Vec<RawBuffer>,
    #[serde(default)]
    tensor_map: Vec<RawMap>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawLaunch {
    kernel: String,
    grid: Extents,
    block: Extents,
    cluster: Option<Extents>,
    #[serde(default)]
    shared_bytes: u32,
    #[serde(default)]
    arg: Vec<Arg>,
}

impl From<RawSingle> for RawSeveral {
    fn from(raw: RawSingle) -> Self {
        Self {
            launch: vec![RawLaunch {
                kernel: raw.kernel,
                grid: raw.grid,
                block: raw.block,
                cluster: raw.cluster,
                shared_bytes: raw.shared_bytes,
                arg: raw.arg,
            }],
            buffer: raw.buffer,
            tensor_map: raw.tensor_map,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawBuffer {
    name: String,
    dtype: String,
    shape: Vec<usize>,
    fill: String,
    seed: Option<u64>,
    save: Option<PathBuf>,
    variable: Option<String>,
}

/// Reads and checks the file; paths in it become relative to the current directory.
pub(super) fn read(path: &Path) -> Result<Description> {
    let describe = || format!("cannot read {}", path.display());
    let bytes = crate::commands::read_bounded(path).with_context(describe)?;
    let text = String::from_utf8(bytes)
        .ok()
        .context("it is not text")
        .with_context(describe)?;
    let folder = path.parent().unwrap_or(Path::new(""));
    parse(&text, folder).with_context(|| path.display().to_string())
}

fn parse(text: &str, folder: &Path) -> Result<Description> {
    let has_tables = toml::from_str(text).is_ok_and(|probe: Probe| probe.launch.is_some());
    let raw = match has_tables {
        true => toml::from_str::<RawSeveral>(text),
        false => toml::from_str::<RawSingle>(text).map(Into::into),
    };
    let raw = raw.map_err(|error| located(text, &error))?;
    ensure!(!raw.launch.is_empty(), "launch: there is none");
    let buffers = buffers(raw.buffer, folder)?;
    let maps = super::tensor_map::check(raw.tensor_map, &buffers)?;
    let count = raw.launch.len();
    let launches = raw.launch.into_iter().enumerate();
    let launches = launches.map(|(at, raw)| in_launch(at, count, launch(raw, &buffers, &maps)));
    Ok(Description {
        launches: launches.collect::<Result<_>>()?,
        buffers,
        maps,
    })
}

/// A result of one of `count` launches; an error says which one, if there are several.
pub(super) fn in_launch<T>(at: usize, count: usize, result: Result<T>) -> Result<T> {
    match count {
        1 => result,
        _ => result.with_context(|| format!("launch {}", at + 1)),
    }
}

fn launch(raw: RawLaunch, buffers: &[Buffer], maps: &[Map]) -> Result<Launch> {
    check_names(&raw.arg, buffers, maps)?;
    let cluster = raw.cluster.map(|cluster| positive("cluster", cluster));
    Ok(Launch {
        kernel: raw.kernel,
        grid: positive("grid", raw.grid)?,
        block: positive("block", raw.block)?,
        cluster: cluster.transpose()?,
        shared_bytes: raw.shared_bytes,
        args: raw.arg,
    })
}

fn buffers(raw: Vec<RawBuffer>, folder: &Path) -> Result<Vec<Buffer>> {
    let mut names = BTreeSet::new();
    let mut places = BTreeSet::new();
    let mut buffers = Vec::new();
    for raw in raw {
        let name = raw.name.clone();
        ensure!(
            names.insert(name.clone()),
            "two buffers have the name `{name}`"
        );
        let buffer = buffer(raw, folder).with_context(|| format!("buffer `{name}`"))?;
        if let Some(save) = &buffer.save {
            let is_new = places.insert(save.clone());
            ensure!(
                is_new,
                "buffer `{name}`: save: {} is saved to already",
                save.display()
            );
        }
        buffers.push(buffer);
    }
    Ok(buffers)
}

/// Checks that the buffers and maps that arguments refer to exist.
fn check_names(args: &[Arg], buffers: &[Buffer], maps: &[Map]) -> Result<()> {
    for (index, arg) in args.iter().enumerate() {
        for leaf in arg.leaves() {
            check_name(leaf, buffers, maps).with_context(|| format!("arg {}", index + 1))?;
        }
    }
    Ok(())
}

fn check_name(arg: &Arg, buffers: &[Buffer], maps: &[Map]) -> Result<()> {
    let (name, known): (_, Vec<&str>) = match arg {
        Arg::Buffer(pointer) => (
            pointer.name(),
            buffers.iter().map(|b| b.name.as_str()).collect(),
        ),
        Arg::Map(name) => (
            name.as_str(),
            maps.iter().map(|m| m.name.as_str()).collect(),
        ),
        _ => return Ok(()),
    };
    let key = arg.key();
    ensure!(
        known.contains(&name),
        "{key} = \"{name}\": no such {key}; there are: {}",
        listed(&known)
    );
    if let Arg::Buffer(pointer) = arg
        && let Some(buffer) = buffers.iter().find(|buffer| buffer.name == name)
    {
        let offset = pointer.offset_bytes();
        ensure!(
            offset <= buffer.bytes as u64,
            "offset_bytes = {offset}: buffer `{name}` has {} bytes",
            buffer.bytes
        );
    }
    Ok(())
}

/// The error message with its line number; toml's own display is several lines.
fn located(text: &str, error: &toml::de::Error) -> anyhow::Error {
    let message = match error.message() {
        // serde's message for a table that is an enum.
        words if words.starts_with("wanted exactly 1 element") => {
            "a value is one key: buffer, map, u8, i8, u16, i16, u32, i32, u64, i64, f32, f64 or struct"
        }
        words => words,
    };
    match error.span() {
        Some(span) => {
            let before = text.get(..span.start).unwrap_or_default();
            anyhow!("line {}: {message}", before.matches('\n').count() + 1)
        }
        None => anyhow!("{message}"),
    }
}

fn buffer(raw: RawBuffer, folder: &Path) -> Result<Buffer> {
    let dtype = DType::from_name(&raw.dtype).with_context(|| {
        let known = DType::ALL.map(DType::name).join(", ");
        format!("dtype: `{}` is not one of {known}", raw.dtype)
    })?;
    let bytes = raw
        .shape
        .iter()
        .try_fold(dtype.size_bytes(), |bytes, extent| {
            bytes.checked_mul(*extent)
        })
        .filter(|bytes| isize::try_from(*bytes).is_ok())
        .with_context(|| format!("shape: {:?} is larger than memory can be", raw.shape))?;
    let fill = Fill::parse(&raw.fill, folder)?;
    fill.check_dtype(dtype)?;
    Ok(Buffer {
        name: raw.name,
        dtype,
        shape: raw.shape,
        bytes,
        fill,
        seed: raw.seed,
        save: raw.save.map(|path| folder.join(path)),
        variable: raw.variable,
    })
}

pub(super) fn listed(names: &[&str]) -> String {
    match names {
        [] => "none".into(),
        names => names.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
kernel = "k"
grid = [4, 2]
block = 32
shared_bytes = 16
[[buffer]]
name = "x"
dtype = "bf16"
shape = [3, 5]
fill = "normal"
seed = 7
save = "x.npy"
[[arg]]
buffer = "x"
[[arg]]
u64 = 18446744073709551615
[[arg]]
f32 = 1
[[arg]]
struct = [{ u32 = 1 }, { f64 = -0.5 }, { i32 = -1 }]
"#;

    fn error(text: &str) -> String {
        format!("{:#}", parse(text, Path::new("folder")).expect_err(text))
    }

    #[test]
    fn every_key_is_read() {
        let file = parse(GOOD, Path::new("folder")).expect("a good file");
        let launch = &file.launches[0];
        assert_eq!((launch.grid, launch.block), ([4, 2, 1], [32, 1, 1]));
        assert_eq!(launch.shared_bytes, 16);
        let x = &file.buffers[0];
        assert_eq!((x.dtype, x.bytes, x.seed), (DType::Bf16, 30, Some(7)));
        assert_eq!(x.save.as_deref(), Some(Path::new("folder/x.npy")));
        assert_eq!(launch.args[1], Arg::U64(u64::MAX));
        assert_eq!(launch.args[2], Arg::F32(1.0));
    }

    #[test]
    fn launches_share_buffers_and_errors_name_the_launch() {
        let buffer = "[[buffer]]\nname = \"x\"\ndtype = \"u8\"\nshape = [4]\nfill = \"zeros\"\n";
        let one = "[[launch]]\nkernel = \"a\"\ngrid = 1\nblock = 32\narg = [{ buffer = \"x\" }]\n";
        let other = "[[launch]]\nkernel = \"b\"\ngrid = 2\nblock = 64\n[[launch.arg]]\nu32 = 7\n";
        let text = format!("{buffer}{one}{other}");
        let file = parse(&text, Path::new("")).expect("a good file");
        let [a, b] = &file.launches[..] else {
            panic!("{:?}", file.launches);
        };
        assert_eq!((a.kernel.as_str(), b.kernel.as_str()), ("a", "b"));
        assert_eq!((b.grid, &b.args[..]), ([2, 1, 1], &[Arg::U32(7)][..]));
        let two = error(&format!("{text}[[launch.arg]]\nbuffer = \"y\"\n"));
        assert!(
            two.starts_with("launch 2: arg 2: buffer = \"y\": no such"),
            "{two}"
        );
        let mixed = error(&format!("kernel = \"c\"\n{text}"));
        assert!(
            mixed.starts_with("line 1: unknown field `kernel`"),
            "{mixed}"
        );
        assert!(error("launch = []").contains("launch: there is none"));
    }

    #[test]
    fn faults_name_line_and_key() {
        for (from, to, want) in [
            (
                "block = 32",
                "block = 32\nblocks = 1",
                "line 5: unknown field `blocks`",
            ),
            ("seed = 7", "sed = 7", "unknown field `sed`"),
            ("kernel = \"k\"", "", "missing field `kernel`"),
            (
                "grid = [4, 2]",
                "grid = [4, 0]",
                "grid: [4, 0, 1] has an extent of 0",
            ),
            ("grid = [4, 2]", "grid = []", "one to three extents"),
            (
                "grid = [4, 2]",
                "grid = [1, 1, 1, 1]",
                "one to three extents",
            ),
            ("grid = [4, 2]", "grid = -4", "one to three extents"),
            ("grid = [4, 2]", "grid = \"4\"", "one to three extents"),
            ("block = 32", "block = [4294967296]", "line 4: "),
            (
                "\"bf16\"",
                "\"float\"",
                "buffer `x`: dtype: `float` is not one of f64, f32",
            ),
            ("[3, 5]", "[-3, 5]", "line 9: "),
            ("[3, 5]", "[9223372036854775807, 5]", "shape: "),
            (
                "\"normal\"",
                "\"noise\"",
                "buffer `x`: fill: `noise` is not one of normal",
            ),
            (
                "buffer = \"x\"",
                "buffer = \"y\"",
                "arg 1: buffer = \"y\": no such buffer; there are: x",
            ),
            ("f32 = 1\n", "f32 = 1\nu32 = 1\n", "line "),
            ("f32 = 1\n", "f16 = 1\n", "unknown variant `f16`"),
            ("u64 = 18446744073709551615", "u32 = -1", "line "),
            ("kernel = \"k\"", "kernel = ", "line 2: "),
        ] {
            let broken = GOOD.replacen(from, to, 1);
            let message = error(&broken);
            assert!(message.contains(want), "{to}: {message}");
        }
    }

    #[test]
    fn two_buffers_share_neither_name_nor_place() {
        let second = "[[buffer]]\nname = \"NAME\"\ndtype = \"u8\"\nshape = []\nfill = \"zeros\"\n\
                      save = \"PLACE\"\n";
        let with = |name: &str, place: &str| {
            error(&format!(
                "{GOOD}{}",
                second.replace("NAME", name).replace("PLACE", place)
            ))
        };
        assert!(with("x", "y.npy").contains("two buffers have the name `x`"));
        assert!(with("y", "x.npy").contains("is saved to already"));
    }
}

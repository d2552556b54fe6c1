//! Skeletons: kernels with holes.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::text::{Function, Pieces, names};
use super::{Filling, Fragment, FuseError};
use ptx_syntax::ast::READS_ONCE;

/// Marks a line as a hole; it follows the placeholder instruction.
const MARK: &str = "// hole ";

/// A kernel with holes, extracted from PTX that cuda_builder built.
#[derive(Clone, Debug)]
pub struct Skeleton {
    name: Box<str>,
    version: Box<str>,
    target: Box<str>,
    variables: Vec<Box<str>>,
    header: Box<str>,
    /// Names of the parameters and their bytes.
    params: Vec<(Box<str>, u32)>,
    body: Vec<Line>,
}

#[derive(Clone, Debug)]
enum Line {
    Text(Box<str>),
    Hole {
        name: Box<str>,
        outputs: Vec<Box<str>>,
        inputs: Vec<Box<str>>,
    },
}

impl Skeleton {
    /// Extracts the kernel `name` from a module's text.
    ///
    /// # Errors
    /// [`KernelError::Fuse`](crate::KernelError::Fuse) with [`FuseError::UnknownSkeleton`].
    pub fn from_ptx(ptx: &str, name: &str) -> crate::Result<Self> {
        Ok(Self::of(&Pieces::of(ptx), name)?)
    }

    pub(super) fn of(pieces: &Pieces<'_>, name: &str) -> Result<Self, FuseError> {
        let unknown = || FuseError::UnknownSkeleton { name: name.into() };
        let kernel = pieces.function(name, true).ok_or_else(unknown)?;
        let variables = pieces.variables.iter().filter(|variable| {
            let name = super::text::variable_name(variable);
            kernel.body.iter().any(|line| names(line, name))
        });
        Ok(Self {
            name: name.into(),
            version: pieces.version.into(),
            target: pieces.target.into(),
            variables: variables.map(|&line| line.into()).collect(),
            header: kernel.header.join("\n").into(),
            params: params(kernel),
            body: kernel.body.iter().map(|line| Line::of(line)).collect(),
        })
    }

    /// The kernel with one more parameter, of so many bytes, behind the others. Returns its index.
    pub(crate) fn add_param(&mut self, bytes: u32) -> usize {
        let index = self.params.len();
        let name = format!("{}_param_{index}", self.name);
        let last = self.params.last().map_or("", |(name, _)| &**name);
        let lines = self.header.lines().map(|line| {
            let declares = line.starts_with(".param") && names(line, last);
            match declares {
                true => format!("{line},\n.param .align 8 .b8 {name}[{bytes}]"),
                false => line.to_owned(),
            }
        });
        self.header = lines.collect::<Vec<_>>().join("\n").into();
        self.params.push((name.into(), bytes));
        index
    }

    /// Name of the kernel.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Names of the holes, without repetition.
    pub fn holes(&self) -> BTreeSet<&str> {
        let holes = self.body.iter().filter_map(|line| match line {
            Line::Hole { name, .. } => Some(&**name),
            Line::Text(_) => None,
        });
        holes.collect()
    }

    /// The PTX of a module with this kernel alone and its holes filled. `fill` is called once for
    /// each name of a hole.
    ///
    /// # Errors
    /// [`FuseError::Unfilled`] where `fill` returns `None`, [`FuseError::Misfit`], and the errors
    /// of `fill`.
    pub fn compose<E: From<FuseError>>(
        &self,
        mut fill: impl FnMut(&str) -> Result<Option<Filling>, E>,
    ) -> Result<String, E> {
        let mut fillings = Vec::new();
        for hole in self.holes() {
            let filling = fill(hole)?.ok_or_else(|| FuseError::Unfilled {
                hole: hole.into(),
                kernel: self.name.clone(),
            })?;
            fillings.push((hole, filling));
        }
        let fragments = || {
            fillings.iter().flat_map(|(_, filling)| match filling {
                Filling::Body(body) => body.fragments().collect(),
                _ => Vec::new(),
            })
        };
        let versions = fragments().map(Fragment::version).chain([&*self.version]);
        let targets = fragments().map(Fragment::target).chain([&*self.target]);
        let mut out = format!(
            ".version {}\n.target {}\n.address_size 64\n",
            versions
                .max_by_key(|version| numbers(version))
                .unwrap_or(""),
            targets.max_by_key(|target| numbers(target)).unwrap_or(""),
        );
        let own = self.variables.iter().map(|line| &**line);
        let of_fragments = fragments()
            .flat_map(Fragment::variables)
            .map(|line| &**line);
        for variable in own.chain(of_fragments).collect::<BTreeSet<_>>() {
            // Writing to a string does not fail.
            let _ = writeln!(out, "{variable}");
        }
        let _ = writeln!(out, "{}\n{{", self.header);
        for line in &self.body {
            match line {
                Line::Text(text) => {
                    let _ = writeln!(out, "{text}");
                }
                Line::Hole {
                    name,
                    outputs,
                    inputs,
                } => {
                    let filling = fillings.iter().find(|(hole, _)| *hole == &**name);
                    let written = filling.map_or(Ok(()), |(_, filling)| {
                        self.write(&mut out, name, filling, (outputs, inputs))
                    });
                    written.map_err(|reason| FuseError::Misfit {
                        hole: name.clone(),
                        kernel: self.name.clone(),
                        reason: reason.into(),
                    })?;
                }
            }
        }
        out.push_str("}\n");
        Ok(out)
    }

    fn write(
        &self,
        out: &mut String,
        name: &str,
        filling: &Filling,
        (outputs, inputs): (&[Box<str>], &[Box<str>]),
    ) -> Result<(), String> {
        let outputs: Vec<&str> = outputs.iter().map(|name| &**name).collect();
        let inputs: Vec<&str> = inputs.iter().map(|name| &**name).collect();
        match (filling, &outputs[..], &inputs[..]) {
            (Filling::Nothing, ..) => {}
            (Filling::Constant(number), [to], []) => {
                let _ = writeln!(out, "mov.b32\t{to},{number};");
            }
            (Filling::Constant(_), ..) => {
                return Err("a constant fills a hole of one output and no inputs".to_owned());
            }
            (Filling::Load(bytes) | Filling::LoadOnce(bytes), words, [address]) => {
                for unused in words.iter().skip(bytes.div_ceil(4) as usize) {
                    let _ = writeln!(out, "mov.b32\t{unused},0;");
                }
                let (width, words) = access(*bytes, words)?;
                let mark = match filling {
                    Filling::LoadOnce(_) => READS_ONCE,
                    _ => "",
                };
                let load = format!("ld.global.{width}\t{words},[{address}]; {mark}");
                let _ = writeln!(out, "{}", load.trim_end());
            }
            (Filling::Load(_) | Filling::LoadOnce(_), ..) => {
                return Err("a load fills a hole whose only input is an address".to_owned());
            }
            (Filling::Store(bytes), [], [address, words @ ..]) => {
                let (width, words) = access(*bytes, words)?;
                let _ = writeln!(out, "st.global.{width}\t[{address}],{words};");
            }
            (Filling::Store(_), ..) => {
                return Err("a store fills a hole without outputs".to_owned());
            }
            (Filling::Body(body), ..) => {
                let params = self.params.iter().map(|(name, bytes)| (&**name, *bytes));
                let params: Vec<(&str, u32)> = params.collect();
                body.write(out, name, &outputs, &inputs, &params)?;
            }
        }
        Ok(())
    }
}

impl Line {
    fn of(line: &str) -> Self {
        let hole = line.split_once(MARK).and_then(|(_, hole)| {
            let (head, inputs) = hole.split_once("<-")?;
            let mut head = head.split_ascii_whitespace();
            Some(Self::Hole {
                name: head.next()?.into(),
                outputs: head.map(Into::into).collect(),
                inputs: inputs.split_ascii_whitespace().map(Into::into).collect(),
            })
        });
        hole.unwrap_or_else(|| Self::Text(line.into()))
    }
}

/// The PTX type of an access of `bytes` bytes, and its register operand.
fn access(bytes: u32, words: &[&str]) -> Result<(&'static str, String), String> {
    let (width, count) = match bytes {
        1 => ("u8", 1),
        2 => ("u16", 1),
        4 => ("b32", 1),
        8 => ("v2.b32", 2),
        16 => ("v4.b32", 4),
        _ => return Err(format!("an access has 1, 2, 4, 8 or 16 bytes, not {bytes}")),
    };
    let words = words
        .get(..count)
        .ok_or_else(|| format!("{bytes} bytes are {count} words, it has {}", words.len()))?;
    Ok(match words {
        [word] => (width, (*word).to_owned()),
        _ => (width, format!("{{{}}}", words.join(","))),
    })
}

/// Names and sizes of a kernel's parameters.
fn params(kernel: &Function<'_>) -> Vec<(Box<str>, u32)> {
    let lines = kernel
        .header
        .iter()
        .filter(|line| line.starts_with(".param"));
    let param = |line: &&str| {
        let line = line.trim_end_matches([',', ')']);
        let last = line.split_ascii_whitespace().next_back().unwrap_or("");
        match last.split_once('[') {
            Some((name, bytes)) => (
                name.into(),
                bytes.trim_end_matches(']').parse().unwrap_or(0),
            ),
            None if line.contains("64 ") => (last.into(), 8),
            None => (last.into(), 4),
        }
    };
    lines.map(param).collect()
}

/// The numbers in texts like `8.1` and `sm_90a`, to compare versions.
fn numbers(text: &str) -> Vec<u32> {
    let digits = text.split(|c: char| !c.is_ascii_digit());
    digits.filter_map(|digits| digits.parse().ok()).collect()
}

//! Counts the machine code's instructions by class.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// A class of instructions: how it is printed, and the opcodes that belong to it.
const CLASSES: [(&str, &[&str]); 14] = [
    ("HGMMA", &["HGMMA", "IGMMA", "QGMMA"]),
    ("MMA", &["HMMA", "IMMA", "DMMA", "QMMA"]),
    ("FMA", &["FFMA", "FFMA2", "DFMA", "HFMA2", "IDP"]),
    ("MUFU", &["MUFU"]),
    ("LDG", &["LDG", "LD"]),
    ("STG", &["STG", "ST"]),
    ("TMA", &["UTMALDG", "UTMASTG", "UTMAREDG", "UBLKCP"]),
    ("LDGSTS", &["LDGSTS"]),
    ("LDS", &["LDS", "LDSM"]),
    ("STS", &["STS", "STSM"]),
    ("SHFL", &["SHFL", "REDUX", "VOTE"]),
    ("ATOM", &["ATOM", "ATOMG", "ATOMS", "RED", "REDG"]),
    (
        "BAR",
        &["BAR", "SYNCS", "UCGABAR_ARV", "UCGABAR_WAIT", "WARPSYNC"],
    ),
    ("local", &["LDL", "STL"]),
];

/// nvdisasm.
#[derive(Debug)]
pub(crate) struct Disassembler(PathBuf);

impl Disassembler {
    /// Looks beside ptxas and in PATH.
    ///
    /// # Errors
    /// How to install it.
    pub(crate) fn discover(ptxas: &Path) -> Result<Self, String> {
        let name = format!("nvdisasm{}", std::env::consts::EXE_SUFFIX);
        let path = std::env::var_os("PATH").unwrap_or_default();
        let beside = ptxas.parent().map(Path::to_owned);
        let folders = beside.into_iter().chain(std::env::split_paths(&path));
        let found = folders.map(|folder| folder.join(&name));
        let found = found.into_iter().find(|program| program.is_file());
        found.map(Self).ok_or_else(|| {
            "there is no nvdisasm beside ptxas or in PATH; \
             `python3 -m pip install nvidia-cuda-nvdisasm` installs it"
                .to_owned()
        })
    }

    /// The instructions of each kernel of a cubin.
    pub(crate) fn summaries(&self, cubin: &Path) -> Result<BTreeMap<String, Summary>> {
        let mut command = Command::new(&self.0);
        let output = command.arg("-c").arg(cubin).output();
        let output = output.with_context(|| self.0.display().to_string())?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("{}: {}", self.0.display(), said.trim());
        }
        Ok(count(&String::from_utf8_lossy(&output.stdout)))
    }
}

/// How many instructions of each class a kernel has: widths in bits are counted apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Summary {
    total: usize,
    classes: BTreeMap<(usize, Option<u32>), usize>,
}

impl Summary {
    fn add(&mut self, instruction: &str) {
        let mut parts = instruction.split('.');
        let opcode = parts.next().unwrap_or_default();
        if opcode == "NOP" {
            return;
        }
        self.total += 1;
        let class = CLASSES.iter().position(|(_, all)| all.contains(&opcode));
        if let Some(class) = class {
            let is_memory = matches!(CLASSES[class].0, "LDG" | "STG" | "LDGSTS" | "LDS" | "STS");
            let width = is_memory.then(|| width(opcode, parts));
            *self.classes.entry((class, width)).or_default() += 1;
        }
    }
}

/// Bits that a lane accesses.
fn width<'a>(opcode: &str, mut parts: impl Iterator<Item = &'a str>) -> u32 {
    let matrices = opcode == "LDSM" || opcode == "STSM";
    let of_part = |part: &str| match part {
        "256" => Some(256),
        "128" => Some(128),
        "64" => Some(64),
        "U16" | "S16" => Some(16),
        "U8" | "S8" => Some(8),
        "4" if matrices => Some(128),
        "2" if matrices => Some(64),
        _ => None,
    };
    parts.find_map(of_part).unwrap_or(32)
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} instructions", self.total)?;
        for ((class, width), count) in &self.classes {
            write!(f, ", {}", CLASSES[*class].0)?;
            if let Some(width) = width {
                write!(f, ".{width}")?;
            }
            write!(f, " {count}")?;
        }
        Ok(())
    }
}

/// Counts what `nvdisasm -c` prints.
fn count(text: &str) -> BTreeMap<String, Summary> {
    let mut kernels: BTreeMap<String, Summary> = BTreeMap::new();
    let mut current = None;
    for line in text.lines() {
        if let Some(name) = line.trim().strip_prefix(".section\t.text.") {
            let name = name.split(',').next().unwrap_or_default();
            current = Some(kernels.entry(name.to_owned()).or_default());
        } else if let (Some(kernel), Some(instruction)) = (&mut current, instruction(line)) {
            kernel.add(instruction);
        }
    }
    kernels
}

/// `LDG.E.128` of `/*0040*/ @P0 LDG.E.128 R4, .. ;`.
fn instruction(line: &str) -> Option<&str> {
    let (address, rest) = line.trim().strip_prefix("/*")?.split_once("*/")?;
    u32::from_str_radix(address, 16).ok()?;
    rest.split_whitespace()
        .find(|word| !word.starts_with('@') && word.starts_with(|c: char| c.is_ascii_uppercase()))
        .map(|word| word.trim_end_matches(';'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
.section\t.text.k,\"ax\",@progbits
.text.k:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/               @P0 LDG.E.128 R4, desc[UR4][R2.64] ;
        /*0020*/              @!P1 LDG.E.U16 R8, desc[UR4][R2.64] ;
        /*0030*/                   LDSM.16.M88.4 R8, [R2] ;
        /*0040*/                   MUFU.EX2 R0, R0 ;
        /*0050*/                   BAR.SYNC.DEFER_BLOCKING 0x0 ;
        /*0060*/                   EXIT ;
.L_x_0:
        /*0070*/                   NOP;
";

    #[test]
    fn instructions_are_counted_by_class_and_width() {
        let kernels = count(TEXT);
        assert_eq!(
            kernels["k"].to_string(),
            "7 instructions, MUFU 1, LDG.16 1, LDG.128 1, LDS.128 1, BAR 1"
        );
    }
}

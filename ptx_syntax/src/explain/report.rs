//! The statistics, and the table that they are printed as.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::isa::Class;
use crate::lint::SyncCounts;

/// Statistics of a module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ModuleReport {
    /// `.version`
    pub version: (u32, u32),
    /// `.target` list.
    pub targets: Vec<String>,
    /// Bits of an address.
    pub address_size: u32,
    /// Its kernels, in order.
    pub kernels: Vec<KernelReport>,
}

/// Statistics of a kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KernelReport {
    /// Entry name.
    pub name: String,
    /// Line of the name.
    pub line: u32,
    /// Parameters, in order.
    pub params: Vec<ParamReport>,
    /// `.maxntid`
    pub max_threads: Option<[u32; 3]>,
    /// `.reqntid`
    pub required_threads: Option<[u32; 3]>,
    /// `.minnctapersm`
    pub min_blocks: Option<u32>,
    /// `.maxnreg`
    pub max_registers: Option<u32>,
    /// `.reqnctapercluster`
    pub cluster: Option<[u32; 3]>,
    /// Whether its blocks wait for each other, and so it takes a cooperative launch: it reads the grid's
    /// workspace (`%envreg1`, `%envreg2`), which no other launch has.
    pub cooperative: bool,
    /// Number of virtual registers declared, by type; ptxas decides how many real ones they take.
    pub registers: BTreeMap<String, u64>,
    /// Bytes of shared memory declared with a size, in the kernel and what it calls.
    pub static_shared_bytes: u64,
    /// Whether it uses shared memory whose size the launch gives.
    pub uses_dynamic_shared: bool,
    /// Bytes of local memory declared.
    pub local_bytes: u64,
    /// Device functions that it calls or mentions, directly or through others.
    pub calls: Vec<String>,
    /// Counts of collective instructions.
    pub sync: SyncCounts,
    /// Instructions in its text.
    pub instructions: usize,
    /// Instructions by class; a class without any has no entry.
    pub mix: BTreeMap<Class, usize>,
}

/// A kernel parameter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ParamReport {
    /// Name in the PTX.
    pub name: String,
    /// Element type, without its dot.
    #[serde(rename = "type")]
    pub ty: String,
    /// Size in bytes; `None` for an array without a size.
    pub bytes: Option<u64>,
    /// Alignment in bytes.
    pub align: u32,
}

impl fmt::Display for ModuleReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor) = self.version;
        let kernels = self.kernels.len();
        let plural = if kernels == 1 { "" } else { "s" };
        let targets = self.targets.join(", ");
        writeln!(
            f,
            "PTX {major}.{minor} for {targets}: {kernels} kernel{plural}"
        )?;
        for kernel in &self.kernels {
            write!(f, "\n{kernel}")?;
        }
        Ok(())
    }
}

impl fmt::Display for KernelReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} (line {})", self.name, self.line)?;
        row(f, "parameters", &self.params_text())?;
        row(f, "launch bounds", &self.bounds_text())?;
        row(f, "registers", &joined(&self.registers))?;
        let dynamic = if self.uses_dynamic_shared {
            " + dynamic"
        } else {
            ""
        };
        row(
            f,
            "shared memory",
            &format!("{} bytes{dynamic}", self.static_shared_bytes),
        )?;
        row(f, "local memory", &format!("{} bytes", self.local_bytes))?;
        if let Some(text) = self.sync_text() {
            row(f, "collective", &text)?;
        }
        if !self.calls.is_empty() {
            row(f, "calls", &self.calls.join(", "))?;
        }
        row(f, "instructions", &self.instructions.to_string())?;
        let mut mix: Vec<_> = self.mix.iter().collect();
        mix.sort_by_key(|(class, count)| (std::cmp::Reverse(**count), **class));
        for (class, count) in mix {
            let percent = 100.0 * *count as f64 / self.instructions.max(1) as f64;
            writeln!(f, "    {class:<12}{count:>8}{percent:>7.1} %")?;
        }
        Ok(())
    }
}

impl KernelReport {
    fn params_text(&self) -> String {
        if self.params.is_empty() {
            return "none".into();
        }
        let all: Vec<String> = self.params.iter().map(ParamReport::to_string).collect();
        all.join(", ")
    }

    /// The counts of collective instructions as text; `None` if there are none.
    fn sync_text(&self) -> Option<String> {
        let sync = &self.sync;
        let all: Vec<String> = [
            (sync.aligned_barriers, "aligned barriers"),
            (sync.unaligned_barriers, "unaligned barriers"),
            (sync.cluster_barriers, "cluster barriers"),
            (sync.wgmma, "wgmma"),
            (sync.other_aligned, "other aligned"),
        ]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
        (!all.is_empty()).then(|| all.join(", "))
    }

    fn bounds_text(&self) -> String {
        let extents = |[x, y, z]: [u32; 3]| format!("{x} x {y} x {z}");
        let all: Vec<String> = [
            self.max_threads
                .map(|e| format!("at most {} threads", extents(e))),
            self.required_threads
                .map(|e| format!("exactly {} threads", extents(e))),
            self.min_blocks
                .map(|n| format!("at least {n} blocks a multiprocessor")),
            self.max_registers.map(|n| format!("at most {n} registers")),
            self.cluster.map(|e| format!("clusters of {}", extents(e))),
            self.cooperative.then(|| "cooperative".to_owned()),
        ]
        .into_iter()
        .flatten()
        .collect();
        if all.is_empty() {
            "none".into()
        } else {
            all.join(", ")
        }
    }
}

impl fmt::Display for ParamReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.bytes {
            Some(bytes) => write!(f, "{} ({} bytes)", self.ty, bytes),
            None => write!(f, "{}[]", self.ty),
        }
    }
}

fn row(f: &mut fmt::Formatter<'_>, title: &str, text: &str) -> fmt::Result {
    writeln!(f, "  {title:<14}{text}")
}

fn joined(counts: &BTreeMap<String, u64>) -> String {
    if counts.is_empty() {
        return "none".into();
    }
    let all: Vec<String> = counts
        .iter()
        .map(|(ty, count)| format!("{count} {ty}"))
        .collect();
    all.join(", ")
}

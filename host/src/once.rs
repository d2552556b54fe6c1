//! What is read once, in a kernel that is loaded for a device where L2 should know.
//!
//! Lines of PTX that end in [`MARK`] load or prefetch what the kernel reads once
//! (`cuda_std::mem::ld_global_once_v4_u32`). Kernels for every GPU cannot say more than that:
//! cache policies begin with sm_80. Where a launch [`streams`], L2 is told to evict such data last.
//! Nobody reads it again; but what the kernel writes then seems to leave L2 sooner and in longer
//! runs: what reads and writes as much takes 1 to 5 % less time.
//!
//! Of smaller tensors L2 keeps a part of the results, which the next kernel may read from it. There
//! the policy costs up to 7 % (`docs/rows.md`).

use crate::Device;
use std::fmt::Write as _;

/// The end of a line of PTX that reads once.
pub(crate) const MARK: &str = " // once";

/// Compute capability where L2 is told so: it was measured on an H200 and on an H100.
const ARCH: (u32, u32) = (9, 0);

/// How many times the bytes of L2 a launch reads and writes at least, where that pays.
const TIMES_L2: u64 = 6;

/// Whether a launch on `device` that reads and writes `bytes` in all tells L2 what it reads once.
pub(crate) fn streams(device: &Device, bytes: u64) -> bool {
    let info = device.info();
    info.arch == ARCH && bytes >= TIMES_L2 * info.l2_bytes
}

/// PTX version and target that cache policies need.
const LEAST_VERSION: (u32, u32) = (7, 4);
const LEAST_TARGET: u32 = 80;

/// The text of a module for launches that stream. Lines keep their numbers.
pub(crate) fn read_once(ptx: &str) -> String {
    let mut out = String::with_capacity(ptx.len() + ptx.len() / 8);
    for line in ptx.lines() {
        let written = marked(line).or_else(|| head(line));
        out.push_str(written.as_deref().unwrap_or(line));
        out.push('\n');
    }
    out
}

/// A line that reads once, with its policy.
fn marked(line: &str) -> Option<String> {
    let access = line.strip_suffix(MARK)?;
    if let Some(address) = access.strip_prefix("prefetch.global.L2") {
        return Some(format!("prefetch.global.L2::evict_last{address}"));
    }
    let load = access.strip_prefix("ld.global")?.strip_suffix(';')?;
    let mut out = String::from(
        "{.reg .b64 once;createpolicy.fractional.L2::evict_last.b64 once,1.0;ld.global",
    );
    // Writing to a string does not fail.
    let _ = write!(out, ".L2::cache_hint{load},once;}}");
    Some(out)
}

/// A line that says which version or target the module needs, where policies need a newer one.
fn head(line: &str) -> Option<String> {
    if let Some(version) = line.strip_prefix(".version ") {
        let (major, minor) = version.trim().split_once('.')?;
        let has = (major.parse().ok()?, minor.parse().ok()?);
        let (major, minor) = LEAST_VERSION;
        return (has < LEAST_VERSION).then(|| format!(".version {major}.{minor}"));
    }
    let target = line.strip_prefix(".target sm_")?.trim();
    let digits = target.trim_end_matches(|c: char| !c.is_ascii_digit());
    let is_older = digits.parse::<u32>().ok()? < LEAST_TARGET;
    is_older.then(|| format!(".target sm_{LEAST_TARGET}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PTX: &str = "\
.version 6.3
.target sm_75
ld.global.v4.u32 {%r1,%r2,%r3,%r4},[%D1]; // once
ld.global.b16\t%h1,[%D1+2]; // once
prefetch.global.L2 [%D2]; // once
ld.global.b32\t%r1,[%D1];
";

    #[test]
    fn marked_lines_get_a_policy() {
        let policy = "{.reg .b64 once;createpolicy.fractional.L2::evict_last.b64 once,1.0;";
        let want = format!(
            "\
.version 7.4
.target sm_80
{policy}ld.global.L2::cache_hint.v4.u32 {{%r1,%r2,%r3,%r4}},[%D1],once;}}
{policy}ld.global.L2::cache_hint.b16\t%h1,[%D1+2],once;}}
prefetch.global.L2::evict_last [%D2];
ld.global.b32\t%r1,[%D1];
"
        );
        assert_eq!(read_once(PTX), want);
    }

    #[test]
    fn newer_modules_keep_their_version_and_target() {
        let ptx = PTX.replace("6.3", "8.0").replace("sm_75", "sm_90a");
        let got = read_once(&ptx);
        assert!(got.starts_with(".version 8.0\n.target sm_90a\n"), "{got}");
    }
}

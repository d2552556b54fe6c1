//! The kernels that are embedded in this build, and which version of them a device uses.
//!
//! The files of `ptx/` are embedded compressed. A file is decompressed when the first of its
//! kernels is needed, once per process, and its hash is checked against the manifest. The driver
//! compiles all that it loads, so kernels are loaded one at a time. The text for one kernel is the
//! file's text with the lines of all other entries left empty, so that line numbers in reports and
//! logs are those of the file.

use crate::device::{Device, lock};
use crate::early::begin_early;
use crate::error::{Error, Result};
use crate::loaded::Loaded;
use crate::manifest::{FILE as MANIFEST_FILE, describe, mismatch};
use crate::module::{Kernel, Module};
use crate::once;
use crate::signature::{Signature, parse, signatures};
use crate::traffic::Traffic;
use flate2::read::ZlibDecoder;
use ptx_syntax::manifest::{self, KernelEntry, Manifest, ModuleEntry};
use std::collections::HashMap;
use std::io::Read;
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock};

mod embedded {
    include!(concat!(env!("OUT_DIR"), "/embedded.rs"));
}

/// Kernels by their names.
pub(crate) type Cache = Loaded<str>;

impl Device {
    /// The embedded kernel with this entry name, from the module with the newest architecture that
    /// this device can run. It is loaded on first use and kept.
    ///
    /// # Errors
    /// [`Error::MissingKernel`] where this build has no such kernel that runs on the device,
    /// [`Error::ManifestMismatch`] where an embedded module is not what the manifest says, and the
    /// errors of loading PTX.
    pub fn builtin_kernel(&self, name: &str) -> Result<Kernel> {
        self.builtin()
            .get_or_load(self, name, || self.load_builtin(name))
    }

    /// Loads the kernel `name`, or the one before a [mark](Traffic::mark) for what that says.
    fn load_builtin(&self, name: &str) -> Result<Kernel> {
        let (name, traffic) = Traffic::of_name(name);
        let Some((module, entry)) = best(name, self.arch())? else {
            return Err(Error::MissingKernel {
                name: name.into(),
                device: self.info().to_string().into(),
            });
        };
        let (text, mut signature) = known_kernel(module, entry)?;
        let text = if traffic == Traffic::Streams {
            once::read_once(&text)
        } else {
            text
        };
        let text = begin_early(&text, &mut signature, self.arch(), traffic)?;
        Module::load_parsed(self, &text, vec![signature])?.kernel(name)
    }
}

/// The manifest of the embedded kernels.
///
/// # Errors
/// [`Error::ManifestMismatch`] where it cannot be read, or where this build embeds no kernels.
pub fn builtin_manifest() -> Result<&'static Manifest> {
    static MANIFEST: OnceLock<Result<Manifest, Box<str>>> = OnceLock::new();
    MANIFEST
        .get_or_init(read_manifest)
        .as_ref()
        .map_err(|detail| mismatch(MANIFEST_FILE, detail))
}

fn read_manifest() -> Result<Manifest, Box<str>> {
    let Some(text) = file(MANIFEST_FILE)? else {
        return Err("this build embeds no kernels: there was no ptx/manifest.json".into());
    };
    crate::manifest::read(&text)
}

/// Text of the embedded file at `path`; `None` where there is none.
fn file(path: &str) -> Result<Option<String>, Box<str>> {
    let Some((_, packed)) = embedded::FILES.iter().find(|(name, _)| *name == path) else {
        return Ok(None);
    };
    let mut text = String::new();
    match ZlibDecoder::new(*packed).read_to_string(&mut text) {
        Ok(_) => Ok(Some(text)),
        Err(error) => Err(format!("cannot be unpacked: {error}").into()),
    }
}

/// The kernel `name` in the module that has the newest architecture among those that `arch` runs.
pub(crate) fn best(
    name: &str,
    arch: (u32, u32),
) -> Result<Option<(&'static ModuleEntry, &'static KernelEntry)>> {
    let mut best = None;
    let mut best_rank = 0;
    for module in &builtin_manifest()?.modules {
        let kernel = module.kernels.iter().find(|kernel| kernel.name == name);
        if let (Some(rank), Some(kernel)) = (rank(&module.arch, arch), kernel)
            && rank > best_rank
        {
            best_rank = rank;
            best = Some((module, kernel));
        }
    }
    Ok(best)
}

/// Preference of PTX for `target` on a device of compute capability `arch`: higher is better,
/// `None` cannot run. `sm_75` runs on 7.5 and later, `sm_90a` on 9.0 only, `sm_100f` on 10.x from
/// 10.0 on.
pub(crate) fn rank(target: &str, arch: (u32, u32)) -> Option<u32> {
    let number = target.strip_prefix("sm_")?;
    let digits = number.trim_end_matches(char::is_alphabetic);
    let sm: u32 = digits.parse().ok()?;
    let device = arch.0 * 10 + arch.1;
    let (runs, bonus) = match &number[digits.len()..] {
        "" => (device >= sm, 0),
        "f" => (device >= sm && arch.0 == sm / 10, 1),
        "a" => (device == sm, 2),
        _ => (false, 0),
    };
    runs.then_some(sm * 4 + bonus)
}

/// Text of a module that loads one kernel, which was held against the manifest once a process.
fn known_kernel(
    module: &'static ModuleEntry,
    entry: &'static KernelEntry,
) -> Result<(String, Signature)> {
    static KNOWN: Mutex<Option<HashMap<(&'static str, &'static str), Signature>>> =
        Mutex::new(None);
    let key = (module.path.as_str(), entry.name.as_str());
    let known = lock(&KNOWN).get_or_insert_default().get(&key).cloned();
    if let Some(signature) = known {
        return Ok((unpacked(module)?.alone(&entry.name), signature));
    }
    let (text, signature) = one_kernel(module, entry)?;
    lock(&KNOWN)
        .get_or_insert_default()
        .insert(key, signature.clone());
    Ok((text, signature))
}

/// Text of a module that loads one kernel, which is as the manifest says.
fn one_kernel(module: &'static ModuleEntry, entry: &KernelEntry) -> Result<(String, Signature)> {
    let text = unpacked(module)?.alone(&entry.name);
    let mut found = signatures(&parse(&text)?)?;
    match (found.pop(), found.is_empty()) {
        (Some(mut signature), true) if *signature.name == *entry.name => {
            describe(&module.path, entry, &mut signature)?;
            Ok((text, signature))
        }
        _ => Err(mismatch(
            &module.path,
            format!("kernel `{}` is not in the text", entry.name),
        )),
    }
}

/// The text of a module, and where its entries are.
struct Unpacked {
    text: Arc<str>,
    entries: Vec<EntryLines>,
}

impl Unpacked {
    fn alone(&self, name: &str) -> String {
        alone(&self.text, &self.entries, name)
    }
}

/// The text of a module, which is the one that the manifest describes.
pub(crate) fn module_text(module: &'static ModuleEntry) -> Result<Arc<str>> {
    Ok(unpacked(module)?.text.clone())
}

/// A module, which is the one that the manifest describes. Unpacked once a process.
fn unpacked(module: &'static ModuleEntry) -> Result<Arc<Unpacked>> {
    static MODULES: Mutex<Option<HashMap<&'static str, Arc<Unpacked>>>> = Mutex::new(None);
    let mut modules = lock(&MODULES);
    let modules = modules.get_or_insert_default();
    if let Some(known) = modules.get(module.path.as_str()) {
        return Ok(known.clone());
    }
    let text = file(&module.path).map_err(|detail| mismatch(&module.path, detail))?;
    let text = text.ok_or_else(|| mismatch(&module.path, "the file is not embedded"))?;
    let hash = manifest::hash(&text);
    if hash != module.hash {
        let detail = format!(
            "the text's hash is {hash}, the manifest has {}",
            module.hash
        );
        return Err(mismatch(&module.path, detail));
    }
    let unpacked = Arc::new(Unpacked {
        entries: entries(&text),
        text: text.into(),
    });
    modules.insert(&module.path, unpacked.clone());
    Ok(unpacked)
}

/// Where an entry is in the text of a module: its lines, whole.
#[derive(Debug, PartialEq, Eq)]
struct EntryLines {
    name: Box<str>,
    bytes: Range<usize>,
    count: usize,
}

/// The entries of a text, in order. They begin and end on lines of their own, as compilers write
/// them; [`one_kernel`] looks at what is cut out.
fn entries(text: &str) -> Vec<EntryLines> {
    let mut entries = Vec::new();
    let mut depth = 0_usize;
    let mut end = 0;
    // The entry that this line belongs to, and whether its body has begun.
    let mut current: Option<(EntryLines, bool)> = None;
    for line in text.split_inclusive('\n') {
        let begin = end;
        end += line.len();
        let code = line.split("//").next().unwrap_or_default();
        if depth == 0 && current.is_none() {
            current = code.split(".entry").nth(1).map(|rest| {
                let rest = rest.trim_start();
                let name = rest.find(['(', ' ', '\t', '{', '\n']).unwrap_or(rest.len());
                let entry = EntryLines {
                    name: rest[..name].into(),
                    bytes: begin..begin,
                    count: 0,
                };
                (entry, false)
            });
        }
        for byte in code.bytes() {
            match byte {
                b'{' => {
                    depth += 1;
                    current = current.map(|(entry, _)| (entry, true));
                }
                b'}' => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        if let Some((mut entry, has_body)) = current.take() {
            entry.bytes.end = end;
            entry.count += 1;
            match depth == 0 && has_body {
                true => entries.push(entry),
                false => current = Some((entry, has_body)),
            }
        }
    }
    entries.extend(current.map(|(entry, _)| entry));
    entries
}

/// `text` with the lines of every entry but `name` empty.
fn alone(text: &str, entries: &[EntryLines], name: &str) -> String {
    let mut alone = String::with_capacity(text.len() / 4);
    let mut kept = 0;
    for other in entries.iter().filter(|entry| *entry.name != *name) {
        alone.push_str(&text[kept..other.bytes.start]);
        alone.extend(std::iter::repeat_n('\n', other.count));
        kept = other.bytes.end;
    }
    alone.push_str(&text[kept..]);
    alone
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_embedded_kernel_is_what_its_manifest_says() {
        let manifest = builtin_manifest().expect("kernels are embedded");
        assert!(!manifest.modules.is_empty());
        for module in &manifest.modules {
            let entries = module.kernels.len() + module.fragments.len();
            assert!(entries > 0, "{}", module.path);
            let whole = module_text(module).expect("of the manifest's hash");
            let lines: Vec<&str> = whole.lines().collect();
            for entry in &module.kernels {
                let (text, _) = one_kernel(module, entry).expect("as the manifest says");
                let same_place =
                    |(index, line): (usize, &str)| line.is_empty() || line == lines[index];
                assert!(text.lines().enumerate().all(same_place), "{}", entry.name);
            }
        }
    }

    #[test]
    fn the_tables_of_entries_name_every_embedded_kernel() {
        let manifest = builtin_manifest().expect("kernels are embedded");
        let kernels = manifest.modules.iter().flat_map(|module| &module.kernels);
        let mut embedded: Vec<&str> = kernels.map(|kernel| &*kernel.name).collect();
        let mut named: Vec<&str> = spec::entry::all_names().collect();
        embedded.sort_unstable();
        named.sort_unstable();
        assert_eq!(named, embedded);
    }

    #[test]
    fn one_kernel_is_cut_out_with_what_is_shared_and_its_line_numbers() {
        let text = "\
.version 7.0
.target sm_75
.global .align 4 .b8 table[8]; // { not a body
.func helper() {
    { ret; }
}
.visible .entry first(
    .param .u64 x
)
{
    { ret; }
}
.visible .entry first_too()
{
    ret;
}
";
        let blank = |first: usize, last: usize| -> String {
            let lines = text.lines().enumerate();
            let lines = lines.map(|(i, line)| {
                if (first..=last).contains(&i) {
                    ""
                } else {
                    line
                }
            });
            lines.map(|line| format!("{line}\n")).collect()
        };
        let alone = |name| alone(text, &entries(text), name);
        assert_eq!(alone("first"), blank(12, 15));
        assert_eq!(alone("first_too"), blank(6, 11));
    }

    #[test]
    fn a_module_that_contradicts_its_manifest_is_refused() {
        let module = &builtin_manifest().expect("kernels are embedded").modules[0];
        let entry = &module.kernels[0];
        let mut renamed = entry.clone();
        renamed.name.push('x');
        let mut longer = entry.clone();
        longer.params.push(entry.params[0].clone());
        let mut wider = entry.clone();
        wider.params[0].size += 4;
        let mut clustered = entry.clone();
        clustered.cluster = Some([7, 7, 7]);
        for wrong in [renamed, longer, wider, clustered] {
            let refused = one_kernel(module, &wrong).expect_err("not what the text says");
            assert!(
                matches!(refused, Error::ManifestMismatch { .. }),
                "{refused}"
            );
        }
    }

    #[test]
    fn portable_code_runs_on_everything_newer_and_arch_specific_code_on_its_own() {
        assert!(rank("sm_75", (7, 5)).is_some());
        assert!(rank("sm_75", (7, 0)).is_none());
        assert!(rank("sm_75", (10, 0)).is_some());
        assert!(rank("sm_90a", (9, 0)) > rank("sm_90", (9, 0)));
        assert!(rank("sm_90", (9, 0)) > rank("sm_89", (9, 0)));
        assert!(rank("sm_90a", (10, 0)).is_none());
        assert!(rank("sm_100f", (10, 3)).is_some());
        assert!(rank("sm_100f", (12, 0)).is_none());
        assert!(rank("sm_90x", (9, 0)).is_none());
        assert!(rank("compute_90", (9, 0)).is_none());
    }
}

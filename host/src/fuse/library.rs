//! The skeletons and fragments that are embedded in this build.

use std::collections::HashMap;
use std::sync::{Mutex, OnceLock};

use super::text::Pieces;
use super::{Fragment, Scalar, Skeleton};
use crate::device::lock;
use crate::error::{Error, KernelError, Result};
use crate::load;
use ptx_syntax::manifest::FragmentEntry;

/// Fragments by name and architecture of the module, parsed once per process.
type Fragments = HashMap<(&'static str, &'static str), Fragment>;

/// The embedded skeleton `name` for devices of `arch`.
///
/// # Errors
/// As [`load::newest`], and those of reading the embedded module.
pub(crate) fn builtin_skeleton(name: &str, arch: (u32, u32)) -> Result<Skeleton> {
    let (module, entry) = load::best(name, arch)?;
    let text = load::kernel_text(module, entry)?;
    Ok(Skeleton::of(&Pieces::of(&text), name)?)
}

/// The embedded fragment `name` for devices of `arch`, from the newest module that they run. In the
/// module for `sm_89` it may be called `name_sm89`, and likewise for other architectures.
///
/// # Errors
/// As [`builtin_skeleton`].
pub(crate) fn builtin_fragment(name: &str, arch: (u32, u32)) -> Result<Fragment> {
    static FRAGMENTS: OnceLock<Mutex<Fragments>> = OnceLock::new();
    let (module, entry) = load::newest(name, arch, |module| {
        let is_it = |entry: &&FragmentEntry| {
            let suffix = entry.name.strip_prefix(name);
            suffix == Some("") || suffix.is_some_and(|suffix| is_for(suffix, &module.arch))
        };
        module.fragments.iter().find(is_it)
    })?;
    let key = (entry.name.as_str(), module.arch.as_str());
    let mut fragments = lock(FRAGMENTS.get_or_init(Mutex::default));
    if let Some(fragment) = fragments.get(&key) {
        return Ok(fragment.clone());
    }
    let text = load::module_text(module)?;
    let pieces = Pieces::of(&text);
    // Extract all fragments of the module at once, so that its text is split only once.
    for entry in &module.fragments {
        let scalar = |name: &str| {
            Scalar::from_name(name).ok_or_else(|| {
                Error::Kernel(KernelError::Manifest {
                    module: module.path.as_str().into(),
                    detail: format!("fragment `{}` has the type `{name}`", entry.name).into(),
                })
            })
        };
        let params: Vec<Scalar> = entry
            .params
            .iter()
            .map(|p| scalar(p))
            .collect::<Result<_>>()?;
        let fragment = Fragment::of(&pieces, &entry.name, &params, scalar(&entry.result)?)?;
        fragments.insert((&entry.name, &module.arch), fragment);
    }
    let fragment = fragments.get(&key).cloned();
    fragment.ok_or(Error::Bug("a module has a fragment that its entries lack"))
}

/// Whether a suffix like `_sm89` names the architecture `sm_89`.
fn is_for(suffix: &str, arch: &str) -> bool {
    let number = |text: &str, prefix| text.strip_prefix(prefix).map(str::to_owned);
    number(suffix, "_sm").is_some_and(|own| Some(own) == number(arch, "sm_"))
}

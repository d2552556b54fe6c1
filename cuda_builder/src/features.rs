//! Which features a build of some of a crate's families enables.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::compile;
use crate::error::{Error, Step};
use crate::process;
use crate::toolchain::DeviceToolchain;

/// The feature of a crate that lists one feature for each of its families.
const FAMILIES: &str = "families";

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    manifest_path: PathBuf,
    features: BTreeMap<String, Vec<String>>,
}

/// The features that stand for the crate's default ones if only `families` are built. `None` if
/// the crate does not have a feature for each of them.
pub(crate) fn of_families(
    toolchain: &DeviceToolchain,
    krate: &Path,
    families: &[String],
) -> Result<Option<Vec<String>>, Error> {
    let manifest = krate.join("Cargo.toml");
    let mut command = compile::cargo(toolchain, krate);
    command.args(["metadata", "--no-deps", "--format-version", "1"]);
    let output = process::run(Step::Compile, &manifest, &mut command)?;
    let metadata: Metadata =
        serde_json::from_slice(&output.stdout).map_err(|error| Error::Output {
            step: Step::Compile,
            tool: toolchain.cargo.clone(),
            cause: error.to_string(),
        })?;
    let mut packages = metadata.packages.into_iter();
    let package = packages.find(|package| package.manifest_path == manifest);
    Ok(package.and_then(|package| instead_of_default(&package.features, families)))
}

/// The default features, with `families` in place of all families.
fn instead_of_default(
    features: &BTreeMap<String, Vec<String>>,
    families: &[String],
) -> Option<Vec<String>> {
    let of_all = features.get(FAMILIES)?;
    let default = features.get("default")?;
    let has_all = families.iter().all(|family| of_all.contains(family));
    if families.is_empty() || !has_all || !default.iter().any(|name| name == FAMILIES) {
        return None;
    }
    let others = default.iter().filter(|name| *name != FAMILIES);
    Some(others.chain(families).cloned().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replaced(default: &[&str], families: &[&str]) -> Option<Vec<String>> {
        let list = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let features = BTreeMap::from([
            ("default".to_owned(), list(default)),
            (FAMILIES.to_owned(), list(&["gemm", "softmax"])),
        ]);
        instead_of_default(&features, &list(families))
    }

    #[test]
    fn a_family_stands_for_all_families_and_other_default_features_stay() {
        let softmax = vec!["fast".to_owned(), "softmax".to_owned()];
        assert_eq!(replaced(&["families", "fast"], &["softmax"]), Some(softmax));
    }

    #[test]
    fn a_crate_without_a_feature_for_the_family_is_compiled_whole() {
        assert_eq!(replaced(&["families"], &[]), None);
        assert_eq!(replaced(&["families"], &["softmax", "scan"]), None);
        assert_eq!(replaced(&["fast"], &["softmax"]), None);
        assert_eq!(instead_of_default(&BTreeMap::new(), &["gemm".into()]), None);
    }
}

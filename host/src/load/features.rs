//! Which files of built-in PTX belong to a build. Each family and each architecture of kernels is a
//! feature of this crate. The build script embeds what is on, and the library names what is off.

/// Its name, and whether it is on.
pub(crate) type Feature = (&'static str, bool);

macro_rules! features {
    ($($name:literal,)*) => { [$(($name, cfg!(feature = $name))),*] };
}

/// The features of families and architectures, and whether each is on in this build.
pub(crate) const FEATURES: &[Feature] = &features![
    "attention",
    "attention_grad",
    "elementwise",
    "gather",
    "gemm",
    "norm",
    "reduce",
    "rotary",
    "scan",
    "scatter_add",
    "softmax",
    "sort",
    "topk",
    "sm_80",
    "sm_89",
    "sm_90",
];

/// Those of `features` that the file at `path` (`sm_90a/gemm.ptx`) needs and that are off.
pub(crate) fn lacking(path: &str, features: &[Feature]) -> Box<[&'static str]> {
    let needed = needed(path);
    let is_lacking = |(name, is_on): &&Feature| !is_on && needed.contains(name);
    let lacking = features.iter().filter(is_lacking);
    lacking.map(|(name, _)| *name).collect()
}

/// The features of the architecture and of the family. PTX for sm_75 runs everywhere, and has only
/// that of its family.
fn needed(path: &str) -> [&str; 2] {
    let (arch, file) = path.split_once('/').unwrap_or_default();
    let family = match file.trim_end_matches(".ptx") {
        "fragments" => "elementwise",
        family => family,
    };
    [arch.trim_end_matches('a'), family]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_module_has_the_feature_of_its_family_and_of_its_architecture() {
        let manifest = crate::builtin_manifest().expect("kernels are embedded");
        for module in &manifest.modules {
            let [arch, family] = needed(&module.path);
            let is_feature = |wanted| FEATURES.iter().any(|(name, _)| *name == wanted);
            assert!(is_feature(family), "{}", module.path);
            assert!(is_feature(arch) || arch == "sm_75", "{}", module.path);
        }
        assert_eq!(needed("sm_90a/gemm.ptx"), ["sm_90", "gemm"]);
        assert_eq!(needed("sm_75/fragments.ptx"), ["sm_75", "elementwise"]);
        assert_eq!(needed("manifest.json"), ["", ""]);
    }
}

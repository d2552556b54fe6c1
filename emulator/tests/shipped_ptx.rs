//! Every module that the workspace ships loads.

use std::path::{Path, PathBuf};

use warpsmith_emulator::{Emulator, EmulatorConfig};

fn modules(folder: &Path, found: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            modules(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "ptx") {
            found.push(path);
        }
    }
    Ok(())
}

#[test]
fn portable_modules_load() -> Result<(), Box<dyn std::error::Error>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ptx/sm_75");
    let mut found = Vec::new();
    modules(&folder, &mut found)?;
    assert!(!found.is_empty(), "no PTX in {}", folder.display());
    let emulator = Emulator::new(EmulatorConfig::default());
    for path in found {
        let text = std::fs::read_to_string(&path)?;
        let module = emulator
            .load(&text)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        for kernel in module.kernels() {
            module
                .check(kernel)
                .map_err(|error| format!("{}: {error}", path.display()))?;
        }
        // Fragments are parts of composed kernels.
        let has_kernels = path.file_stem().is_none_or(|name| name != "fragments");
        assert_eq!(
            !module.kernels().is_empty(),
            has_kernels,
            "{}",
            path.display()
        );
    }
    Ok(())
}

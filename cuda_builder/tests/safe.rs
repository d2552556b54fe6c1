//! Which safe kernels are refused for their barriers, and where.

use std::collections::BTreeSet;
use std::error::Error as StdError;
use std::fs;
use std::path::{Path, PathBuf};

use cuda_builder::{CudaBuilder, Error, Parting, Refusal};

use crate::common::toolchain;

type Outcome = Result<(), Box<dyn StdError>>;

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/safe")
}

/// The build of one module of the fixture, if there is a toolchain.
fn builder(test: &str, family: &str) -> Option<CudaBuilder> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fixtures");
    let builder = CudaBuilder::new(fixture()).toolchain(toolchain(test)?);
    Some(builder.target_dir(target).family(family))
}

/// Kernels and marked lines of a source, in order.
fn marked(source: &str) -> BTreeSet<(String, u32)> {
    let mut kernel = String::new();
    let mut marked = BTreeSet::new();
    for (line, text) in (1..).zip(source.lines()) {
        if let Some((name, _)) = text
            .strip_prefix("pub fn ")
            .and_then(|rest| rest.split_once('('))
        {
            name.clone_into(&mut kernel);
        }
        if text.ends_with("// REFUSED") {
            marked.insert((kernel.clone(), line));
        }
    }
    marked
}

#[test]
fn a_barrier_that_not_all_threads_reach_is_refused_with_its_line() -> Outcome {
    let test = "a_barrier_that_not_all_threads_reach_is_refused_with_its_line";
    let Some(builder) = builder(test, "refused") else {
        return Ok(());
    };
    // Without line information: the builder adds it by itself.
    let Err(Error::Refused { refusals, .. }) = builder.build() else {
        return Err("the kernels are not refused".into());
    };
    let mut found = BTreeSet::new();
    for refusal in &refusals {
        let Refusal::Divergent {
            kernel, at, cause, ..
        } = refusal
        else {
            return Err(refusal.to_string().into());
        };
        let (file, line) = at.source.clone().ok_or("a refusal without a line")?;
        assert!(file.ends_with("src/refused.rs"), "{refusal}");
        if let Parting::Branch(branch) = cause {
            assert!(branch.source.is_some(), "{refusal}");
        }
        found.insert((kernel.clone(), line));
    }
    let source = fs::read_to_string(fixture().join("src/refused.rs"))?;
    assert_eq!(found, marked(&source));
    Ok(())
}

#[test]
fn barriers_that_all_threads_pass_alike_are_accepted() -> Outcome {
    let test = "barriers_that_all_threads_pass_alike_are_accepted";
    let Some(builder) = builder(test, "accepted") else {
        return Ok(());
    };
    let report = builder.build()?;
    let kernels = report
        .modules
        .iter()
        .flat_map(|module| &module.entry.kernels);
    assert_eq!(kernels.clone().count(), 15);
    let ptx = &report.modules[0].ptx;
    assert!(ptx.contains(".reqntid 8, 8"), "{ptx}");
    assert!(ptx.contains("sqrt.rn.f32"), "{ptx}");
    let named = |name| {
        let mut named = kernels.clone().filter(|kernel| kernel.name == name);
        named.next().ok_or("the entry is missing")
    };
    let of_u16 = named("generic_u16")?;
    assert_eq!(of_u16.params[0].ty, "*const u16");
    assert!(of_u16.safe && of_u16.static_shared_bytes == 128);
    let shape = &named("three_dimensions")?.params[1];
    assert_eq!((shape.ty.as_str(), shape.size), ("Shape3", 48));
    Ok(())
}

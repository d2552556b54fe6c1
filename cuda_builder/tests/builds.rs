//! Builds the fixture crate and looks at IR, PTX, manifest and refusals.
//!
//! These tests need a device toolchain. Where there is none each says `skipped:` and why; with
//! `WARPSMITH_REQUIRE_DEVICE_TOOLCHAIN` set that is a failure instead.

use std::collections::BTreeMap;
use std::error::Error as StdError;
use std::fs;
use std::path::Path;

use crate::common::{builder, built, fixture, toolchain};
use crate::expectations;
use cuda_builder::{Arch, BuildReport, CudaBuilder, Error, Profile};

type Outcome = Result<(), Box<dyn StdError>>;

fn ptx(report: &BuildReport) -> BTreeMap<&str, &str> {
    let modules = report.modules.iter();
    modules
        .map(|module| (module.family.as_str(), module.ptx.as_str()))
        .collect()
}

#[test]
fn every_family_has_the_ir_and_ptx_that_its_source_says() -> Outcome {
    let Some(toolchain) = toolchain("every_family_has_the_ir_and_ptx_that_its_source_says") else {
        return Ok(());
    };
    let dump = tempfile::tempdir()?;
    let builder = builder(&toolchain).arch(Arch::Sm90).features(["cluster"]);
    let report = builder.dump_ir(dump.path()).build()?;
    assert_eq!(report.modules.len(), 9);
    for module in &report.modules {
        let source = fixture()
            .join("src")
            .join(&module.family)
            .with_extension("rs");
        let source = fs::read_to_string(source)?;
        let ir = dump
            .path()
            .join(format!("sm_90/{}.pre-opt.ll", module.family));
        let ir = fs::read_to_string(ir)?;
        expectations::check(&source, &module.ptx, &ir)
            .map_err(|problem| format!("{}: {problem}", module.family))?;
    }
    Ok(())
}

#[test]
fn all_architectures_build_and_say_so() -> Outcome {
    let Some(toolchain) = toolchain("all_architectures_build_and_say_so") else {
        return Ok(());
    };
    let report = builder(&toolchain).archs(Arch::ALL).build()?;
    for module in &report.modules {
        let (major, minor) = module.arch.ptx_version();
        let head = format!(".version {major}.{minor}\n.target {}\n", module.arch);
        assert!(
            module.ptx.trim_start().starts_with(&head),
            "{}",
            module.entry.path
        );
        assert_eq!(
            module.entry.path,
            format!("{}/{}.ptx", module.arch, module.family)
        );
    }
    assert_eq!(report.modules.len(), 7 * 8);
    Ok(())
}

#[test]
fn a_kernel_is_built_for_the_architecture_that_it_names() -> Outcome {
    let test = "a_kernel_is_built_for_the_architecture_that_it_names";
    let Some(toolchain) = toolchain(test) else {
        return Ok(());
    };
    let hopper_of = |archs: &[Arch]| -> Result<(Vec<String>, usize), Error> {
        let builder = builder(&toolchain).archs(archs.iter().copied());
        let report = builder.features(["hopper"]).build()?;
        let paths = report.modules.iter().map(|module| &module.entry.path);
        let (hopper, others): (Vec<_>, Vec<_>) = paths.partition(|path| path.contains("hopper"));
        Ok((hopper.into_iter().cloned().collect(), others.len()))
    };
    let named = vec!["sm_90a/hopper.ptx".to_owned()];
    assert_eq!(hopper_of(&[Arch::Sm75])?, (named.clone(), 8));
    assert_eq!(hopper_of(&[Arch::Sm90a])?, (named.clone(), 8));
    assert_eq!(hopper_of(&[Arch::Sm75, Arch::Sm90a])?, (named, 16));
    Ok(())
}

#[test]
fn contraction_is_an_option() -> Outcome {
    let Some(toolchain) = toolchain("contraction_is_an_option") else {
        return Ok(());
    };
    let split = builder(&toolchain)
        .contract(false)
        .family("maths")
        .build()?;
    let (fused, split) = (ptx(built(&toolchain))["maths"], ptx(&split)["maths"]);
    assert_eq!(
        (
            fused.matches("fma.rn.f32").count(),
            fused.matches("mul.rn.f32").count()
        ),
        (1, 0)
    );
    assert_eq!(
        (
            split.matches("fma.rn.f32").count(),
            split.matches("mul.rn.f32").count()
        ),
        (0, 1)
    );
    assert_eq!(split.matches("add.rn.f32").count(), 2);
    Ok(())
}

#[test]
fn a_checked_build_traps_on_overflow() -> Outcome {
    let Some(toolchain) = toolchain("a_checked_build_traps_on_overflow") else {
        return Ok(());
    };
    let checked = builder(&toolchain).profile(Profile::Checked).build()?;
    assert!(!ptx(built(&toolchain))["shared"].contains("trap;"));
    assert!(ptx(&checked)["shared"].contains("trap;"));
    Ok(())
}

#[test]
fn line_info_names_source_lines_without_paths_of_this_machine() -> Outcome {
    let test = "line_info_names_source_lines_without_paths_of_this_machine";
    let Some(toolchain) = toolchain(test) else {
        return Ok(());
    };
    let report = builder(&toolchain).line_info(true).build()?;
    let maths = ptx(&report)["maths"];
    assert!(
        maths.contains(".loc\t") && maths.contains("src/maths.rs"),
        "{maths}"
    );
    // Of a function that was inlined, the kernel's line too.
    let barrier = ptx(&report)["barrier"];
    let module = ptx_syntax::parse(barrier)?;
    let origins = ptx_syntax::origins::Origins::of(&module);
    let mut instructions = module.functions.iter().flat_map(|f| f.instructions());
    let thread = instructions.find(|i| i.names().contains(&"%tid.x"));
    let files = origins.at(thread.ok_or("no thread")?.line).iter();
    let files: Vec<&str> = files.map(|(file, _)| file.as_str()).collect();
    assert_eq!(files, ["./src/barrier.rs", "./src/lib.rs"]);
    for path in [env!("CARGO_MANIFEST_DIR"), "/rustlib/"] {
        for text in [maths, barrier] {
            assert!(!text.contains(path), "{path} is in: {text}");
        }
    }
    Ok(())
}

#[test]
fn the_manifest_says_how_to_launch() -> Outcome {
    let Some(toolchain) = toolchain("the_manifest_says_how_to_launch") else {
        return Ok(());
    };
    let out = tempfile::tempdir()?;
    let report = builder(&toolchain).copy_to(out.path()).build()?;
    let text = fs::read_to_string(out.path().join(cuda_builder::MANIFEST))?;
    assert_eq!(
        serde_json::from_str::<ptx_syntax::manifest::Manifest>(&text)?,
        report.manifest
    );
    let module = |family: &str| {
        let found = report.modules.iter().find(|module| module.family == family);
        found.map(|module| &module.entry).ok_or("no such family")
    };
    let bounded = &module("launch")?.kernels[0];
    assert_eq!(
        (bounded.max_threads, bounded.min_blocks),
        (Some(384), Some(1))
    );
    assert_eq!(bounded.dynamic_shared_bytes, Some(1024));
    let params: Vec<_> = bounded
        .params
        .iter()
        .map(|param| {
            (
                param.name.as_str(),
                param.ty.as_str(),
                param.size,
                param.align,
            )
        })
        .collect();
    assert_eq!(
        params,
        [("x", "*mut f64", 8, 8), ("params", "Params", 16, 8)]
    );
    assert_eq!(module("shared")?.kernels[0].static_shared_bytes, 1024);
    for entry in &report.manifest.modules {
        let ptx = fs::read_to_string(out.path().join(&entry.path))?;
        assert_eq!(entry.hash, ptx_syntax::manifest::hash(&ptx));
    }
    Ok(())
}

#[test]
fn files_of_an_earlier_build_go() -> Outcome {
    let Some(toolchain) = toolchain("files_of_an_earlier_build_go") else {
        return Ok(());
    };
    let out = tempfile::tempdir()?;
    let builder = builder(&toolchain).copy_to(out.path());
    builder
        .clone()
        .arch(Arch::Sm90)
        .features(["cluster"])
        .build()?;
    let mine = out.path().join("sm_90/mine.ptx");
    fs::write(&mine, "not the builder's")?;
    builder.arch(Arch::Sm90).build()?;
    assert!(!out.path().join("sm_90/cluster.ptx").exists());
    assert!(out.path().join("sm_90/maths.ptx").exists());
    assert!(mine.exists());
    Ok(())
}

#[test]
fn a_family_is_built_alone_and_the_others_stay() -> Outcome {
    let Some(toolchain) = toolchain("a_family_is_built_alone_and_the_others_stay") else {
        return Ok(());
    };
    let out = tempfile::tempdir()?;
    let builder = builder(&toolchain).copy_to(out.path());
    let all = builder.build()?;
    let maths = out.path().join("sm_75/maths.ptx");
    let shuffle = out.path().join("sm_75/shuffle.ptx");
    fs::remove_file(&maths)?;
    fs::write(&shuffle, "as it was")?;
    let alone = builder.clone().family("maths").build()?;
    assert_eq!(alone.modules.len(), 1);
    assert_eq!(alone.manifest, all.manifest);
    assert_eq!(
        Some(&*fs::read_to_string(&maths)?),
        ptx(&all).get("maths").copied()
    );
    assert_eq!(fs::read_to_string(&shuffle)?, "as it was");
    let none = builder.family("algebra").build();
    let message = none.map(|_| ()).map_err(|error| error.to_string());
    let message = message.err().unwrap_or_default();
    assert!(
        message.contains("no `algebra`") && message.contains("maths"),
        "{message}"
    );
    Ok(())
}

#[test]
fn a_family_with_a_feature_is_built_without_compiling_the_others() -> Outcome {
    let test = "a_family_with_a_feature_is_built_without_compiling_the_others";
    let Some(toolchain) = toolchain(test) else {
        return Ok(());
    };
    let folder = tempfile::tempdir()?;
    let broken = folder.path().join("kernels");
    copy(&fixture(), &broken)?;
    fs::write(broken.join("src/barrier.rs"), "this is not Rust")?;
    let target = folder.path().join("target");
    let broken = CudaBuilder::new(&broken).toolchain(toolchain.clone());
    let broken = broken.target_dir(&target);
    let maths = broken.clone().family("maths").build()?;
    assert_eq!(ptx(&maths)["maths"], ptx(built(&toolchain))["maths"]);
    // `shuffle` is a family without a feature, so all of the crate is compiled.
    assert!(broken.family("shuffle").build().is_err());
    Ok(())
}

#[test]
fn the_same_source_in_another_folder_gives_the_same_files() -> Outcome {
    let test = "the_same_source_in_another_folder_gives_the_same_files";
    let Some(toolchain) = toolchain(test) else {
        return Ok(());
    };
    let folder = tempfile::tempdir()?;
    let elsewhere = folder.path().join("a/much/longer path/kernels");
    copy(&fixture(), &elsewhere)?;
    let here = built(&toolchain);
    let there = CudaBuilder::new(&elsewhere)
        .toolchain(toolchain.clone())
        .build()?;
    assert_eq!(ptx(here), ptx(&there));
    assert_eq!(here.manifest, there.manifest);
    Ok(())
}

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            if entry.file_name() != "target" {
                copy(&entry.path(), &to.join(entry.file_name()))?;
            }
        } else {
            fs::copy(entry.path(), to.join(entry.file_name()))?;
        }
    }
    Ok(())
}

#[test]
fn what_cannot_run_is_refused_with_the_reason() -> Outcome {
    let Some(toolchain) = toolchain("what_cannot_run_is_refused_with_the_reason") else {
        return Ok(());
    };
    let cases = [
        (
            "unresolved",
            ["unresolved.ptx is refused", "defined_nowhere"],
        ),
        (
            "local",
            ["at `scattered`: #[kernel(allow_local)]", "--dump-ir DIR"],
        ),
        ("initialised_shared", ["COUNT", "has an initial value"]),
        ("cluster", ["`clustered`", "sm_75"]),
        ("no_kernel", ["fixture_kernels", "has no kernel"]),
        (
            "twice",
            [
                "`two_ifs` is defined at src/barrier.rs:",
                "and src/twice.rs:4",
            ],
        ),
    ];
    for (feature, parts) in cases {
        let out = tempfile::tempdir()?;
        let error = builder(&toolchain)
            .features([feature])
            .copy_to(out.path())
            .build();
        let message = error.err().ok_or(feature)?.to_string();
        for part in parts {
            assert!(
                message.contains(part),
                "{feature}: {part} is not in: {message}"
            );
        }
        assert_eq!(fs::read_dir(out.path())?.count(), 0, "{feature} left files");
    }
    Ok(())
}

#[test]
fn a_refused_module_can_be_kept_and_names_lines_of_the_source() -> Outcome {
    let test = "a_refused_module_can_be_kept_and_names_lines_of_the_source";
    let Some(toolchain) = toolchain(test) else {
        return Ok(());
    };
    let dump = tempfile::tempdir()?;
    let builder = builder(&toolchain).features(["local"]).line_info(true);
    let error = builder.dump_ir(dump.path()).build().err().ok_or("builds")?;
    let kept = dump.path().join("sm_75/local.ptx");
    let message = error.to_string();
    let lines = format!("lines are those of {}", kept.display());
    for part in [", from ./src/local.rs:", lines.as_str()] {
        assert!(message.contains(part), "{part} is not in: {message}");
    }
    let line = message
        .split("line ")
        .nth(1)
        .and_then(|rest| rest.split(':').next());
    let line: usize = line.ok_or("no line")?.parse()?;
    let ptx = fs::read_to_string(kept)?;
    let at = ptx.lines().nth(line - 1).ok_or("no such line")?;
    assert!(at.trim_start().starts_with(".local "), "{at}");
    Ok(())
}

#[test]
fn local_memory_may_be_allowed_to_one_kernel() -> Outcome {
    let Some(toolchain) = toolchain("local_memory_may_be_allowed_to_one_kernel") else {
        return Ok(());
    };
    let builder = builder(&toolchain).features(["local"]);
    let refused = builder.clone().build();
    assert!(matches!(refused, Err(Error::Refused { family, .. }) if family == "local"));
    let report = builder.features(["local_allowed"]).build()?;
    assert!(ptx(&report)["local"].contains(".local .align"));
    Ok(())
}

#[test]
fn a_crate_that_does_not_compile_is_quoted() -> Outcome {
    let Some(toolchain) = toolchain("a_crate_that_does_not_compile_is_quoted") else {
        return Ok(());
    };
    let error = builder(&toolchain)
        .features(["no_such_feature"])
        .build()
        .err()
        .ok_or("built")?;
    let message = error.to_string();
    for part in [
        "compile:",
        "cargo failed on",
        "Cargo.toml",
        "no_such_feature",
    ] {
        assert!(message.contains(part), "{part} is not in: {message}");
    }
    Ok(())
}

#[test]
fn bad_options_are_refused_before_anything_runs() {
    let message = |builder: CudaBuilder| builder.build().err().map(|error| error.to_string());
    let missing = message(CudaBuilder::new("no/such/crate"));
    assert!(missing.is_some_and(|text| text.contains("`no/such/crate` is not a kernels crate")));
    let not_a_crate = message(CudaBuilder::new(fixture().join("src")));
    assert!(not_a_crate.is_some_and(|text| text.contains("no Cargo.toml")));
    let no_archs = message(CudaBuilder::new(fixture()).archs([]));
    assert!(no_archs.is_some_and(|text| text.contains("option `archs`")));
}

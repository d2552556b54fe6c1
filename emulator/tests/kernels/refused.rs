//! What cannot be loaded or launched is refused by name, and nothing runs.

use warpsmith_emulator::{
    Emulator, EmulatorConfig, LaunchConfig, LaunchError, LoadError, MemoryError,
};

const HEADER: &str = ".version 8.0\n.target sm_90a\n.address_size 64\n";

fn emulator() -> Emulator {
    Emulator::new(EmulatorConfig::default())
}

/// The error of loading a kernel with one instruction, on line 9.
fn load_error(instruction: &str) -> LoadError {
    let text = format!(
        "{HEADER}.visible .entry k(.param .u64 p)\n{{\n.reg .pred %p<4>;\n.reg .b32 %r<9>; .reg .f32 %f<9>;\n.reg .b64 %rd<9>;\n{instruction}\nret;\n}}\n"
    );
    emulator().load(&text).expect_err(instruction)
}

#[test]
fn unknown_instructions_are_named_with_their_line() {
    for (instruction, name) in [
        ("wgmma.fence.aligned;", "wgmma.fence.aligned"),
        (
            "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 {%f0}, {%r1}, {%r2}, {%f0};",
            "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32",
        ),
        (
            "wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.bf16.bf16 {%f0}, %rd1, %rd2, %r1, 0, 1;",
            "wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.bf16.bf16",
        ),
        (
            "wgmma.mma_async.sync.aligned.m64n12k16.f32.bf16.bf16 {%f0}, %rd1, %rd2, 1;",
            "wgmma.mma_async.sync.aligned.m64n12k16.f32.bf16.bf16",
        ),
        (
            "mbarrier.init.shared::cta.b32 [%rd1], 1;",
            "mbarrier.init.shared::cta.b32",
        ),
        ("cp.async.commit;", "cp.async.commit"),
        (
            "barrier.cluster.sync.aligned;",
            "barrier.cluster.sync.aligned",
        ),
        ("frobnicate.u32 %r1, %r2;", "frobnicate.u32"),
        ("add.upside_down.u32 %r1, %r2, %r3;", "add.upside_down.u32"),
        (
            "ld.global.sideways.u32 %r1, [%rd1];",
            "ld.global.sideways.u32",
        ),
        ("fence.proxy.sideways;", "fence.proxy.sideways"),
    ] {
        assert_eq!(
            load_error(instruction),
            LoadError::Unsupported {
                what: name.to_owned(),
                line: 9
            }
        );
    }
}

/// The error of loading a kernel with one instruction, on line 4, for a target on line 2.
fn error_for(target: &str, instruction: &str) -> LoadError {
    let text = format!(
        ".version 8.6\n.target {target}\n.address_size 64\n.visible .entry k() {{ {instruction} ret; }}\n"
    );
    emulator().load(&text).expect_err(target)
}

#[test]
fn modules_for_other_architectures_are_refused() {
    for (target, says) in [
        ("sm_999", "PTX line 2: `sm_999` is not a target of PTX 9.0"),
        (
            "sm_100a",
            "PTX line 2: a module for sm_100a does not run on compute capability 9.0, which the \
             emulator has; sm_90 and older ones do, and sm_90a",
        ),
        ("sm_120", "PTX line 2: a module for sm_120 does not run"),
        (
            "debug",
            "PTX line 2: `.target` names no architecture; sm_90 ",
        ),
    ] {
        let error = error_for(target, "").to_string();
        assert!(error.starts_with(says), "{error}");
    }
}

#[test]
fn instructions_that_the_target_lacks_are_refused() {
    for (target, instruction, says) in [
        (
            "sm_75",
            "cp.async.wait_all;",
            "`cp.async.wait_all` needs sm_80",
        ),
        (
            "sm_89",
            "fence.proxy.async;",
            "`fence.proxy.async` needs sm_90",
        ),
        (
            "sm_90",
            "wgmma.fence.sync.aligned;",
            "`wgmma.fence.sync.aligned` needs sm_90a",
        ),
        (
            "sm_90",
            "setmaxnreg.dec.sync.aligned.u32 24;",
            "`setmaxnreg.dec.sync.aligned.u32` needs sm_90a",
        ),
    ] {
        let error = error_for(target, instruction);
        assert!(matches!(error, LoadError::NewerInstruction(_)), "{error:?}");
        let text = error.to_string();
        let want = format!("PTX line 4: {says}, and the module's target is {target}");
        assert_eq!(text, want);
    }
    let unused = ".version 8.0\n.target sm_75\n.address_size 64\n.func f() {\nfence.proxy.async;\nret;\n}\n.visible .entry k() { ret; }";
    let error = emulator().load(unused).expect_err("f is compiled too");
    assert!(error.to_string().starts_with("PTX line 5: "), "{error}");
}

#[test]
fn wrong_operands_are_refused() {
    for instruction in [
        "add.u32 %r1, %r2, %rd3;",
        "add.u32 %r1, %r2;",
        "ld.global.v4.u32 {%r1, %r2}, [%rd1];",
        "ld.global.u64 %r1, [%rd1];",
        "bar.sync 16;",
        "wgmma.wait_group.sync.aligned 8;",
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0}, %rd1, %rd2, 1, 1, 1, 0, 0;",
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, %rd1, %rd2, 1, 2, 1, 0, 0;",
        "bra.uni %r1;",
    ] {
        let error = load_error(instruction);
        assert!(
            matches!(error, LoadError::Invalid { line: 9, .. }),
            "{instruction}: {error}"
        );
    }
    let error = load_error("mov.u32 %r1, nobody;");
    assert_eq!(
        error,
        LoadError::Undeclared {
            name: "nobody".to_owned(),
            line: 9
        }
    );
}

#[test]
fn a_name_stands_for_one_thing() {
    for twice in [
        "loop: loop: bra loop;",
        ".reg .b32 %r<2>;",
        ".reg .b64 %r8;",
        ".local .b32 x; .local .b32 x;",
    ] {
        let error = load_error(twice);
        let LoadError::Invalid { message, line: 9 } = &error else {
            panic!("{twice}: {error}");
        };
        assert!(message.contains("declared twice in one block"), "{message}");
    }
    for (twice, name) in [
        (
            ".visible .entry k() { ret; }\n.visible .entry k() { ret; }",
            "k",
        ),
        (".func f() { ret; }\n.visible .entry f() { ret; }", "f"),
        (".global .b32 g;\n.global .b64 g;", "g"),
        (".visible .entry g() { ret; }\n.global .b32 g;", "g"),
    ] {
        let error = emulator().load(&format!("{HEADER}{twice}\n"));
        let message = format!("`{name}` is defined already, on line 4");
        assert_eq!(
            error.expect_err(twice),
            LoadError::Invalid { message, line: 5 }
        );
    }
    // A block may name what its surroundings named, and a prototype defines nothing.
    let text = format!(
        "{HEADER}.func f();\n.func f() {{ ret; }}\n.visible .entry k() {{ .reg .b32 r; {{ .reg .b64 r; }} ret; }}\n"
    );
    emulator().load(&text).expect("it is loaded");
}

#[test]
fn sizes_beyond_every_limit_are_refused() {
    for declaration in [
        ".reg .b32 %x<4000000000>;",
        ".local .align 1 .b8 x[18446744073709551615];",
        ".local .align 1 .b8 x[600000];",
    ] {
        let error = load_error(declaration);
        assert!(
            matches!(error, LoadError::Invalid { line: 9, .. }),
            "{declaration}: {error}"
        );
    }
    let text = format!(
        "{HEADER}.visible .entry k()\n{{\n.shared .align 1 .b8 x[18446744073709551615];\n.shared .align 1 .b8 y[18446744073709551615];\nret;\n}}\n"
    );
    let error = emulator().load(&text).expect_err("two of 2^64 bytes");
    assert!(matches!(error, LoadError::StaticShared { .. }), "{error:?}");
}

#[test]
fn unresolved_functions_are_refused() {
    let text = format!(
        "{HEADER}.extern .func malloc(.param .b64 size);\n.visible .entry k()\n{{\n.param .b64 s;\ncall malloc, (s);\nret;\n}}\n"
    );
    let error = emulator().load(&text).expect_err("malloc has no body");
    assert_eq!(
        error,
        LoadError::Unresolved {
            name: "malloc".to_owned(),
            line: 8
        }
    );
}

#[test]
fn launches_that_no_device_takes_are_refused() -> Result<(), Box<dyn std::error::Error>> {
    let emulator = emulator();
    let text = format!(
        "{HEADER}.visible .entry k(.param .u32 n) .maxntid 128, 1, 1\n{{\n.shared .align 4 .b8 s[40000];\n.reg .b32 %r<2>;\nmov.u32 %r1, s;\nret;\n}}\n.visible .entry exact() .reqntid 32, 2, 1\n{{\nret;\n}}\n"
    );
    let module = emulator.load(&text)?;
    let launch = |kernel: &str, grid, block, shared_bytes, params: &[&[u8]]| {
        emulator.launch(
            &module,
            kernel,
            &LaunchConfig {
                grid,
                block,
                shared_bytes,
                cluster: None,
            },
            params,
        )
    };
    let four: &[u8] = &[0; 4];
    assert!(launch("k", [1; 3], [128, 1, 1], 192_448, &[four]).is_ok());
    assert!(matches!(
        launch("k", [1; 3], [128, 1, 1], 192_449, &[four]),
        Err(LaunchError::SharedMemory {
            static_bytes: 40_000,
            limit: 232_448,
            ..
        })
    ));
    for (grid, block) in [
        ([1; 3], [129, 1, 1]),
        ([1; 3], [0, 1, 1]),
        ([1; 3], [1, 1, 65]),
        ([0, 1, 1], [1; 3]),
        ([1, 65_536, 1], [1; 3]),
    ] {
        let result = launch("k", grid, block, 0, &[four]);
        assert!(
            matches!(result, Err(LaunchError::Shape { .. })),
            "{grid:?} {block:?}"
        );
    }
    assert!(launch("exact", [1; 3], [32, 2, 1], 0, &[]).is_ok());
    assert!(matches!(
        launch("exact", [1; 3], [64, 1, 1], 0, &[]),
        Err(LaunchError::Shape { .. })
    ));
    assert!(matches!(
        launch("k", [1; 3], [1; 3], 0, &[]),
        Err(LaunchError::ParameterCount {
            got: 0,
            want: 1,
            ..
        })
    ));
    assert!(matches!(
        launch("k", [1; 3], [1; 3], 0, &[&[0; 8]]),
        Err(LaunchError::ParameterSize {
            index: 0,
            got: 8,
            want: 4,
            ..
        })
    ));
    assert!(matches!(
        launch("nobody", [1; 3], [1; 3], 0, &[]),
        Err(LaunchError::UnknownKernel { .. })
    ));
    let other = Emulator::new(EmulatorConfig::default());
    let shape = LaunchConfig {
        grid: [1; 3],
        block: [1; 3],
        shared_bytes: 0,
        cluster: None,
    };
    assert_eq!(
        other.launch(&module, "k", &shape, &[four]),
        Err(LaunchError::ForeignModule)
    );
    Ok(())
}

#[test]
fn memory_is_accounted_for() -> Result<(), MemoryError> {
    let emulator = Emulator::new(EmulatorConfig {
        memory_bytes: 1000,
        ..EmulatorConfig::default()
    });
    let a = emulator.alloc(600)?;
    assert_eq!(a % 256, 0);
    assert_eq!(
        emulator.alloc(500),
        Err(MemoryError::OutOfMemory {
            requested: 500,
            free: 400,
            capacity: 1000
        })
    );
    emulator.write(a + 1, &[1, 2, 3, 4, 5])?;
    emulator.fill(a + 3, 9, 2)?;
    let mut out = [0; 7];
    emulator.read(a, &mut out)?;
    assert_eq!(out, [0, 1, 2, 9, 9, 5, 0]);
    assert!(matches!(
        emulator.write(a + 598, &[0; 3]),
        Err(MemoryError::OutOfBounds { .. })
    ));
    assert_eq!(
        emulator.free(a + 1),
        Err(MemoryError::NotAllocated { address: a + 1 })
    );
    emulator.free(a)?;
    assert_eq!(
        emulator.free(a),
        Err(MemoryError::NotAllocated { address: a })
    );
    assert!(emulator.alloc(1000).is_ok());
    Ok(())
}

#[test]
fn freed_memory_is_recognised() -> Result<(), Box<dyn std::error::Error>> {
    let emulator = emulator();
    let text = format!(
        "{HEADER}.visible .entry k(.param .u64 p)\n{{\n.reg .b64 %rd<2>;\nld.param.u64 %rd1, [p];\nst.global.u32 [%rd1+8], 1;\nret;\n}}\n"
    );
    let module = emulator.load(&text)?;
    let address = emulator.alloc(64)?;
    let shape = LaunchConfig {
        grid: [1; 3],
        block: [1; 3],
        shared_bytes: 0,
        cluster: None,
    };
    emulator.launch(&module, "k", &shape, &[&address.to_le_bytes()])?;
    emulator.free(address)?;
    match emulator.launch(&module, "k", &shape, &[&address.to_le_bytes()]) {
        Err(LaunchError::Fault(report)) => {
            assert_eq!(report.kind, warpsmith_emulator::FaultKind::UseAfterFree);
            assert_eq!(report.address, Some(address + 8));
        }
        other => panic!("a fault was expected, got {other:?}"),
    }
    Ok(())
}

#[test]
fn more_static_shared_memory_than_a_driver_loads_is_refused() {
    let load = |bytes: u32| {
        let text = format!(
            "{HEADER}.shared .align 4 .b8 x[{bytes}];\n.visible .entry k() {{\n.reg .b32 %r<2>;\nmov.u32 %r1, x;\nret;\n}}\n"
        );
        emulator().load(&text).map(drop)
    };
    load(48 << 10).expect("that many are static");
    let error = load((48 << 10) + 4).expect_err("more than 48 KiB");
    let want = "PTX line 5: 49156 bytes of static shared memory, want 49152 or less; dynamic shared \
                memory may have more";
    assert_eq!(error.to_string(), want);
}

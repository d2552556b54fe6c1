//! What PTX each operation of `core::sync::atomic` becomes, for every type and order.
//!
//! A crate with one kernel for each case is written, built and read. A new LLVM that compiles an
//! order otherwise fails this test.

use std::error::Error as StdError;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use cuda_builder::{Arch, CudaBuilder};
use ptx_syntax::ast::Instruction;

use crate::common::toolchain;

type Outcome = Result<(), Box<dyn StdError>>;

const ORDERS: [&str; 5] = ["Relaxed", "Acquire", "Release", "AcqRel", "SeqCst"];
const LOADS: [&str; 3] = ["Relaxed", "Acquire", "SeqCst"];
const STORES: [&str; 3] = ["Relaxed", "Release", "SeqCst"];

/// Name of the atomic type, type of its value, bits, and a value computed from the value `x`.
type Type = (&'static str, &'static str, u32, &'static str);

const TYPES: [Type; 12] = [
    ("AtomicBool", "bool", 8, "!x"),
    ("AtomicI8", "i8", 8, "x.wrapping_mul(3)"),
    ("AtomicU8", "u8", 8, "x.wrapping_mul(3)"),
    ("AtomicI16", "i16", 16, "x.wrapping_mul(3)"),
    ("AtomicU16", "u16", 16, "x.wrapping_mul(3)"),
    ("AtomicI32", "i32", 32, "x.wrapping_mul(3)"),
    ("AtomicU32", "u32", 32, "x.wrapping_mul(3)"),
    ("AtomicI64", "i64", 64, "x.wrapping_mul(3)"),
    ("AtomicU64", "u64", 64, "x.wrapping_mul(3)"),
    ("AtomicIsize", "isize", 64, "x.wrapping_mul(3)"),
    ("AtomicUsize", "usize", 64, "x.wrapping_mul(3)"),
    ("AtomicPtr::<u8>", "*mut u8", 64, "x.wrapping_add(8)"),
];

/// State space, declaration of the kernel's first parameter, and the address of the value.
const SPACES: [(&str, &str, &str); 3] = [
    ("global", "p: *mut T", "p"),
    ("shared", "_p: *mut T", "(&raw mut WORD).cast::<T>()"),
    ("generic", "p: *const *mut T", "*p"),
];

/// One kernel.
struct Case {
    name: String,
    source: String,
    /// The instructions that it must have, in order, as [`shape`] names them.
    want: Vec<String>,
    space: &'static str,
}

/// The fence for the orders before an operation, and for those behind it.
fn fences(orders: &[&str], arch: Arch) -> (Option<String>, Option<String>) {
    let has = |wanted: &[&str]| orders.iter().any(|order| wanted.contains(order));
    let (release, acquire) = halves(arch);
    let before = match () {
        () if has(&["SeqCst"]) => Some("fence.sc.gpu"),
        () if has(&["Release", "AcqRel"]) => Some(release),
        () => None,
    };
    let after = has(&["Acquire", "AcqRel", "SeqCst"]).then_some(acquire);
    (before.map(str::to_owned), after.map(str::to_owned))
}

/// The fences of release and of acquire. PTX 8.6 has one for each.
fn halves(arch: Arch) -> (&'static str, &'static str) {
    match arch {
        Arch::Sm100a => ("fence.release.gpu", "fence.acquire.gpu"),
        _ => ("fence.acq_rel.gpu", "fence.acq_rel.gpu"),
    }
}

/// A relaxed operation between its fences.
fn fenced(orders: &[&str], arch: Arch, operation: &[&str]) -> Vec<String> {
    let (before, after) = fences(orders, arch);
    let operation = operation.iter().map(|shape| (*shape).to_owned());
    before.into_iter().chain(operation).chain(after).collect()
}

fn want_load(order: &str) -> Vec<String> {
    let shapes: &[&str] = match order {
        "Relaxed" => &["ld.relaxed.gpu"],
        "Acquire" => &["ld.acquire.gpu"],
        _ => &["fence.sc.gpu", "ld.acquire.gpu"],
    };
    shapes.iter().map(|shape| (*shape).to_owned()).collect()
}

fn want_store(order: &str) -> Vec<String> {
    let shapes: &[&str] = match order {
        "Relaxed" => &["st.relaxed.gpu"],
        "Release" => &["st.release.gpu"],
        _ => &["fence.sc.gpu", "st.release.gpu"],
    };
    shapes.iter().map(|shape| (*shape).to_owned()).collect()
}

fn want_rmw(operation: &str, bits: u32, ty: &str, order: &str, arch: Arch) -> Vec<String> {
    let bitwise = ["fetch_and", "fetch_or", "fetch_xor"].contains(&operation);
    // Of a `bool`, core computes it by exclusive or or by a swap.
    if operation == "fetch_nand" && ty == "bool" {
        return fenced(&[order], arch, &["atom.xor"]);
    }
    let native = bitwise || bits >= 32 && operation != "fetch_nand";
    let name = operation.trim_start_matches("fetch_");
    let atom = match name {
        "sub" => "atom.add".to_owned(),
        "swap" => "atom.exch".to_owned(),
        name => format!("atom.{name}"),
    };
    if native {
        return fenced(&[order], arch, &[&atom]);
    }
    fenced(&[order], arch, &["ld.relaxed.gpu", "atom.relaxed.gpu.cas"])
}

fn want_cas(bits: u32, orders: [&str; 2], arch: Arch) -> Vec<String> {
    if bits < 32 {
        return fenced(&orders, arch, &["ld.relaxed.gpu", "atom.relaxed.gpu.cas"]);
    }
    let has = |wanted: &[&str]| orders.iter().any(|order| wanted.contains(order));
    if has(&["SeqCst"]) {
        return vec!["fence.sc.gpu".to_owned(), "atom.acquire.gpu.cas".to_owned()];
    }
    let order = match (has(&["Acquire", "AcqRel"]), has(&["Release", "AcqRel"])) {
        (false, false) => "relaxed",
        (true, false) => "acquire",
        (false, true) => "release",
        (true, true) => "acq_rel",
    };
    vec![format!("atom.{order}.gpu.cas")]
}

/// What the kernels of a type are, at an address of a space.
struct Cases<'a> {
    arch: Arch,
    ty: Type,
    space: (&'static str, &'static str, &'static str),
    all: &'a mut Vec<Case>,
}

impl Cases<'_> {
    fn add(&mut self, operation: &str, orders: &[&str], call: &str, want: Vec<String>) {
        let (atomic, ty, ..) = self.ty;
        let (space, parameter, address) = self.space;
        let short = atomic
            .trim_start_matches("Atomic")
            .trim_end_matches("::<u8>");
        let name = format!("{operation}_{short}_{}_{space}", orders.join("_")).to_lowercase();
        let parameter = parameter.replace('T', ty);
        let address = address.replace('T', ty);
        let source = format!(
            "kernel!({name}, ({parameter}, out: *mut {ty}, v: {ty}, c: {ty}), {{\n\
             let a = {atomic}::from_ptr({address}); out.write({call}); }});\n"
        );
        self.all.push(Case {
            name,
            source,
            want,
            space,
        });
    }

    fn add_all(&mut self) {
        let (_, ty, bits, next) = self.ty;
        let arch = self.arch;
        for order in LOADS {
            self.add(
                "load",
                &[order],
                &format!("a.load({order})"),
                want_load(order),
            );
        }
        for order in STORES {
            let call = format!("{{ a.store(v, {order}); c }}");
            self.add("store", &[order], &call, want_store(order));
        }
        let operations: &[&str] = match ty {
            "*mut u8" => &["swap"],
            "bool" => &["swap", "fetch_and", "fetch_or", "fetch_xor"],
            _ => &[
                "swap",
                "fetch_add",
                "fetch_sub",
                "fetch_and",
                "fetch_or",
                "fetch_xor",
                "fetch_nand",
                "fetch_max",
                "fetch_min",
            ],
        };
        for operation in operations {
            for order in ORDERS {
                let want = want_rmw(operation, bits, ty, order, arch);
                self.add(
                    operation,
                    &[order],
                    &format!("a.{operation}(v, {order})"),
                    want,
                );
            }
        }
        if ty == "bool" {
            for order in ORDERS {
                let want = want_rmw("fetch_nand", bits, ty, order, arch);
                self.add(
                    "fetch_nand",
                    &[order],
                    &format!("a.fetch_nand(true, {order})"),
                    want,
                );
            }
        }
        for success in ORDERS {
            for failure in LOADS {
                let orders = [success, failure];
                for operation in ["compare_exchange", "compare_exchange_weak"] {
                    let call =
                        format!("a.{operation}(c, v, {success}, {failure}).unwrap_or_else(|x| x)");
                    self.add(operation, &orders, &call, want_cas(bits, orders, arch));
                }
                let call = format!(
                    "a.fetch_update({success}, {failure}, |x| Some({next})).unwrap_or_else(|x| x)"
                );
                let want = [want_load(failure), want_cas(bits, orders, arch)].concat();
                self.add("fetch_update", &orders, &call, want);
            }
        }
    }
}

fn cases(arch: Arch) -> Vec<Case> {
    let mut all = Vec::new();
    for ty in TYPES {
        for space in SPACES {
            // The other types differ from these in what the table of `global` shows.
            if space.0 == "global" || ["AtomicU8", "AtomicI32", "AtomicU64"].contains(&ty.0) {
                Cases {
                    arch,
                    ty,
                    space,
                    all: &mut all,
                }
                .add_all();
            }
        }
    }
    let (release, acquire) = halves(arch);
    let both = "fence.acq_rel.gpu";
    for (order, want) in [
        ("Acquire", acquire),
        ("Release", release),
        ("AcqRel", both),
        ("SeqCst", "fence.sc.gpu"),
    ] {
        for (operation, want) in [("fence", vec![want.to_owned()]), ("compiler_fence", vec![])] {
            let name = format!("{operation}_{order}").to_lowercase();
            let source = format!("kernel!({name}, (), {{ {operation}({order}); }});\n");
            all.push(Case {
                name,
                source,
                want,
                space: "none",
            });
        }
    }
    all
}

const HEAD: &str = r#"
#![no_std]
#![feature(abi_ptx)]
use core::sync::atomic::*;
use core::sync::atomic::Ordering::*;
#[unsafe(link_section = ".shared")]
static mut WORD: core::mem::MaybeUninit<u64> = core::mem::MaybeUninit::uninit();
macro_rules! kernel {
    ($name:ident, ($($parameter:ident: $ty:ty),*), $body:block) => {
        #[unsafe(no_mangle)]
        pub unsafe extern "ptx-kernel" fn $name($($parameter: $ty),*) {
            $(let _ = $parameter;)*
            unsafe { $body }
        }
        const _: () = {
            const JSON: &str = concat!(
                "{\"name\":\"", stringify!($name), "\",\"module\":\"", module_path!(),
                "\",\"params\":[", metadata!($($parameter: $ty),*), "],\"max_threads\":null,",
                "\"min_blocks\":null,\"dynamic_shared_bytes\":null,\"cluster\":null}"
            );
            #[used]
            #[unsafe(link_section = ".warpsmith.kernel")]
            static METADATA: [u8; JSON.len()] = {
                let mut bytes = [0; JSON.len()];
                let mut at = 0;
                while at < bytes.len() { bytes[at] = JSON.as_bytes()[at]; at += 1; }
                bytes
            };
        };
    };
}
macro_rules! metadata {
    () => { "" };
    ($name:ident: $ty:ty) => {
        concat!("{\"name\":\"", stringify!($name), "\",\"type\":\"", stringify!($ty), "\"}")
    };
    ($name:ident: $ty:ty, $($rest:tt)*) => {
        concat!(metadata!($name: $ty), ",", metadata!($($rest)*))
    };
}
"#;

/// An access of memory or a fence without its types: `ld.acquire.gpu`, `atom.add`. Of a weak access
/// to global memory, which the results and addresses are, nothing.
fn shape(instruction: &Instruction) -> Option<String> {
    let opcode = instruction.opcode.as_str();
    let kept = [
        "relaxed", "acquire", "release", "acq_rel", "sc", "cta", "gpu", "sys", "weak", "volatile",
        "cas", "add", "and", "or", "xor", "exch", "min", "max",
    ];
    if !["ld", "st", "atom", "red", "fence", "membar"].contains(&opcode) {
        return None;
    }
    let mut shape = opcode.to_owned();
    for word in kept.iter().filter(|word| instruction.has(word)) {
        let _ = write!(shape, ".{word}");
    }
    (!["ld", "st"].contains(&shape.as_str())).then_some(shape)
}

/// Writes the crate of all cases. Its folder is always the same, so that `core` is built once.
fn write_crate() -> Result<PathBuf, Box<dyn StdError>> {
    let krate = Path::new(env!("CARGO_TARGET_TMPDIR")).join("orders");
    fs::create_dir_all(krate.join("src"))?;
    let manifest = "[package]\nname = \"orders\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\
                    [workspace]\n";
    fs::write(krate.join("Cargo.toml"), manifest)?;
    let cases = cases(Arch::Sm75);
    let sources: String = cases.iter().map(|case| case.source.as_str()).collect();
    fs::write(krate.join("src/lib.rs"), format!("{HEAD}{sources}"))?;
    Ok(krate)
}

/// How the kernels of a module differ from what they must be.
fn problems(ptx: &str, arch: Arch) -> Result<Vec<String>, Box<dyn StdError>> {
    let module = ptx_syntax::parse(ptx)?;
    let mut problems = Vec::new();
    for Case {
        name, want, space, ..
    } in cases(arch)
    {
        let function = module.functions.iter().find(|f| f.name == name);
        let function = function.ok_or_else(|| format!("no {name}"))?;
        let of_memory = || function.instructions().filter(|i| shape(i).is_some());
        let mut got: Vec<String> = of_memory().filter_map(shape).collect();
        let mut want = want;
        // The blocks of its loop need not lie in the order in which they run.
        if name.starts_with("fetch_update") {
            got.sort();
            want.sort();
        }
        if got != want {
            problems.push(format!("{arch} {name}: {got:?}, want {want:?}"));
        }
        for access in of_memory().filter(|i| !["fence", "membar"].contains(&i.opcode.as_str())) {
            let found = ["global", "shared"]
                .into_iter()
                .find(|space| access.has(space));
            if found.unwrap_or("generic") != space {
                problems.push(format!("{arch} {name}: in {found:?}"));
            }
        }
    }
    Ok(problems)
}

#[test]
fn every_atomic_has_the_instructions_that_its_order_needs() -> Outcome {
    let test = "every_atomic_has_the_instructions_that_its_order_needs";
    let Some(toolchain) = toolchain(test) else {
        return Ok(());
    };
    let report = CudaBuilder::new(write_crate()?)
        .toolchain(toolchain)
        .archs([Arch::Sm75, Arch::Sm100a])
        .build()?;
    assert_eq!(report.modules.len(), 2);
    let mut found = Vec::new();
    for module in &report.modules {
        found.extend(problems(&module.ptx, module.arch)?);
    }
    assert!(
        found.is_empty(),
        "{} differ:\n{}",
        found.len(),
        found.join("\n")
    );
    Ok(())
}

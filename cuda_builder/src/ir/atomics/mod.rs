//! Gives atomics the order and the scope that `core::sync::atomic` promises.
//!
//! LLVM's NVPTX backend compiles `atomicrmw` to an `atom` without an order, whatever the source
//! says. It starts its loops of compare-and-swap with a weak load, and fails on a fence of a single
//! thread. Loads, stores and 32-bit and 64-bit `cmpxchg` keep their order, but at system scope.
//! This step follows `opt`, which must see the orders of the source:
//!
//! | IR | becomes |
//! |---|---|
//! | `load`, `store`, `fence`, 32-bit and 64-bit `cmpxchg` | the same at device scope |
//! | 32-bit and 64-bit `atomicrmw`, and `and`, `or`, `xor` of 8 and 16 bits | relaxed at device scope, between fences |
//! | other `atomicrmw`, and `cmpxchg` of 8 and 16 bits | a call of a loop, between fences |
//! | a fence of a single thread | an empty `asm`, which no access passes |
//!
//! Before the operation stands a fence with its release part, or with all of sequential
//! consistency; behind it one with its acquire part.

mod loops;

use super::Module;
use super::text::split_top_level;

/// An atomic operation that PTX cannot do, or that this step does not know.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "atomics: `{function}` has `{instruction}`: {reason}; use the types of `core::sync::atomic`, \
     or `cuda_std::atomic`, which has floats and scopes"
)]
pub struct AtomicError {
    /// The function, into which others may have been inlined.
    pub function: String,
    /// The instruction in IR.
    pub instruction: String,
    /// Why it is refused.
    pub reason: String,
}

/// An order of the C++ memory model, without the one for plain accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Relaxed,
    Acquire,
    Release,
    AcqRel,
    SeqCst,
}

impl Order {
    fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "monotonic" => Self::Relaxed,
            "acquire" => Self::Acquire,
            "release" => Self::Release,
            "acq_rel" => Self::AcqRel,
            "seq_cst" => Self::SeqCst,
            _ => return None,
        })
    }
}

/// An atomic instruction, taken apart.
struct Atomic<'a> {
    /// `%1 = `, or nothing.
    result: &'a str,
    /// From the opcode to the last operand.
    head: &'a str,
    /// The name in `syncscope`, empty for the whole system.
    scope: &'a str,
    /// The orders as they are written.
    order: &'a str,
    /// All that follows: alignment and metadata, each after a comma.
    tail: &'a str,
}

/// Rewrites the atomics of `module`. Returns whether there are any. The loops' functions must then
/// be inlined: they are `alwaysinline`.
///
/// # Errors
/// An instruction that is not in the table of this file.
pub fn apply(module: &mut Module) -> Result<bool, AtomicError> {
    let mut found = false;
    let mut loops = loops::Loops::default();
    for function in module.functions_mut() {
        let Some(body) = &mut function.body else {
            continue;
        };
        if !body.iter().any(|line| Atomic::opcode(line).is_some()) {
            continue;
        }
        found = true;
        let mut lines = Vec::with_capacity(body.len());
        for line in std::mem::take(body) {
            if Atomic::opcode(&line).is_none() {
                lines.push(line);
                continue;
            }
            let rewritten = Atomic::parse(&line)
                .ok_or_else(|| "this form is unknown".to_owned())
                .and_then(|atomic| atomic.rewritten(&mut loops));
            lines.extend(rewritten.map_err(|reason| AtomicError {
                function: function.name.clone(),
                instruction: line.trim().to_owned(),
                reason,
            })?);
        }
        *body = lines;
    }
    module.items.extend(loops.into_items());
    Ok(found)
}

impl<'a> Atomic<'a> {
    /// The opcode of an atomic instruction, with the result before it and all that follows.
    fn opcode(line: &'a str) -> Option<(&'a str, &'a str)> {
        let line = line.trim_start();
        let opcodes = [
            "fence ",
            "load atomic ",
            "store atomic ",
            "cmpxchg ",
            "atomicrmw ",
        ];
        let at = match line.strip_prefix('%') {
            Some(_) => line.find(" = ")? + 3,
            None => 0,
        };
        let (result, instruction) = line.split_at(at);
        let is_atomic = opcodes.iter().any(|opcode| instruction.starts_with(opcode));
        is_atomic.then_some((result, instruction))
    }

    fn parse(line: &'a str) -> Option<Self> {
        let (result, instruction) = Self::opcode(line)?;
        let operands = match instruction.split(' ').next()? {
            "fence" => 1,
            "cmpxchg" => 3,
            _ => 2,
        };
        let parts = split_top_level(instruction).take(operands);
        let end = parts.map(|part| part.len() + 1).sum::<usize>() - 1;
        let (stated, tail) = instruction.split_at(end);
        let mut head = stated;
        while let Some((before, word)) = head.rsplit_once(' ') {
            if Order::parse(word).is_none() {
                break;
            }
            head = before;
        }
        let order = stated[head.len()..].trim_start();
        let mut scope = "";
        if let Some((before, named)) = head.rsplit_once(" syncscope(\"") {
            scope = named.strip_suffix("\")")?;
            head = before;
        }
        (!order.is_empty()).then_some(Self {
            result,
            head,
            scope,
            order,
            tail,
        })
    }

    fn rewritten(&self, loops: &mut loops::Loops) -> Result<Vec<String>, String> {
        let mut words = self.head.split(' ');
        let opcode = words.next().unwrap_or_default();
        match (opcode, self.scope) {
            ("fence", "singlethread") => {
                let location = self.location();
                let asm = format!("  call void asm sideeffect \"\", \"~{{memory}}\"(){location}");
                return Ok(vec![asm]);
            }
            ("fence", "") => return Ok(vec![self.at_device_scope(self.order)]),
            (_, "") => {}
            (_, scope) => return Err(format!("the scope `{scope}` is unknown")),
        }
        if self.head.contains(" volatile ") {
            return Err("an atomic cannot be volatile as well".to_owned());
        }
        let operands: Vec<&str> = split_top_level(self.head).map(str::trim_start).collect();
        let (ty, pointer) = match (opcode, &operands[..]) {
            ("load", [ty, pointer]) => (ty.strip_prefix("load atomic "), *pointer),
            ("store", [value, pointer]) => (
                value.strip_prefix("store atomic ").and_then(type_of),
                *pointer,
            ),
            ("cmpxchg", [pointer, _, value]) | ("atomicrmw", [pointer, value]) => {
                let words_before = pointer.find("ptr").unwrap_or_default();
                (type_of(value), &pointer[words_before..])
            }
            _ => (None, ""),
        };
        let (Some(ty), Some(space)) = (ty, type_of(pointer)) else {
            return Err("this form is unknown".to_owned());
        };
        let bits = checked(ty, space)?;
        let arguments = [&[pointer], operands.get(1..).unwrap_or_default()].concat();
        let call = |result: &str, name: String| {
            let (arguments, location) = (arguments.join(", "), self.location());
            self.fenced(format!(
                "  {}call {result} @{name}({arguments}){location}",
                self.result
            ))
        };
        Ok(match (opcode, words.next().unwrap_or_default()) {
            ("cmpxchg", _) if bits < 32 => {
                call(&format!("{{ {ty}, i1 }}"), loops.cmpxchg(ty, space))
            }
            ("atomicrmw", operation) if is_native(operation, ty, bits)? => {
                self.fenced(self.at_device_scope("monotonic"))
            }
            ("atomicrmw", operation) => call(ty, loops.rmw(operation, ty, space)),
            _ => vec![self.at_device_scope(self.order)],
        })
    }

    /// The instruction with these orders at device scope.
    fn at_device_scope(&self, order: &str) -> String {
        let Self {
            result, head, tail, ..
        } = self;
        format!("  {result}{head} syncscope(\"device\") {order}{tail}")
    }

    /// A relaxed operation between the fences that give it its orders.
    fn fenced(&self, operation: String) -> Vec<String> {
        let orders: Vec<Order> = self.order.split(' ').filter_map(Order::parse).collect();
        let has = |wanted: &[Order]| orders.iter().any(|order| wanted.contains(order));
        let fence =
            |order: &str| format!("  fence syncscope(\"device\") {order}{}", self.location());
        let mut lines = Vec::with_capacity(3);
        if has(&[Order::SeqCst]) {
            lines.push(fence("seq_cst"));
        } else if has(&[Order::Release, Order::AcqRel]) {
            lines.push(fence("release"));
        }
        lines.push(operation);
        if has(&[Order::Acquire, Order::AcqRel, Order::SeqCst]) {
            lines.push(fence("acquire"));
        }
        lines
    }

    /// `, !dbg !1`, or nothing.
    fn location(&self) -> String {
        let mut parts = self.tail.split(", ");
        let found = parts.find(|part| part.starts_with("!dbg "));
        found.map_or(String::new(), |location| format!(", {location}"))
    }
}

/// The type of an operand, which its value follows.
fn type_of(operand: &str) -> Option<&str> {
    let space = operand.strip_prefix("ptr addrspace(");
    let end = match space.and_then(|rest| rest.find(") ")) {
        Some(digits) => "ptr addrspace(".len() + digits + 1,
        None => operand.find(' ')?,
    };
    Some(&operand[..end])
}

/// The size of a type in bits, if an atomic of it may be in memory of this pointer type.
fn checked(ty: &str, pointer: &str) -> Result<u32, String> {
    if pointer == "ptr addrspace(4)" {
        return Err("constant memory cannot be written".to_owned());
    }
    match ty {
        "i8" => Ok(8),
        "i16" => Ok(16),
        "i32" | "float" => Ok(32),
        "i64" | "double" | "ptr" => Ok(64),
        _ => Err(format!("atomics do not have the type `{ty}`")),
    }
}

/// Whether LLVM compiles an operation to one `atom`. It does bitwise operations of 8 and 16 bits on
/// the word around the value.
fn is_native(operation: &str, ty: &str, bits: u32) -> Result<bool, String> {
    match operation {
        "xchg" if bits >= 32 => Ok(true),
        _ if !ty.starts_with('i') => Err(format!("there is no `{operation}` of this type")),
        "and" | "or" | "xor" => Ok(true),
        "add" | "sub" | "max" | "min" | "umax" | "umin" => Ok(bits >= 32),
        "xchg" | "nand" => Ok(false),
        _ => Err(format!("`{operation}` is unknown")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines that an instruction of function `k` becomes, and the functions that it calls.
    fn rewritten(line: &str) -> Result<(Vec<String>, Vec<String>), AtomicError> {
        let text = format!("define void @k(ptr %p, i32 %v) {{\n  {line}\n  ret void\n}}\n");
        let mut module = Module::parse(&text);
        assert!(apply(&mut module)?, "{line} is an atomic");
        let body = module.function("k").and_then(|k| k.body.clone());
        let mut lines = body.expect("it is defined");
        assert_eq!(lines.pop().as_deref(), Some("  ret void"));
        let lines = lines.iter().map(|line| line.trim().to_owned()).collect();
        let loops = module.functions().filter(|function| function.name != "k");
        Ok((lines, loops.map(|function| function.name.clone()).collect()))
    }

    fn lines(line: &str) -> Vec<String> {
        rewritten(line).expect("it is known").0
    }

    const RELEASE: &str = "fence syncscope(\"device\") release";
    const ACQUIRE: &str = "fence syncscope(\"device\") acquire";
    const SEQ_CST: &str = "fence syncscope(\"device\") seq_cst";

    #[test]
    fn fences_give_an_operation_its_order() {
        let add = "%1 = atomicrmw add ptr %p, i32 %v syncscope(\"device\") monotonic, align 4";
        for (order, want) in [
            ("monotonic", vec![add]),
            ("acquire", vec![add, ACQUIRE]),
            ("release", vec![RELEASE, add]),
            ("acq_rel", vec![RELEASE, add, ACQUIRE]),
            ("seq_cst", vec![SEQ_CST, add, ACQUIRE]),
        ] {
            let line = format!("%1 = atomicrmw add ptr %p, i32 %v {order}, align 4");
            assert_eq!(lines(&line), want);
        }
    }

    #[test]
    fn what_llvm_orders_itself_gets_the_scope_alone() {
        for (line, want) in [
            (
                "%1 = load atomic i8, ptr addrspace(3) @s acquire, align 1, !dbg !7",
                "%1 = load atomic i8, ptr addrspace(3) @s syncscope(\"device\") acquire, align 1, \
                 !dbg !7",
            ),
            (
                "store atomic ptr null, ptr getelementptr (i8, ptr @g, i64 8) seq_cst, align 8",
                "store atomic ptr null, ptr getelementptr (i8, ptr @g, i64 8) \
                 syncscope(\"device\") seq_cst, align 8",
            ),
            (
                "%1 = cmpxchg weak ptr %p, i64 0, i64 %v acq_rel acquire, align 8",
                "%1 = cmpxchg weak ptr %p, i64 0, i64 %v syncscope(\"device\") acq_rel acquire, \
                 align 8",
            ),
            ("fence release", RELEASE),
            (
                "fence syncscope(\"singlethread\") seq_cst, !dbg !3",
                "call void asm sideeffect \"\", \"~{memory}\"(), !dbg !3",
            ),
        ] {
            assert_eq!(lines(line), [want]);
        }
    }

    #[test]
    fn what_llvm_would_begin_with_a_weak_load_is_a_call_of_a_loop() {
        for (line, call, name) in [
            (
                "%1 = atomicrmw xchg ptr %p, i8 1 acq_rel, align 1, !dbg !4",
                "%1 = call i8 @warpsmith.atomic.xchg.i8.p(ptr %p, i8 1), !dbg !4",
                "warpsmith.atomic.xchg.i8.p",
            ),
            (
                "%1 = atomicrmw nand ptr addrspace(3) @s, i32 %v acq_rel, align 4, !dbg !4",
                "%1 = call i32 @warpsmith.atomic.nand.i32.p3(ptr addrspace(3) @s, i32 %v), !dbg !4",
                "warpsmith.atomic.nand.i32.p3",
            ),
            (
                "%1 = cmpxchg weak ptr %p, i16 1, i16 2 release acquire, align 2, !dbg !4",
                "%1 = call { i16, i1 } @warpsmith.atomic.cmpxchg.i16.p(ptr %p, i16 1, i16 2), \
                 !dbg !4",
                "warpsmith.atomic.cmpxchg.i16.p",
            ),
        ] {
            let (lines, loops) = rewritten(line).expect("it is known");
            let [release, acquire] = [RELEASE, ACQUIRE].map(|fence| format!("{fence}, !dbg !4"));
            assert_eq!(lines, [release, call.to_owned(), acquire]);
            assert_eq!(loops, [name]);
        }
    }

    #[test]
    fn loops_begin_with_a_relaxed_load() {
        let mut loops = loops::Loops::default();
        loops.rmw("add", "i8", "ptr");
        loops.rmw("nand", "i64", "ptr addrspace(3)");
        loops.cmpxchg("i16", "ptr");
        let module = Module {
            items: loops.into_items().collect(),
            ..Module::default()
        };
        assert_eq!(module.functions().count(), 3);
        for function in module.functions() {
            let lines = function.body.iter().flatten();
            let loads: Vec<_> = lines.filter(|line| line.contains(" = load ")).collect();
            assert_eq!(loads.len(), 1);
            let relaxed = "syncscope(\"device\") monotonic";
            assert!(loads[0].contains("load atomic") && loads[0].contains(relaxed));
        }
    }

    #[test]
    fn what_ptx_cannot_do_is_refused_with_the_function_and_the_instruction() {
        for (line, reason) in [
            (
                "%1 = atomicrmw fadd ptr %p, float 1.0 seq_cst, align 4",
                "no `fadd` of this type",
            ),
            (
                "%1 = atomicrmw uinc_wrap ptr %p, i32 1 seq_cst, align 4",
                "`uinc_wrap` is unknown",
            ),
            (
                "%1 = load atomic i128, ptr %p acquire, align 16",
                "the type `i128`",
            ),
            (
                "store atomic i32 1, ptr addrspace(4) @c release, align 4",
                "constant memory",
            ),
            (
                "%1 = load atomic volatile i32, ptr %p acquire, align 4",
                "volatile",
            ),
            (
                "%1 = load atomic i32, ptr %p unordered, align 4",
                "this form is unknown",
            ),
            (
                "fence syncscope(\"block\") acquire",
                "the scope `block` is unknown",
            ),
        ] {
            let error = rewritten(line).expect_err(line);
            assert_eq!(
                (error.function.as_str(), error.instruction.as_str()),
                ("k", line)
            );
            assert!(error.reason.contains(reason), "{}", error.reason);
            assert!(
                error
                    .to_string()
                    .contains("use the types of `core::sync::atomic`")
            );
        }
    }

    #[test]
    fn a_module_without_atomics_stays_as_it_is() {
        let text = "define void @k(ptr %p) {\n  call void asm \"fence.sc.gpu; // load atomic \", \
                    \"\"()\n  %1 = load i32, ptr %p, align 4\n  ret void\n}\n";
        let mut module = Module::parse(text);
        assert_eq!(apply(&mut module), Ok(false));
        assert_eq!(module, Module::parse(text));
    }
}

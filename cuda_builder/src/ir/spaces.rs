//! Moves statics to the address space that their section names.
//!
//! | static | becomes |
//! |---|---|
//! | in section `.shared`, without initial value | `internal addrspace(3)`: shared by a block |
//! | in section `.constant` | `internal addrspace(4)`: constant memory, 64 KiB per module |
//! | the same with interior mutability, exported | `addrspace(4)`, whose value the host may write |
//! | external `__warpsmith_dynamic_shared` | `external addrspace(3)`: the launch's dynamic shared memory |
//!
//! Uses become casts to the generic address space. LLVM's address space inference then removes the
//! casts and emits `ld.shared`, `st.shared` and `ld.const`.

use std::collections::BTreeMap;

use super::{Item, Module, kernels, map_symbols, written};

/// Section of statics that become shared memory.
pub const SHARED: &str = ".shared";
/// Section of statics that become constant memory.
pub const CONSTANT: &str = ".constant";
/// External symbol that stands for dynamic shared memory.
pub const DYNAMIC: &str = "__warpsmith_dynamic_shared";

/// A static that cannot be moved.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SpaceError {
    /// Shared memory cannot have an initial value.
    #[error(
        "the static `{symbol}` in section {SHARED} has an initial value, which shared memory \
         cannot have: make it `MaybeUninit::uninit()` (shared_array! does): `{definition}`"
    )]
    InitialisedShared {
        /// The static.
        symbol: String,
        /// Its definition in IR.
        definition: String,
    },
    /// Constant memory cannot be written by kernels.
    #[error(
        "the static `{symbol}` in section {CONSTANT} is `mut` or has interior mutability, which \
         constant memory cannot have, unless the host writes it (`#[unsafe(no_mangle)]`, \
         `cuda_std::Global`): `{definition}`"
    )]
    MutableConstant {
        /// The static.
        symbol: String,
        /// Its definition in IR.
        definition: String,
    },
    /// A definition that this step cannot parse.
    #[error("cannot take the static `{symbol}` apart: `{definition}`")]
    Unreadable {
        /// The static.
        symbol: String,
        /// Its definition in IR.
        definition: String,
    },
}

/// Moves the statics of `module`.
///
/// # Errors
/// [`SpaceError`]
pub fn apply(module: &mut Module) -> Result<(), SpaceError> {
    let mut moved = BTreeMap::new();
    for item in &mut module.items {
        let Item::Global(global) = item else { continue };
        let space = if kernels::in_section(global, SHARED) || global.name == DYNAMIC {
            3
        } else if kernels::in_section(global, CONSTANT) {
            4
        } else {
            continue;
        };
        global.definition = redefine(&global.name, &global.definition, space)?;
        let symbol = written(&global.name);
        let cast = format!("addrspacecast (ptr addrspace({space}) {symbol} to ptr)");
        moved.insert(global.name.clone(), cast);
    }
    let cast = |name: &str| moved.get(name).cloned();
    for item in &mut module.items {
        match item {
            Item::Function(function) => {
                for line in function.body.iter_mut().flatten() {
                    *line = map_symbols(line, cast);
                }
            }
            Item::Global(global) => global.definition = map_symbols(&global.definition, cast),
            Item::Other(_) => {}
        }
    }
    Ok(())
}

fn redefine(symbol: &str, definition: &str, space: u32) -> Result<String, SpaceError> {
    let (symbol, definition) = (symbol.to_owned(), definition.to_owned());
    let (value, tail) = split_tail(&definition);
    let words: Vec<&str> = value.split(' ').collect();
    let Some(kind) = words
        .iter()
        .position(|word| matches!(*word, "global" | "constant"))
    else {
        return Err(SpaceError::Unreadable { symbol, definition });
    };
    let (kind, value) = (words[kind], words[kind + 1..].join(" "));
    let align = tail.iter().find(|part| part.starts_with("align "));
    let align = align.map(|align| format!(", {align}")).unwrap_or_default();
    if words.contains(&"external") {
        return Ok(format!("external addrspace({space}) {kind} {value}{align}"));
    }
    if space == 4 {
        let is_local = ["internal", "private"]
            .iter()
            .any(|word| words.contains(word));
        if kind != "constant" && !is_local {
            return Ok(format!(
                "addrspace(4) externally_initialized constant {value}{align}"
            ));
        }
        if kind != "constant" {
            return Err(SpaceError::MutableConstant { symbol, definition });
        }
        return Ok(format!("internal addrspace(4) constant {value}{align}"));
    }
    let Some(ty) = uninitialised_type(&value) else {
        return Err(SpaceError::InitialisedShared { symbol, definition });
    };
    Ok(format!("internal addrspace(3) global {ty} undef{align}"))
}

/// Splits `a, section "s", align 4` into `a` and the parts of its tail, not at commas inside
/// brackets.
fn split_tail(definition: &str) -> (&str, Vec<&str>) {
    let at = definition
        .find(", section ")
        .or_else(|| definition.rfind(", align "));
    let Some(at) = at else {
        return (definition, Vec::new());
    };
    (
        &definition[..at],
        definition[at..].split(", ").skip(1).collect(),
    )
}

/// The type of an initialiser that holds no value: `[4 x i8] undef`,
/// `<{ [4 x i8], [4 x i8] }> <{ [4 x i8] undef, [4 x i8] undef }>`.
fn uninitialised_type(value: &str) -> Option<String> {
    for nothing in [" undef", " poison"] {
        if let Some(ty) = value.strip_suffix(nothing) {
            return Some(ty.to_owned());
        }
    }
    let (ty, fields) = value.strip_suffix(" }>")?.split_once(" }> <{ ")?;
    fields
        .split(", ")
        .all(|field| field.ends_with(" undef") || field.ends_with(" poison"))
        .then(|| format!("{ty} }}>"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moved(text: &str) -> Result<String, SpaceError> {
        let mut module = Module::parse(text);
        apply(&mut module).map(|()| module.to_string())
    }

    #[test]
    fn a_shared_static_moves_with_all_its_uses() {
        let text = "@PART = internal global [1024 x i8] undef, section \".shared\", align 16\n\
                    @PARTS = internal constant i8 0\n\
                    define void @k() {\n  %1 = getelementptr float, ptr @PART, i64 %0\n  \
                    call void @f(ptr noundef @PARTS, ptr nonnull @PART)\n}\n";
        let cast = "addrspacecast (ptr addrspace(3) @PART to ptr)";
        assert_eq!(
            moved(text).as_deref(),
            Ok(&*format!(
                "@PART = internal addrspace(3) global [1024 x i8] undef, align 16\n\
                 @PARTS = internal constant i8 0\n\
                 \ndefine void @k() {{\n  %1 = getelementptr float, ptr {cast}, i64 %0\n  \
                 call void @f(ptr noundef @PARTS, ptr nonnull {cast})\n}}\n"
            ))
        );
    }

    #[test]
    fn constants_and_dynamic_shared_memory_move_too() {
        let text = "@T = constant <{ [4 x i8], ptr }> <{ [4 x i8] c\"\\00, a\", ptr null }>, section \".constant\", align 8\n\
                    @__warpsmith_dynamic_shared = external global [0 x i8], align 16\n";
        assert_eq!(
            moved(text).as_deref(),
            Ok(
                "@T = internal addrspace(4) constant <{ [4 x i8], ptr }> <{ [4 x i8] c\"\\00, a\", ptr null }>, align 8\n\
                 @__warpsmith_dynamic_shared = external addrspace(3) global [0 x i8], align 16\n"
            )
        );
    }

    #[test]
    fn a_constant_that_the_host_writes_keeps_its_name_and_no_value() {
        let text = "@G = dso_local global <{ [4 x i8] }> zeroinitializer, section \".constant\", align 4\n";
        assert_eq!(
            moved(text).as_deref(),
            Ok(
                "@G = addrspace(4) externally_initialized constant <{ [4 x i8] }> zeroinitializer, align 4\n"
            )
        );
    }

    #[test]
    fn shared_memory_in_undefined_pieces_is_accepted() {
        let text = "@P = global <{ [4 x i8], [2 x i8] }> <{ [4 x i8] undef, [2 x i8] undef }>, section \".shared\", align 4\n";
        assert_eq!(
            moved(text).as_deref(),
            Ok("@P = internal addrspace(3) global <{ [4 x i8], [2 x i8] }> undef, align 4\n")
        );
    }

    #[test]
    fn values_that_the_space_cannot_hold_are_refused() {
        let zero = "@Z = internal global [4 x i8] zeroinitializer, section \".shared\", align 4\n";
        assert!(
            matches!(moved(zero), Err(SpaceError::InitialisedShared { symbol, .. }) if symbol == "Z")
        );
        let mutable = "@M = internal global [4 x i8] undef, section \".constant\", align 4\n";
        assert!(matches!(
            moved(mutable),
            Err(SpaceError::MutableConstant { .. })
        ));
    }
}

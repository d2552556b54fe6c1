//! Writes `kernels.rs`: a Rust function for the launch of each kernel, typed by its parameters.
//!
//! A crate that depends on `warpsmith` includes the file. It includes the PTX and the manifest beside
//! it, so that nothing is read when the program runs.

use std::collections::BTreeMap;

use ptx_syntax::manifest::{KernelEntry, Manifest, ParamEntry};

/// File name of the launches.
pub const LAUNCHES: &str = "kernels.rs";

/// Numbers whose name is that of a type on both sides.
const NUMBERS: [&str; 14] = [
    "u8", "u16", "u32", "u64", "usize", "i8", "i16", "i32", "i64", "isize", "f32", "f64", "bool",
    "char",
];
/// The type of an argument of which the size alone is known.
const ANY: &str = "impl ::warpsmith::KernelArg";
/// Numbers that `half` has on the host.
const HALVES: [&str; 2] = ["f16", "bf16"];

/// The text of the file, which is in the folder of the manifest.
pub(crate) fn source(manifest: &Manifest) -> String {
    let kernels: BTreeMap<&str, &KernelEntry> = manifest
        .modules
        .iter()
        .flat_map(|module| &module.kernels)
        .map(|kernel| (kernel.name.as_str(), kernel))
        .collect();
    let modules: String = manifest
        .modules
        .iter()
        .map(|module| {
            format!(
                "    ({path:?}, include_str!({path:?})),\n",
                path = module.path
            )
        })
        .collect();
    let fields: String = kernels
        .keys()
        .map(|name| format!("    {name}: ::std::sync::OnceLock<::warpsmith::Kernel>,\n"))
        .collect();
    let unloaded: String = kernels
        .keys()
        .map(|name| format!("        {name}: ::std::sync::OnceLock::new(),\n"))
        .collect();
    let launches: String = kernels.values().map(|kernel| launch(kernel)).collect();
    let krate = &manifest.krate;
    format!(
        r#"// Launches of the kernels of `{krate}`, written by warpsmith-cuda-builder.

/// The kernels of `{krate}` on a device.
#[allow(dead_code, unreachable_pub)]
#[derive(Debug)]
pub struct Kernels {{
    built: ::warpsmith::Built,
{fields}}}

/// The kernels of `{krate}` on `device`. Each is loaded when it is launched first.
///
/// # Errors
/// As [`warpsmith::Built::new`].
#[allow(dead_code, unreachable_pub)]
pub fn load(device: &::warpsmith::Device) -> ::warpsmith::Result<Kernels> {{
    Ok(Kernels {{
        built: ::warpsmith::Built::new(device, MANIFEST, MODULES)?,
{unloaded}    }})
}}

const MANIFEST: &str = include_str!("manifest.json");
const MODULES: &[(&str, &str)] = &[
{modules}];

#[allow(dead_code, unreachable_pub, unsafe_code, clippy::too_many_arguments)]
impl Kernels {{
    /// What the kernels are loaded from: their modules with the variables, and each kernel's limits.
    pub fn built(&self) -> &::warpsmith::Built {{
        &self.built
    }}
{launches}}}
"#
    )
}

/// The function that launches a kernel.
fn launch(kernel: &KernelEntry) -> String {
    let name = &kernel.name;
    let taken: Vec<&ParamEntry> = kernel
        .params
        .iter()
        .filter(|param| !is_shape(param))
        .collect();
    let names: Vec<String> = taken.iter().map(|param| argument(param)).collect();
    let own = |name: &str| match names.iter().any(|known| known == name) {
        true => format!("{name}_of_launch"),
        false => name.to_owned(),
    };
    let (stream, config) = (own("stream"), own("config"));
    let declared: Vec<String> = kernel
        .params
        .iter()
        .map(|param| format!("{}: {}", param.name, param.ty))
        .collect();
    let params = names.iter().zip(&taken);
    let params: String = params
        .map(|(name, param)| format!("        {name}: {},\n", taken_type(param)))
        .collect();
    let arguments = names.iter().zip(&taken);
    let arguments: String = arguments
        .map(|(name, param)| match param.layout {
            Some(layout) => {
                format!("&::warpsmith::ByValue::with_layout::<{layout}, _>({name}), ")
            }
            None => format!("&{name}, "),
        })
        .collect();
    let (config_param, config) = match kernel.grid {
        Some(_) => (String::new(), "None".to_owned()),
        None => (
            format!("        {config}: ::warpsmith::LaunchConfig,\n"),
            config,
        ),
    };
    let count = names.len();
    let requires: String = kernel
        .requires
        .iter()
        .map(|requirement| format!("    /// Requires `{}`.\n", requirement.text))
        .collect();
    let (safety, qualifier, reason) = match is_safe(kernel, &taken) {
        true => (
            String::new(),
            "",
            "a kernel without `unsafe`, as cuda_builder compiled it; the launch checks the rest",
        ),
        false => (
            format!("    ///\n    /// # Safety\n    /// {}\n", duty(kernel)),
            "unsafe ",
            "guaranteed by the caller",
        ),
    };
    format!(
        r#"    /// Enqueues `{name}({declared})`.
{requires}    ///
    /// # Errors
    /// As [`warpsmith::Kernel::launch`], and those of loading the kernel.
{safety}    pub {qualifier}fn {name}(
        &self,
        {stream}: &::warpsmith::Stream,
{config_param}{params}    ) -> ::warpsmith::Result<()> {{
        let arguments: [&dyn ::warpsmith::KernelArg; {count}] = [{arguments}];
        let kernel = self.built.kernel(&self.{name}, "{name}")?;
        // SAFETY: {reason}.
        unsafe {{ kernel.launch({stream}, {config}, &arguments[..]) }}
    }}
"#,
        declared = declared.join(", "),
    )
}

/// Whether a launch needs no `unsafe`: the kernel has none, and the types of its arguments are known
/// on the host.
fn is_safe(kernel: &KernelEntry, taken: &[&ParamEntry]) -> bool {
    kernel.safe && taken.iter().all(|param| taken_type(param) != ANY)
}

/// What the caller of an unsafe launch answers for.
fn duty(kernel: &KernelEntry) -> String {
    if !kernel.safe {
        return "As [`warpsmith::Kernel::launch`].".to_owned();
    }
    let params = kernel.params.iter().filter(|param| !is_shape(param));
    let unknown = params.filter(|param| taken_type(param) == ANY);
    let unknown: Vec<String> = unknown
        .map(|param| {
            format!(
                "`{}` has the type `{}` of the kernels",
                param.name, param.ty
            )
        })
        .collect();
    format!("{}.", unknown.join("; "))
}

/// Whether it is the length or the shape of the parameter before it. The launch passes it.
fn is_shape(param: &ParamEntry) -> bool {
    param.name.ends_with(".len") || param.name.ends_with(".shape")
}

/// The name of a parameter as a Rust identifier.
fn argument(param: &ParamEntry) -> String {
    match is_keyword(&param.name) {
        true => format!("r#{}", param.name),
        false => param.name.clone(),
    }
}

/// Whether a name is one that Rust has for itself, so that a kernel wrote it as `r#name`.
fn is_keyword(name: &str) -> bool {
    const KEYWORDS: [&str; 48] = [
        "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "do",
        "dyn", "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in",
        "let", "loop", "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref",
        "return", "static", "struct", "trait", "true", "try", "type", "typeof", "unsafe",
        "unsized", "use", "virtual", "where", "while", "yield",
    ];
    KEYWORDS.contains(&name)
}

/// The type of the argument for a parameter.
fn taken_type(param: &ParamEntry) -> String {
    match param.layout {
        Some(_) => "&impl ::warpsmith::__abi::KernelParam".to_owned(),
        None => host_type(&param.ty),
    }
}

/// The type of the argument for a parameter of a Rust type. A type that is known on the device alone
/// is held against the argument's size when it is launched.
fn host_type(ty: &str) -> String {
    let pointers = [
        ("*const ", "ConstPointer"),
        ("*mut ", "MutPointer"),
        ("&", "ConstPointer"),
    ];
    let pointer = pointers
        .iter()
        .find_map(|(prefix, bound)| Some((*bound, ty.strip_prefix(prefix)?)));
    match pointer {
        Some((bound, of)) => match number(of) {
            Some(of) => format!("impl ::warpsmith::{bound}<{of}>"),
            None => ANY.to_owned(),
        },
        None if last(ty) == "TensorMapParam" => "&::warpsmith::TensorMap".to_owned(),
        None => number(ty).unwrap_or_else(|| ANY.to_owned()),
    }
}

/// The host's path of a number's type. An atomic is memory of its number.
fn number(ty: &str) -> Option<String> {
    if let Some((of, lanes)) = vector(ty) {
        return Some(format!("[{}; {lanes}]", number(of)?));
    }
    let name = match last(ty) {
        "AtomicU32" => "u32",
        "AtomicI32" => "i32",
        "AtomicU64" => "u64",
        "AtomicI64" => "i64",
        "AtomicF32" => "f32",
        "AtomicF64" => "f64",
        "AtomicF16" => "f16",
        "AtomicBf16" => "bf16",
        name => name,
    };
    if HALVES.contains(&name) {
        return Some(format!("::warpsmith::half::{name}"));
    }
    NUMBERS.contains(&name).then(|| name.to_owned())
}

/// The element of a vector, and how many it has: `f32` and 4 of `[f32;4]`.
fn vector(ty: &str) -> Option<(&str, usize)> {
    let inner = ty.strip_prefix('[')?.strip_suffix(']')?;
    let (of, lanes) = inner.split_once(';')?;
    Some((of, lanes.parse().ok()?))
}

fn last(path: &str) -> &str {
    path.rsplit("::").next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_typed_by_what_the_host_knows() {
        let cases = [
            ("f32", "f32"),
            ("half::bf16", "::warpsmith::half::bf16"),
            ("*const f32", "impl ::warpsmith::ConstPointer<f32>"),
            (
                "*mut bf16",
                "impl ::warpsmith::MutPointer<::warpsmith::half::bf16>",
            ),
            ("&u32", "impl ::warpsmith::ConstPointer<u32>"),
            ("*const AtomicU32", "impl ::warpsmith::ConstPointer<u32>"),
            (
                "*const atomic::AtomicBf16",
                "impl ::warpsmith::ConstPointer<::warpsmith::half::bf16>",
            ),
            ("*const[u32;4]", "impl ::warpsmith::KernelArg"),
            (
                "*const [half::f16;8]",
                "impl ::warpsmith::ConstPointer<[::warpsmith::half::f16; 8]>",
            ),
            ("*mut*mut u32", "impl ::warpsmith::KernelArg"),
            ("ScaleParams", "impl ::warpsmith::KernelArg"),
            ("tma::TensorMapParam", "&::warpsmith::TensorMap"),
        ];
        for (ty, want) in cases {
            assert_eq!(host_type(ty), want, "{ty}");
        }
    }

    /// The kernel `mark` with parameters of these names and types.
    fn mark(params: &[(&str, &str)], safe: bool) -> KernelEntry {
        let param = |&(name, ty): &(&str, &str)| ParamEntry {
            name: name.to_owned(),
            ty: ty.to_owned(),
            size: 8,
            align: 8,
            ..ParamEntry::default()
        };
        KernelEntry {
            name: "mark".to_owned(),
            params: params.iter().map(param).collect(),
            safe,
            ..KernelEntry::default()
        }
    }

    #[test]
    fn names_stay_apart() {
        let names = ["type", "stream", "x", "x.len"].map(|name| (name, "u32"));
        let text = launch(&mark(&names, false));
        for part in [
            "[&r#type, &stream, &x, ]",
            "stream_of_launch: &::warpsmith::Stream",
            "config: ::warpsmith::LaunchConfig",
        ] {
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn a_safe_kernel_with_arguments_of_known_types_has_a_safe_launch() {
        let known = [
            ("n", "u32"),
            ("x", "*const AtomicU32"),
            ("x.len", "usize"),
            ("y", "*mut half::bf16"),
            ("y.shape", "Shape2"),
        ];
        assert!(launch(&mark(&known, true)).contains("    pub fn mark("));
        assert!(launch(&mark(&known, false)).contains("    pub unsafe fn mark("));
        let text = launch(&mark(&[("n", "u32"), ("p", "ScaleParams")], true));
        assert!(text.contains("    pub unsafe fn mark("), "{text}");
        let duty = "/// # Safety\n    /// `p` has the type `ScaleParams` of the kernels.\n    pub";
        assert!(text.contains(duty), "{text}");
    }
}

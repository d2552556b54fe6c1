//! `#[kernel]`: checks the function, and expands it to an entry point with metadata.

use proc_macro2::TokenStream;
use quote::quote;
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{FnArg, Ident, ItemFn, Pat, ReturnType, Safety, Type, parse2};

use crate::attributes::Attributes;
use crate::contract::{self, Value};
use crate::metadata::{self, Param};
use crate::{names, safe};

/// Expands the attribute.
pub(crate) fn expand(attribute: TokenStream, item: TokenStream) -> syn::Result<TokenStream> {
    let attributes: Attributes = parse2(attribute)?;
    let function: ItemFn = parse2(item)?;
    let is_generic = !attributes.instances.is_empty();
    check_signature(&function, is_generic)?;
    if !is_generic {
        return entry(&function, &attributes);
    }
    let params = params(&function)?;
    let instances = attributes.instances.iter();
    let entries = instances.map(|instance| {
        let values = instance.values(&function)?;
        let function = instance.function(&function, &params, &values)?;
        check_signature(&function, false)?;
        entry(&function, &attributes.with(&values)?)
    });
    let entries = entries.collect::<syn::Result<Vec<_>>>()?;
    Ok(quote! {
        #[inline(always)]
        #[allow(clippy::too_many_arguments, clippy::needless_pass_by_value)]
        #function
        #(#entries)*
    })
}

/// The entry of a function that is not generic.
fn entry(function: &ItemFn, attributes: &Attributes) -> syn::Result<TokenStream> {
    let params = params(function)?;
    let entry = match is_unsafe(function) {
        true => unsafe_entry(function, &params, attributes),
        false => safe_entry(function, &params, attributes),
    }?;
    let number_checks = attributes.checks();
    Ok(quote! {
        #entry
        #number_checks
    })
}

pub(crate) fn is_unsafe(function: &ItemFn) -> bool {
    matches!(function.sig.safety, Safety::Unsafe(_))
}

/// The entry with the parameters and the body of the function itself.
fn unsafe_entry(
    function: &ItemFn,
    params: &[(&Ident, &Type)],
    attributes: &Attributes,
) -> syn::Result<TokenStream> {
    for (_, ty) in params {
        if let Some(message) = refused_type(ty) {
            return Err(syn::Error::new(ty.span(), message));
        }
    }
    let described: Vec<Param> = params
        .iter()
        .map(|(name, ty)| Param::new(name.unraw().to_string(), metadata::type_name(ty)))
        .collect();
    let numbers = params.iter().filter(|(_, ty)| safe::is_unsigned(ty));
    let numbers: Vec<Value> = numbers
        .map(|(name, _)| Value {
            of: (*name).clone(),
            extent: "",
            device: quote!(#name),
        })
        .collect();
    let contract = attributes.contract((&numbers, &[]))?;
    let name = &function.sig.ident;
    let metadata = metadata::expand(name, described, attributes, contract.json, false);
    let param_checks = param_checks(params);
    let ItemFn {
        attrs,
        vis,
        sig,
        block,
        ..
    } = function;
    let inputs = &sig.inputs;
    Ok(quote! {
        #(#attrs)*
        #[cfg(target_arch = "nvptx64")]
        #[unsafe(no_mangle)]
        #[allow(improper_ctypes_definitions)]
        #vis unsafe extern "ptx-kernel" fn #name(#inputs) #block

        #(#attrs)*
        #[cfg(not(target_arch = "nvptx64"))]
        #[allow(clippy::too_many_arguments)]
        #vis unsafe fn #name(#inputs) #block

        #metadata
        #param_checks
    })
}

/// The entry that takes addresses and shapes, makes the function's parameters of them, and goes on
/// with its body.
fn safe_entry(
    function: &ItemFn,
    params: &[(&Ident, &Type)],
    attributes: &Attributes,
) -> syn::Result<TokenStream> {
    let entry = safe::Entry::of(params, attributes.block.as_ref())?;
    let name = &function.sig.ident;
    let contract::Contract { json, conditions } =
        attributes.contract((&entry.values, &entry.covers))?;
    let safe::Entry {
        inputs: of_entry,
        params,
        statics,
        arguments,
        checks,
        ..
    } = entry;
    let metadata = metadata::expand(name, params, attributes, json, true);
    let ItemFn {
        attrs,
        vis,
        sig,
        block,
        ..
    } = function;
    let inputs = &sig.inputs;
    Ok(quote! {
        #(#attrs)*
        #[cfg(target_arch = "nvptx64")]
        #[unsafe(no_mangle)]
        #[allow(improper_ctypes_definitions)]
        #vis unsafe extern "ptx-kernel" fn #name(#(#of_entry),*) {
            #(#statics)*

            #[inline(always)]
            fn __safe_kernel(#inputs) #block

            // SAFETY: whoever launches the entry passes the memory that the parameters describe, and
            // meets the requirements; each thread comes here once.
            unsafe {
                #(::core::hint::assert_unchecked(#conditions);)*
                __safe_kernel(#(#arguments),*)
            }
        }

        #(#attrs)*
        #[cfg(not(target_arch = "nvptx64"))]
        #[allow(clippy::too_many_arguments, clippy::needless_pass_by_value)]
        #vis fn #name(#inputs) #block

        #metadata
        const _: () = { #(#checks)* };
        #[cfg(not(target_arch = "nvptx64"))]
        #[allow(dead_code, clippy::too_many_arguments)]
        const _: () = {
            unsafe fn __entry(#(#of_entry),*) {
                #(#statics)*
                // SAFETY: as on the device; nobody calls this.
                unsafe {
                    #(::core::hint::assert_unchecked(#conditions);)*
                    #name(#(#arguments),*)
                }
            }
        };
    })
}

/// Refuses functions that cannot be an entry point.
fn check_signature(function: &ItemFn, may_be_generic: bool) -> syn::Result<()> {
    function.modifiers.require_empty()?;
    let sig = &function.sig;
    names::check_function(&sig.ident, "kernel")?;
    let is_generic = !sig.generics.params.is_empty() && !may_be_generic;
    let refusals = [
        (
            is_generic.then(|| sig.generics.span()),
            "a kernel cannot be generic, since an entry is one compiled function: name its entries, \
             as in #[kernel(axpy_f32 = <f32>, axpy_f64 = <f64>)]",
        ),
        (sig.asyncness.span_if(), "a kernel cannot be async"),
        (sig.constness.span_if(), "a kernel cannot be const"),
        (sig.variadic.span_if(), "a kernel cannot be variadic"),
        (
            sig.abi.span_if(),
            "#[kernel] chooses the ABI; remove `extern`",
        ),
        (
            returned(sig),
            "a kernel returns nothing: write results through a pointer",
        ),
    ];
    for (span, message) in refusals {
        if let Some(span) = span {
            return Err(syn::Error::new(span, message));
        }
    }
    Ok(())
}

/// The span of a return type other than `()`.
fn returned(sig: &syn::Signature) -> Option<proc_macro2::Span> {
    match &sig.output {
        ReturnType::Default => None,
        ReturnType::Type(_, ty) => match ty.as_ref() {
            Type::Tuple(tuple) if tuple.elems.is_empty() => None,
            other => Some(other.span()),
        },
    }
}

/// The names and types of the parameters.
fn params(function: &ItemFn) -> syn::Result<Vec<(&Ident, &Type)>> {
    function.sig.inputs.iter().map(param).collect()
}

fn param(argument: &FnArg) -> syn::Result<(&Ident, &Type)> {
    let FnArg::Typed(typed) = argument else {
        return Err(syn::Error::new(
            argument.span(),
            "a kernel cannot be a method",
        ));
    };
    let Pat::Ident(pattern) = typed.pat.as_ref() else {
        return Err(syn::Error::new(
            typed.pat.span(),
            "a kernel's parameter has a plain name: it stands in the manifest",
        ));
    };
    names::check_parameter(&typed.attrs, "kernel")?;
    if matches!(typed.ty.as_ref(), Type::ImplTrait(_)) {
        let message = "a kernel cannot be generic: name the type";
        return Err(syn::Error::new(typed.ty.span(), message));
    }
    Ok((&pattern.ident, &typed.ty))
}

/// Why a parameter of this type is refused, as far as the type's spelling tells.
fn refused_type(ty: &Type) -> Option<&'static str> {
    match ty {
        Type::Reference(reference) => refused_pointee(&reference.elem).or_else(|| {
            reference.mutability.map(|_| {
                "every thread would hold the same `&mut`, which is undefined behaviour: pass \
                 `*mut T`, and let each thread write its own elements"
            })
        }),
        Type::Ptr(pointer) => refused_pointee(&pointer.elem),
        _ => None,
    }
}

/// Why a pointer or a reference to a type cannot be passed.
fn refused_pointee(ty: &Type) -> Option<&'static str> {
    match ty {
        Type::Slice(_) => Some(
            "a slice is two parameters of the entry: pass a pointer and a length, or make the kernel \
             a safe `fn`",
        ),
        Type::TraitObject(_) => Some("a vtable of the host means nothing on the device"),
        Type::Path(path) if path.path.is_ident("str") => {
            Some("a str is two parameters of the entry: pass a pointer and a length")
        }
        _ => None,
    }
}

/// Makes the compiler refuse the types that only it can recognise. These are types that are not
/// `Copy`, types with more alignment than PTX's parameters, and types with a layout of Rust's own.
/// For the last (tuples, `Option`, structs without `#[repr(C)]`), host and device might disagree.
fn param_checks(params: &[(&Ident, &Type)]) -> TokenStream {
    // Elided lifetimes cannot be named in a constant; references need no check there.
    let by_value: Vec<_> = params
        .iter()
        .map(|(_, ty)| ty)
        .filter(|ty| !matches!(ty, Type::Reference(_)))
        .collect();
    // The lint knows no `char`, which is 32 bits on both sides.
    let with_layout = params.iter().map(|(_, ty)| ty).filter(|ty| !is_char(ty));
    quote! {
        const _: () = {
            #(
                ::cuda_std::meta::is_copied_to_each_thread::<#by_value>();
                ::core::assert!(
                    ::core::mem::align_of::<#by_value>() <= 8,
                    "a kernel parameter is aligned to 8 bytes at most: pass a pointer"
                );
            )*
        };
        const _: () = {
            #[deny(improper_ctypes_definitions)]
            #[allow(dead_code, clippy::too_many_arguments)]
            extern "C" fn parameters_have_the_layout_of_c(#(_: #with_layout),*) {}
        };
    }
}

fn is_char(ty: &Type) -> bool {
    matches!(ty, Type::Path(path) if path.path.is_ident("char"))
}

/// The span of something optional.
trait SpanIf {
    fn span_if(&self) -> Option<proc_macro2::Span>;
}

impl<T: Spanned> SpanIf for Option<T> {
    fn span_if(&self) -> Option<proc_macro2::Span> {
        self.as_ref().map(Spanned::span)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The compile error of `#[kernel(attribute)] item`; empty if there is none.
    fn refusal(attribute: &str, item: &str) -> String {
        let parse = |text: &str| text.parse().expect("the test's text is tokens");
        match expand(parse(attribute), parse(item)) {
            Ok(_) => String::new(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn what_cannot_be_an_entry_is_refused_with_the_reason() {
        let cases = [
            ("unsafe fn f<T>(x: *mut T) {}", "cannot be generic"),
            ("unsafe fn f<'a>(x: &'a f32) {}", "cannot be generic"),
            ("unsafe fn f(x: impl Copy) {}", "cannot be generic"),
            ("async unsafe fn f() {}", "cannot be async"),
            ("const unsafe fn f() {}", "cannot be const"),
            ("unsafe extern \"C\" fn f() {}", "chooses the ABI"),
            ("unsafe fn f() -> u32 { 1 }", "returns nothing"),
            ("unsafe fn f(&self) {}", "cannot be a method"),
            ("unsafe fn r#loop() {}", "kernel's name cannot be a raw"),
            (
                "unsafe fn f(#[cfg(debug_assertions)] x: u32) {}",
                "the same in every build",
            ),
            (
                "unsafe fn f(x: u32, #[cfg_attr(test, cfg(test))] y: u32) {}",
                "a kernel for each",
            ),
            ("unsafe fn f((a, b): (u32, u32)) {}", "plain name"),
            ("unsafe fn f(x: &[f32]) {}", "two parameters"),
            ("unsafe fn f(x: &str) {}", "two parameters"),
            ("unsafe fn f(x: &dyn Fn()) {}", "vtable"),
            ("unsafe fn f(x: *const [f32]) {}", "two parameters"),
            ("unsafe fn f(x: *const str) {}", "two parameters"),
            ("unsafe fn f(x: *mut dyn Fn()) {}", "vtable"),
            ("unsafe fn f(x: &mut f32) {}", "pass `*mut T`"),
            ("unsafe fn f(x: &mut [f32]) {}", "two parameters"),
        ];
        for (item, want) in cases {
            let got = refusal("", item);
            assert!(got.contains(want), "`{item}`: {got:?}, want {want:?}");
        }
    }

    #[test]
    fn a_safe_kernel_takes_no_pointers() {
        let cases = [
            (
                "fn f(x: *const f32) {}",
                "takes no raw pointer: take `&[T]`",
            ),
            ("fn f(x: *mut f32) {}", "`Disjoint<'_, T, Index1>`"),
            ("fn f(x: &f32) {}", "no such reference: take `&[T]`"),
            ("fn f(x: &mut [f32]) {}", "the same `&mut`"),
            ("fn f(x: &'static [f32]) {}", "names no lifetime"),
            (
                "fn f(x: Disjoint<'static, f32, Index1>) {}",
                "names no lifetime",
            ),
            ("fn f(b: Block<'_, 32>) {}", "block's extents are missing"),
            ("fn f<T>(x: &[T]) {}", "cannot be generic"),
            ("fn f(x: impl Copy) {}", "cannot be generic"),
        ];
        for (item, want) in cases {
            let got = refusal("", item);
            assert!(got.contains(want), "`{item}`: {got:?}, want {want:?}");
        }
    }

    #[test]
    fn memory_is_an_address_and_a_shape() {
        let item = "fn f(n: u32, x: &[AtomicU32], y: Disjoint<'_, f32, safe::InTile<2, 2>>, \
                    t: SharedTile<'_, f32, 8>, b: Block<'_, 32>) {}";
        let parse = |text: &str| text.parse().expect("the test's text is tokens");
        let expanded = expand(parse("block = 32"), parse(item)).expect("a kernel");
        let expanded = expanded.to_string();
        for part in [
            r#"{\"name\":\"n\",\"type\":\"u32\"},{\"name\":\"x\",\"type\":\"*const AtomicU32\","#,
            r#"{\"name\":\"x.len\",\"type\":\"usize\"},{\"name\":\"y\",\"type\":\"*mut f32\","#,
            r#"{\"name\":\"y.shape\",\"type\":\"Shape2\"}],"#,
            r#"\"safe\":true}"#,
        ] {
            assert!(expanded.contains(part), "{expanded} lacks {part}");
        }
    }

    #[test]
    fn a_generic_kernel_has_the_entries_that_it_names() {
        let parse = |text: &str| text.parse().expect("the test's text is tokens");
        let item = "pub fn f<T: Plain, const N: usize>(a: T, x: &[[T; N]], \
                    mut y: Disjoint<'_, T, Index1>) { y }";
        let entries = "f_f32 = <f32, 4>, f_wide = <f64, { 1 + 1 }>, max_threads = 64";
        let expanded = expand(parse(entries), parse(item)).expect("a kernel");
        let expanded = expanded.to_string();
        for part in [
            r#"{\"name\":\"f_f32\",\"module\":\""#,
            r#"{\"name\":\"a\",\"type\":\"f32\"},{\"name\":\"x\",\"type\":\"*const [f32;4]\","#,
            r#"{\"name\":\"y\",\"type\":\"*mut f64\","#,
            "f :: < f32 , 4 > (a , x , y)",
            "fn f < T : Plain , const N : usize >",
        ] {
            assert!(expanded.contains(part), "{expanded} lacks {part}");
        }
        let contract = "f_f32 = <f32, 4>, f_wide = <f64, { 1 + 1 }>, block = 8 * N, \
                        requires = \"x.len() % N == 0 && x.len() <= y.len()\", grid = \"y.len() / N\"";
        let expanded = expand(parse(contract), parse(item)).expect("a kernel");
        let expanded = expanded.to_string();
        for part in [
            r#"{\"text\":\"x.len() % 4 == 0\",\"code\":\"$x.len "#,
            r#"{\"text\":\"x.len() % { 1 + 1 } == 0\",\"code\":\"$x.len "#,
            "let value : u64 = ((8 * 4) as u64)",
            "let value : u64 = ((8 * { 1 + 1 }) as u64)",
        ] {
            assert!(expanded.contains(part), "{expanded} lacks {part}");
        }
        let item = "unsafe fn f<T>(x: *mut T) {}";
        let expanded = expand(parse("f_u8 = <u8>"), parse(item)).expect("a kernel");
        let call = "unsafe { f :: < u8 > (x) }";
        assert!(expanded.to_string().contains(call), "{expanded}");
        for (entries, item, want) in [
            ("g = <u8, u8>", item, "`f` takes 1 arguments, got 2"),
            ("g = <u8>", "unsafe fn f(x: u32) {}", "takes 0 arguments"),
            ("r#loop = <u8>", item, "cannot be a raw identifier"),
            ("g = <u8>", "fn f<'a>(x: &'a [u8]) {}", "names no lifetime"),
        ] {
            let got = refusal(entries, item);
            assert!(got.contains(want), "`{entries}`: {got:?}, want {want:?}");
        }
    }

    #[test]
    fn wrong_arguments_are_refused_with_the_reason() {
        let cases = [
            ("threads = 4", "unknown argument"),
            ("max_threads = 4, max_threads = 5", "given twice"),
            ("min_blocks = 2", "needs max_threads"),
            ("block = 32, max_threads = 32", "leave out max_threads"),
            ("block = (1, 2, 3, 4)", "block takes three extents"),
            ("cluster = 2", "three extents"),
            ("cluster = (2, 1)", "three extents"),
            ("arch = 90", "architecture's name"),
            ("arch = \"Hopper\"", "`Hopper` is not an architecture"),
            ("arch = \"sm_12\"", "known: sm_75, sm_80"),
            ("arch = \"sm_80\", arch = \"sm_80\"", "given twice"),
        ];
        for (attribute, want) in cases {
            let got = refusal(attribute, "unsafe fn f() {}");
            assert!(got.contains(want), "`{attribute}`: {got:?}, want {want:?}");
        }
    }

    #[test]
    fn what_can_be_an_entry_is_accepted() {
        let attribute = "max_threads = 8 * 32, min_blocks = 1, cluster = (2, 1, 1), dynamic_shared = N, arch = \"sm_90a\"";
        let item = "pub unsafe fn f(x: &f32, mut n: usize, p: Params) -> () { n += 1; }";
        assert_eq!(refusal(attribute, item), "");
        let lints = "unsafe fn f(#[allow(unused)] x: u32) {}";
        assert_eq!(refusal("", lints), "");
        let raw = "unsafe fn f(r#type: u32) {}".parse().expect("tokens");
        let expanded = expand(TokenStream::new(), raw).expect("a kernel");
        let expanded = expanded.to_string();
        assert!(expanded.contains(r#"{\"name\":\"type\","#), "{expanded}");
    }
}

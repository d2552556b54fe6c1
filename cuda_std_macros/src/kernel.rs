//! `#[kernel]`: checks the function, and expands it to an entry point with metadata.

use proc_macro2::TokenStream;
use quote::quote;
use syn::spanned::Spanned;
use syn::{FnArg, Ident, ItemFn, Pat, ReturnType, Safety, Type, parse2};

use crate::attributes::Attributes;
use crate::contract;
use crate::metadata;
use crate::passed::{Passed, element_of_slice};
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
    let Passed {
        inputs: of_entry,
        described,
        values,
        slices,
    } = Passed::of(params);
    let contract = attributes.contract((&values, &[], contract::Dimensions::ANY))?;
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
    let prologue = attributes.prologue();
    let body = match slices.is_empty() && prologue.is_none() {
        true => quote!(#block),
        false => quote!({
            #prologue
            #(#slices)*
            #block
        }),
    };
    Ok(quote! {
        #(#attrs)*
        #[cfg(target_arch = "nvptx64")]
        #[unsafe(no_mangle)]
        #[allow(improper_ctypes_definitions)]
        #vis unsafe extern "ptx-kernel" fn #name(#(#of_entry),*) #body

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
    let contract::Contract {
        json,
        facts: of_contract,
    } = attributes.contract((&entry.values, &entry.covers, entry.dimensions))?;
    let safe::Entry {
        inputs: of_entry,
        params,
        statics,
        arguments,
        checks,
        mut facts,
        ..
    } = entry;
    facts.extend(of_contract);
    let metadata = metadata::expand(name, params, attributes, json, true);
    let ItemFn {
        attrs,
        vis,
        sig,
        block,
        ..
    } = function;
    let inputs = &sig.inputs;
    let prologue = attributes.prologue();
    Ok(quote! {
        #(#attrs)*
        #[cfg(target_arch = "nvptx64")]
        #[unsafe(no_mangle)]
        #[allow(improper_ctypes_definitions)]
        #vis unsafe extern "ptx-kernel" fn #name(#(#of_entry),*) {
            #prologue
            #(#statics)*

            #[inline(always)]
            fn __safe_kernel(#inputs) #block

            // SAFETY: whoever launches the entry passes the memory that the parameters describe, of
            // fewer than 2^63 elements, and meets the requirements; `.reqntid` has the block's
            // extents. Each thread comes here once.
            unsafe {
                #(#facts)*
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
                    #(#facts)*
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
        _ if element_of_slice(ty).is_some() => None,
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
            "a slice that is written, or behind a pointer, is two parameters of the entry: pass a \
             pointer and a length, or make the kernel a safe `fn`",
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
    // The lint knows no `char`, which is 32 bits on both sides. An entry has no slices.
    let with_layout = params.iter().map(|(_, ty)| ty);
    let with_layout = with_layout.filter(|ty| !is_char(ty) && element_of_slice(ty).is_none());
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
mod tests;

//! The parameters of a safe kernel, and how they are made of those of its entry.

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Expr, GenericArgument, PathArguments, Type};

use crate::metadata::{Param, type_name};

/// What a safe kernel takes instead of a pointer.
const INSTEAD: &str = "take `&[T]` or `View2<'_, T>` for an input and `Disjoint<'_, T, Index1>` (or \
                       another witness) for an output, or make the kernel an `unsafe fn`";

/// What the entry of a safe kernel consists of.
#[derive(Default)]
pub(crate) struct Entry {
    /// Its parameters, names and types.
    pub(crate) inputs: Vec<TokenStream>,
    /// The same for the manifest.
    pub(crate) params: Vec<Param>,
    /// Statics of shared memory.
    pub(crate) statics: Vec<TokenStream>,
    /// The arguments of the body.
    pub(crate) arguments: Vec<TokenStream>,
    /// Constants that do not compile where a parameter is not what it has to be.
    pub(crate) checks: Vec<TokenStream>,
    /// The tiles of shared memory, `'static`.
    tiles: Vec<TokenStream>,
}

impl Entry {
    /// That of a kernel with these parameters, and with a block of these extents if it has them.
    pub(crate) fn of(params: &[(&Ident, &Type)], block: Option<&[Expr; 3]>) -> syn::Result<Self> {
        let mut entry = Self::default();
        for (name, ty) in params {
            refuse_lifetimes(ty.to_token_stream())?;
            entry.add(name, ty, block)?;
        }
        for (at, tile) in entry.tiles.iter().enumerate() {
            for other in &entry.tiles[..at] {
                entry.checks.push(quote! {
                    ::core::assert!(
                        <#other>::BARRIER != <#tile>::BARRIER,
                        "each tile has its own barrier: the second tile is a `SharedTile<'_, T, N, 2>`"
                    );
                });
            }
        }
        Ok(entry)
    }

    fn add(&mut self, name: &Ident, ty: &Type, block: Option<&[Expr; 3]>) -> syn::Result<()> {
        let refuse = |message: &str| Err(syn::Error::new(ty.span(), message));
        match ty {
            Type::Reference(reference) => match reference.elem.as_ref() {
                _ if reference.mutability.is_some() => refuse(&format!(
                    "every thread would hold the same `&mut`: {INSTEAD}"
                )),
                Type::Slice(slice) => {
                    let element = &slice.elem;
                    let (pointer, len) = self.memory(name, element, None);
                    self.argument(quote!(::cuda_std::safe::slice::<#element>(#pointer, #len)));
                    Ok(())
                }
                _ => refuse(&format!("a safe kernel takes no such reference: {INSTEAD}")),
            },
            Type::Ptr(_) => refuse(&format!("a safe kernel takes no raw pointer: {INSTEAD}")),
            Type::Path(path) => {
                let last = path.path.segments.last();
                let what = last.map(|segment| segment.ident.to_string());
                let arguments = types(last.map(|segment| &segment.arguments));
                match (what.as_deref(), arguments.as_slice()) {
                    (Some("View2"), [element]) => {
                        let (pointer, shape) = self.memory(name, element, Some((1, true)));
                        self.argument(quote!(::cuda_std::safe::View2::new(#pointer, #shape)));
                    }
                    (Some("Disjoint"), [element, witness]) => {
                        let two = is_two_dimensional(witness);
                        let (pointer, shape) = self.memory(name, element, Some((2, two)));
                        self.argument(quote! {
                            ::cuda_std::safe::Disjoint::<#element, #witness>::new(#pointer, #shape)
                        });
                    }
                    (Some("Block"), _) => return self.block(ty, block),
                    (Some("SharedTile"), [_, ..]) => self.tile(ty),
                    _ => self.number(name, ty),
                }
                Ok(())
            }
            _ => {
                self.number(name, ty);
                Ok(())
            }
        }
    }

    /// Adds a pointer, and the length or the shape of what it points to. An input of one dimension is
    /// `None`; else 1 stands for an input and 2 for an output, with whether it has two dimensions.
    fn memory(&mut self, name: &Ident, element: &Type, of: Option<(u8, bool)>) -> (Ident, Ident) {
        let (pointer, shape) = (self.fresh(), format_ident!("p{}_shape", self.inputs.len()));
        let is_output = of.is_some_and(|(kind, _)| kind == 2);
        let (qualifier, alias) = match is_output {
            true => (quote!(*mut), quote!(2)),
            false => (
                quote!(*const),
                quote!(<#element as ::cuda_std::safe::Input>::IS_FROZEN),
            ),
        };
        let word = if is_output { "*mut" } else { "*const" };
        let (suffix, ty, extent) = match of {
            Some((_, true)) => ("shape", "Shape2", quote!(::cuda_std::safe::Shape2)),
            _ => ("len", "usize", quote!(usize)),
        };
        let name = name.unraw();
        self.inputs.push(quote!(#pointer: #qualifier #element));
        self.inputs.push(quote!(#shape: #extent));
        self.params.push(Param {
            name: name.to_string(),
            ty: format!("{word} {}", element_name(element)),
            alias: Some(alias),
        });
        self.params.push(Param {
            name: format!("{name}.{suffix}"),
            ty: ty.to_owned(),
            alias: None,
        });
        (pointer, shape)
    }

    fn number(&mut self, name: &Ident, ty: &Type) {
        let number = self.fresh();
        self.inputs.push(quote!(#number: #ty));
        self.params.push(Param {
            name: name.unraw().to_string(),
            ty: type_name(ty),
            alias: None,
        });
        self.checks
            .push(quote!(::cuda_std::safe::is_a_number_or_a_kernel_param::<#ty>();));
        self.argument(quote!(#number));
    }

    fn block(&mut self, ty: &Type, block: Option<&[Expr; 3]>) -> syn::Result<()> {
        let Some([x, y, z]) = block else {
            return Err(syn::Error::new(
                ty.span(),
                "the block's extents are missing: #[kernel(block = 256)] or (block = (32, 8))",
            ));
        };
        let of_all = with_static(ty.to_token_stream());
        self.checks.push(quote! {
            ::core::assert!(
                <#of_all>::has([#x, #y, #z]),
                "`Block<'_, THREADS>` has as many threads as `block = ..` says"
            );
        });
        self.argument(quote!(<#ty>::new([#x, #y, #z])));
        Ok(())
    }

    fn tile(&mut self, ty: &Type) {
        let name = format_ident!("TILE{}", self.tiles.len());
        let of_all = with_static(ty.to_token_stream());
        self.statics.push(quote! {
            #[cfg_attr(target_arch = "nvptx64", unsafe(link_section = ".shared"))]
            static mut #name: <#of_all as ::cuda_std::safe::Stored>::Storage = <#of_all>::STORAGE;
        });
        self.argument(quote!(<#ty>::new(&raw mut #name)));
        self.tiles.push(of_all);
    }

    fn argument(&mut self, argument: TokenStream) {
        self.arguments.push(argument);
    }

    fn fresh(&self) -> Ident {
        format_ident!("p{}", self.inputs.len())
    }
}

/// The types among the arguments of a path. A constant that is a path looks like a type.
fn types(arguments: Option<&PathArguments>) -> Vec<&Type> {
    let Some(PathArguments::AngleBracketed(arguments)) = arguments else {
        return Vec::new();
    };
    let types = arguments.args.iter().filter_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    });
    types.collect()
}

/// Whether a witness has rows and columns. If its spelling hides that, the entry does not compile.
fn is_two_dimensional(witness: &Type) -> bool {
    let Type::Path(path) = witness else {
        return false;
    };
    let last = path.path.segments.last();
    last.is_some_and(|last| {
        ["Index2", "InRow", "InTile"]
            .iter()
            .any(|name| last.ident == name)
    })
}

/// The name that the manifest has: that of the number itself for an atomic.
fn element_name(element: &Type) -> String {
    let name = type_name(element);
    let number = match name.rsplit("::").next() {
        Some("AtomicU32") => "u32",
        Some("AtomicI32") => "i32",
        Some("AtomicU64") => "u64",
        Some("AtomicI64") => "i64",
        _ => return name,
    };
    number.to_owned()
}

/// Refuses named lifetimes: what a kernel borrows lives as long as it runs.
fn refuse_lifetimes(tokens: TokenStream) -> syn::Result<()> {
    let mut span = None;
    map_lifetimes(tokens, &mut |name| {
        if name != "_" {
            span.get_or_insert(name.span());
        }
        name
    });
    span.map_or(Ok(()), |span| {
        let message = "a safe kernel names no lifetime: what it borrows lives as long as it runs";
        Err(syn::Error::new(span, message))
    })
}

/// The tokens with `'static` for each lifetime.
fn with_static(tokens: TokenStream) -> TokenStream {
    map_lifetimes(tokens, &mut |_| Ident::new("static", Span::call_site()))
}

fn map_lifetimes(tokens: TokenStream, map: &mut impl FnMut(Ident) -> Ident) -> TokenStream {
    let mut is_lifetime = false;
    let mut mapped = TokenStream::new();
    for token in tokens {
        let is_name = std::mem::replace(
            &mut is_lifetime,
            matches!(&token, TokenTree::Punct(punct) if punct.as_char() == '\''),
        );
        mapped.extend([match token {
            TokenTree::Ident(name) if is_name => TokenTree::Ident(map(name)),
            TokenTree::Group(group) => {
                let delimiter: Delimiter = group.delimiter();
                TokenTree::Group(Group::new(delimiter, map_lifetimes(group.stream(), map)))
            }
            token => token,
        }]);
    }
    mapped
}

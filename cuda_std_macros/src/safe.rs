//! The parameters of a safe kernel, and how they are made of those of its entry.

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Expr, GenericArgument, PathArguments, Type};

use crate::contract::{Along, By, Cover, Dimensions, Value, fact};
use crate::metadata::{Param, type_name};

/// What a safe kernel takes instead of a pointer.
const INSTEAD: &str = "take `&[T]`, `View2<'_, T>` or `View3<'_, T>` for an input and `Disjoint<'_, T, Index1>` (or \
                       another witness) for an output, or make the kernel an `unsafe fn`";

/// Names of numbers that a launch knows.
const NUMBERS: [&str; 24] = [
    "u8",
    "u16",
    "u32",
    "u64",
    "usize",
    "i8",
    "i16",
    "i32",
    "i64",
    "isize",
    "f16",
    "bf16",
    "f32",
    "f64",
    "bool",
    "char",
    "AtomicU32",
    "AtomicI32",
    "AtomicU64",
    "AtomicI64",
    "AtomicF32",
    "AtomicF64",
    "AtomicF16",
    "AtomicBf16",
];

/// Those of them without a sign.
const UNSIGNED: [&str; 5] = ["u8", "u16", "u32", "u64", "usize"];

/// The extents of what has one, two or three dimensions.
const EXTENTS: [&[&str]; 3] = [
    &["len"],
    &["rows", "columns"],
    &["planes", "rows", "columns"],
];

/// The strides of the same.
const STRIDES: [&[&str]; 3] = [
    &[],
    &["row_stride", "column_stride"],
    &["plane_stride", "row_stride", "column_stride"],
];

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
    /// Lengths, extents and numbers of a launch.
    pub(crate) values: Vec<Value>,
    /// The blocks that inputs and outputs need.
    pub(crate) covers: Vec<Cover>,
    /// Statements that give LLVM what each launch has checked besides its requirements.
    pub(crate) facts: Vec<TokenStream>,
    /// Dimensions that grid and block may have.
    pub(crate) dimensions: Dimensions,
}

impl Entry {
    /// That of a kernel with these parameters, and with a block of these extents if it has them.
    pub(crate) fn of(params: &[(&Ident, &Type)], block: Option<&[Expr; 3]>) -> syn::Result<Self> {
        let mut entry = Self::default();
        if let Some([x, y, z]) = block {
            entry.facts.push(fact::assume(&quote! {
                ::cuda_std::thread::block_dim_x() == (#x) as u32
                    && ::cuda_std::thread::block_dim_y() == (#y) as u32
                    && ::cuda_std::thread::block_dim_z() == (#z) as u32
            }));
        }
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
                    let (pointer, len) = self.memory(name, element, "*const", 1);
                    self.cover(name, each_thread(1));
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
                        let (pointer, shape) = self.memory(name, element, "*const", 2);
                        self.cover(name, each_thread(2));
                        self.argument(quote!(::cuda_std::safe::View2::new(#pointer, #shape)));
                    }
                    (Some("View3"), [element]) => {
                        let (pointer, shape) = self.memory(name, element, "*const", 3);
                        self.cover(name, each_thread(3));
                        self.argument(quote!(::cuda_std::safe::View3::new(#pointer, #shape)));
                    }
                    (Some("Disjoint"), [element, witness]) => {
                        let (dimensions, along) = named_by(witness);
                        self.dimensions.at_most(needed_by(witness));
                        let (pointer, shape) = self.memory(name, element, "*mut", dimensions);
                        self.cover(name, along);
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

    /// Adds a pointer, `*const` of an input or `*mut` of an output, and the length of what it points
    /// to, or the shape if that has two or three dimensions.
    fn memory(
        &mut self,
        name: &Ident,
        element: &Type,
        word: &str,
        dimensions: usize,
    ) -> (Ident, Ident) {
        let (pointer, shape) = (self.fresh(), format_ident!("p{}_shape", self.inputs.len()));
        let (qualifier, alias) = match word {
            "*mut" => (quote!(*mut), quote!(2)),
            _ => (
                quote!(*const),
                quote!(<#element as ::cuda_std::safe::Input>::IS_FROZEN),
            ),
        };
        let (suffix, ty, extent) = match dimensions {
            1 => ("len", "usize", quote!(usize)),
            2 => ("shape", "Shape2", quote!(::cuda_std::safe::Shape2)),
            _ => ("shape", "Shape3", quote!(::cuda_std::safe::Shape3)),
        };
        let name = name.unraw();
        for extent in EXTENTS[dimensions - 1]
            .iter()
            .chain(STRIDES[dimensions - 1])
        {
            let field = format_ident!("{extent}");
            self.values.push(Value {
                of: name.clone(),
                extent,
                device: match dimensions {
                    1 => quote!(#shape),
                    _ => quote!(#shape.#field),
                },
            });
        }
        let extents = EXTENTS[dimensions - 1].len();
        let lengths = self.values.iter().rev().skip(STRIDES[dimensions - 1].len());
        let lengths = lengths
            .take(extents)
            .map(|Value { device, .. }| fact::assume(&quote!((#device as i64) >= 0)));
        self.facts.extend(lengths.collect::<Vec<_>>());
        self.is_of_its_name(element);
        self.inputs.push(quote!(#pointer: #qualifier #element));
        self.inputs.push(quote!(#shape: #extent));
        self.params.push(Param {
            alias: Some(alias),
            ..Param::new(name.to_string(), format!("{word} {}", type_name(element)))
        });
        self.params
            .push(Param::new(format!("{name}.{suffix}"), ty.to_owned()));
        (pointer, shape)
    }

    fn number(&mut self, name: &Ident, ty: &Type) {
        let number = self.fresh();
        self.is_of_its_name(ty);
        self.inputs.push(quote!(#number: #ty));
        if is_unsigned(ty) {
            self.values.push(Value {
                of: name.unraw(),
                extent: "",
                device: quote!(#number),
            });
        }
        self.params.push(Param {
            layout: number_name(ty)
                .is_none()
                .then(|| quote!(<#ty as ::cuda_std::abi::KernelParam>::LAYOUT)),
            ..Param::new(name.unraw().to_string(), type_name(ty))
        });
        self.checks
            .push(quote!(::cuda_std::safe::is_a_number_or_a_kernel_param::<#ty>();));
        self.argument(quote!(#number));
    }

    /// A launch passes what the manifest names. Has the compiler refuse another type that is called
    /// `f32`.
    fn is_of_its_name(&mut self, ty: &Type) {
        if let Type::Array(array) = ty {
            return self.is_of_its_name(&array.elem);
        }
        if let Some(name) = number_name(ty) {
            self.checks
                .push(quote!(::cuda_std::safe::is::<#ty, ::cuda_std::safe::numbers::#name>();));
        }
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
        self.argument(quote!(<#ty>::new(#x, #y, #z)));
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

    fn cover(&mut self, name: &Ident, along: Vec<Along>) {
        let of = name.unraw();
        self.covers.push(Cover { of, along });
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

/// The number that a type is called.
fn number_name(ty: &Type) -> Option<&Ident> {
    let Type::Path(path) = ty else { return None };
    let last = path.path.segments.last().map(|segment| &segment.ident);
    last.filter(|name| NUMBERS.iter().any(|number| name == number))
}

/// Whether a type is called as a number without a sign.
pub(crate) fn is_unsigned(ty: &Type) -> bool {
    number_name(ty).is_some_and(|name| UNSIGNED.iter().any(|unsigned| name == unsigned))
}

/// An element for each thread, in so many dimensions: the last of them lies along x.
fn each_thread(dimensions: usize) -> Vec<Along> {
    let extents = EXTENTS[dimensions - 1].iter().rev();
    let by_thread = extents.map(|extent| Along {
        extent,
        by: By::Thread,
    });
    by_thread.collect()
}

/// How many dimensions a witness has, and what lies along the axes of the grid. If its spelling hides
/// the dimensions, the entry does not compile.
fn named_by(witness: &Type) -> (usize, Vec<Along>) {
    let Type::Path(path) = witness else {
        return (1, each_thread(1));
    };
    let last = path.path.segments.last();
    let of_block = |extent, elements: TokenStream| Along {
        extent,
        by: By::Block(elements),
    };
    match last.map(|last| last.ident.to_string()).as_deref() {
        Some("Index2") => (2, each_thread(2)),
        Some("Index3") => (3, each_thread(3)),
        Some("InRow") => (2, vec![of_block("rows", quote!(1))]),
        Some("InTile") => {
            let extents: Vec<TokenStream> = match last.map(|last| &last.arguments) {
                Some(PathArguments::AngleBracketed(arguments)) => arguments
                    .args
                    .iter()
                    .map(|extent| quote!(#extent))
                    .collect(),
                _ => Vec::new(),
            };
            let along = match &extents[..] {
                [rows, columns] => vec![
                    of_block("columns", columns.clone()),
                    of_block("rows", rows.clone()),
                ],
                _ => Vec::new(),
            };
            (2, along)
        }
        Some("PerBlock") => (1, vec![of_block("len", quote!(1))]),
        Some("PerWarp") => {
            let extent = "len";
            (
                1,
                vec![Along {
                    extent,
                    by: By::Warp,
                }],
            )
        }
        _ => (1, each_thread(1)),
    }
}

/// The dimensions of grid and block in which a witness is unique.
fn needed_by(witness: &Type) -> Dimensions {
    let Type::Path(path) = witness else {
        return Dimensions::ANY;
    };
    let last = path.path.segments.last();
    let (grid, block) = match last.map(|last| last.ident.to_string()).as_deref() {
        Some("Index1" | "PerWarp") => (1, 1),
        Some("Index2") => (2, 2),
        Some("InRow" | "PerBlock") => (1, 3),
        Some("InTile") => (2, 3),
        _ => return Dimensions::ANY,
    };
    Dimensions { grid, block }
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

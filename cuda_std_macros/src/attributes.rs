//! Parsing the arguments of `#[kernel(..)]` and `#[fragment(..)]`.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::parse::{Parse, ParseStream};
use syn::spanned::Spanned;
use syn::{Expr, ExprLit, ExprTuple, Ident, Lit, LitStr, Token, parse2};

use crate::contract::{self, Contract, Cover, Dimensions, Value};
use crate::generic::{self, Instance, replaced};

/// The arguments between the parentheses.
#[derive(Default)]
pub(crate) struct Attributes {
    pub(crate) max_threads: Option<Expr>,
    pub(crate) min_blocks: Option<Expr>,
    pub(crate) cluster: Option<[Expr; 3]>,
    pub(crate) block: Option<[Expr; 3]>,
    pub(crate) dynamic_shared: Option<Expr>,
    pub(crate) arch: Option<String>,
    /// What a launch has to meet.
    pub(crate) requires: Option<LitStr>,
    /// The threads that a launch has.
    pub(crate) grid: Option<LitStr>,
    /// Whether the kernel may use local memory and spill registers.
    pub(crate) allow_local: bool,
    /// Whether its blocks wait for each other, so that all of them run at a time.
    pub(crate) cooperative: bool,
    /// Entries of a generic kernel.
    pub(crate) instances: Vec<Instance>,
}

impl Parse for Attributes {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut attributes = Self::default();
        while !input.is_empty() {
            let name: Ident = input.parse()?;
            let flag = match name.to_string().as_str() {
                "allow_local" => Some(&mut attributes.allow_local),
                "cooperative" => Some(&mut attributes.cooperative),
                _ => None,
            };
            if let Some(flag) = flag.filter(|_| !input.peek(Token![=])) {
                *flag = true;
            } else if input.parse::<Token![=]>().and(Ok(input.peek(Token![<])))? {
                let arguments = input.parse()?;
                attributes.instances.push(Instance { name, arguments });
            } else {
                let value: Expr = input.parse()?;
                attributes.set(&name, value)?;
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        if let (Some(block), Some(_)) = (&attributes.block, &attributes.max_threads) {
            return Err(syn::Error::new(
                block[0].span(),
                "block says how many threads there are: leave out max_threads",
            ));
        }
        let threads = attributes.max_threads.as_ref();
        let threads = threads.or(attributes.block.as_ref().map(|block| &block[0]));
        if let (Some(min_blocks), None) = (&attributes.min_blocks, threads) {
            return Err(syn::Error::new(
                min_blocks.span(),
                "min_blocks needs max_threads or block: registers a thread follow from both",
            ));
        }
        Ok(attributes)
    }
}

impl Attributes {
    /// Every constant expression that was given.
    pub(crate) fn constants(&self) -> impl Iterator<Item = &Expr> {
        [&self.max_threads, &self.min_blocks, &self.dynamic_shared]
            .into_iter()
            .flatten()
            .chain(self.cluster.iter().flatten())
            .chain(self.block.iter().flatten())
    }

    /// Those of an entry of a generic kernel: with the values of the generic parameters.
    pub(crate) fn with(&self, values: &[generic::Value<'_>]) -> syn::Result<Self> {
        let own = |value: &Expr| parse2(replaced(value.to_token_stream(), values));
        let one = |value: &Option<Expr>| value.as_ref().map(own).transpose();
        let three = |extents: &Option<[Expr; 3]>| {
            let extents = extents.as_ref();
            let own = extents.map(|[x, y, z]| Ok::<_, syn::Error>([own(x)?, own(y)?, own(z)?]));
            own.transpose()
        };
        let text = |text: &Option<LitStr>| {
            let own = |text: &LitStr| {
                let tokens = replaced(text.parse()?, values);
                Ok::<_, syn::Error>(LitStr::new(&tokens.to_string(), text.span()))
            };
            text.as_ref().map(own).transpose()
        };
        Ok(Self {
            max_threads: one(&self.max_threads)?,
            min_blocks: one(&self.min_blocks)?,
            cluster: three(&self.cluster)?,
            block: three(&self.block)?,
            dynamic_shared: one(&self.dynamic_shared)?,
            arch: self.arch.clone(),
            requires: text(&self.requires)?,
            grid: text(&self.grid)?,
            allow_local: self.allow_local,
            cooperative: self.cooperative,
            instances: Vec::new(),
        })
    }

    /// Requirements and grid of launches, which have these values and parameters.
    pub(crate) fn contract(&self, of: (&[Value], &[Cover], Dimensions)) -> syn::Result<Contract> {
        let (requires, grid) = (self.requires.as_ref(), self.grid.as_ref());
        let (block, max_threads) = (self.block.as_ref(), self.max_threads.as_ref());
        contract::read(requires, grid, block, max_threads, of)
    }

    /// What the entry begins with.
    pub(crate) fn prologue(&self) -> Option<TokenStream> {
        let assert = || quote!(::cuda_std::grid::assert_cooperative(););
        self.cooperative.then(assert)
    }

    /// Constants that do not compile where a number is one that no launch can have.
    pub(crate) fn checks(&self) -> TokenStream {
        let product = |extents: &Option<[Expr; 3]>| {
            extents.as_ref().map(|[x, y, z]| {
                quote!(((#x) as u64).saturating_mul((#y) as u64).saturating_mul((#z) as u64))
            })
        };
        let number = |value: &Option<Expr>| value.as_ref().map(|value| quote!((#value) as u64));
        let ranges = [
            (
                number(&self.max_threads),
                1_u64,
                1024_u64,
                "max_threads is 1 to 1024: no block has more threads",
            ),
            (
                number(&self.min_blocks),
                1,
                32,
                "min_blocks is 1 to 32: no multiprocessor holds more blocks",
            ),
            (
                number(&self.dynamic_shared),
                0,
                232_448,
                "dynamic_shared is at most 232448: no block has more than 227 KiB of shared memory",
            ),
            (
                product(&self.block),
                1,
                1024,
                "a block has 1 to 1024 threads",
            ),
            (
                product(&self.cluster),
                1,
                16,
                "a cluster has 1 to 16 blocks, and more than 8 only where the launch asks for it",
            ),
        ];
        let checks = ranges.into_iter().filter_map(|(value, least, most, why)| {
            let value = value?;
            Some(quote! {
                let value: u64 = #value;
                ::core::assert!(value >= #least && value <= #most, #why);
            })
        });
        quote! {
            #[allow(clippy::unnecessary_cast, clippy::absurd_extreme_comparisons)]
            const _: () = { #(#checks)* };
        }
    }

    fn set(&mut self, name: &Ident, value: Expr) -> syn::Result<()> {
        let twice = match name.to_string().as_str() {
            "max_threads" => self.max_threads.replace(value).is_some(),
            "min_blocks" => self.min_blocks.replace(value).is_some(),
            "dynamic_shared" => self.dynamic_shared.replace(value).is_some(),
            "cluster" => self.cluster.replace(extents(value, "cluster")?).is_some(),
            "block" => self.block.replace(block(value)?).is_some(),
            "arch" => self.arch.replace(architecture(value)?).is_some(),
            "requires" => {
                let example = "requires takes a condition: \"y.len() >= x.len()\"";
                self.requires.replace(string(value, example)?).is_some()
            }
            "grid" => {
                let example = "grid takes an output, or a number of threads: \"y\", \"x.len()\"";
                self.grid.replace(string(value, example)?).is_some()
            }
            _ => {
                return Err(syn::Error::new(
                    name.span(),
                    "unknown argument; there are block, max_threads, min_blocks, cluster, \
                     dynamic_shared, arch, requires, grid, allow_local, cooperative, and entries of a \
                     generic kernel: name = <f32>",
                ));
            }
        };
        if twice {
            return Err(syn::Error::new(
                name.span(),
                format!("{name} is given twice"),
            ));
        }
        Ok(())
    }
}

/// The extents of a block: those of `(x, y)` or `(x, y, z)`, or a number of threads along x.
fn block(value: Expr) -> syn::Result<[Expr; 3]> {
    let one = || syn::parse_quote!(1);
    match value {
        Expr::Tuple(mut tuple) if tuple.elems.len() == 2 => {
            tuple.elems.push(one());
            extents(Expr::Tuple(tuple), "block")
        }
        Expr::Tuple(_) => extents(value, "block"),
        threads => Ok([threads, one(), one()]),
    }
}

/// The three extents of `(x, y, z)`.
fn extents(value: Expr, what: &str) -> syn::Result<[Expr; 3]> {
    let span = value.span();
    let wrong = || syn::Error::new(span, format!("{what} takes three extents: (x, y, z)"));
    let Expr::Tuple(ExprTuple { elems, .. }) = value else {
        return Err(wrong());
    };
    <[Expr; 3]>::try_from(elems.into_iter().collect::<Vec<_>>()).map_err(|_| wrong())
}

/// What `arch` may be: those that cuda_builder builds for, where a test holds the two lists equal.
const ARCHITECTURES: &[&str] = &[
    "sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100a",
];

fn string(value: Expr, example: &str) -> syn::Result<LitStr> {
    match value {
        Expr::Lit(ExprLit {
            lit: Lit::Str(text),
            ..
        }) => Ok(text),
        other => Err(syn::Error::new(other.span(), example)),
    }
}

/// The name of an architecture.
fn architecture(value: Expr) -> syn::Result<String> {
    let span = value.span();
    let name = string(value, "arch takes an architecture's name: \"sm_90a\"")?.value();
    if ARCHITECTURES.contains(&name.as_str()) {
        return Ok(name);
    }
    let known = ARCHITECTURES.join(", ");
    let message = format!("`{name}` is not an architecture that can be built for; known: {known}");
    Err(syn::Error::new(span, message))
}

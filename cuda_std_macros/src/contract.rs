//! `requires = ".."` and `grid = ".."`: what a launch has to meet, and which blocks it has.
//!
//! An expression over lengths, extents and numbers of the launch becomes a formula of the manifest
//! (`ptx_syntax::contract`), and for the kernel the same expression on the device.

use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, quote};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{BinOp, Expr, ExprBinary, ExprMethodCall, Lit, LitStr, Path, Token, UnOp};

use crate::metadata::Text;

mod dimensions;
pub(crate) mod fact;

pub(crate) use dimensions::Dimensions;

/// Threads of a block for a kernel that says its grid and no block.
const THREADS: u32 = 256;

/// The number of blocks that the device holds at a time.
const RESIDENT: &str = "resident";

/// A value of the launch: a length or an extent of a parameter, or a parameter that is a number.
pub(crate) struct Value {
    /// The parameter.
    pub(crate) of: Ident,
    /// `len`, `rows`, `columns`, `planes`; empty for a number.
    pub(crate) extent: &'static str,
    /// The value on the device.
    pub(crate) device: TokenStream,
}

/// A condition: its text and its formula.
struct Requirement {
    text: String,
    code: Text,
}

/// The blocks that a parameter needs.
pub(crate) struct Cover {
    /// The parameter.
    pub(crate) of: Ident,
    /// What lies along x, y and z.
    pub(crate) along: Vec<Along>,
}

/// What lies along an axis of the grid.
pub(crate) struct Along {
    /// Of the parameter: `len`, `rows`.
    pub(crate) extent: &'static str,
    pub(crate) by: By,
}

/// What has how many elements along an axis.
pub(crate) enum By {
    /// A thread has one.
    Thread,
    /// A warp has one.
    Warp,
    /// A block has so many.
    Block(TokenStream),
}

/// Requirements and grid of a kernel's launches.
#[derive(Default)]
pub(crate) struct Contract {
    /// The JSON `,"requires":[..],"grid":{..}`, as far as they are given.
    pub(crate) json: Text,
    /// Statements that give LLVM the requirements.
    pub(crate) facts: Vec<TokenStream>,
}

/// What an expression is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Number,
    Truth,
}

/// An expression: its words in postfix form, and the same on the device.
struct Term {
    kind: Kind,
    words: Text,
    device: TokenStream,
}

/// Reads both attributes of a kernel with these values.
pub(crate) fn read(
    requires: Option<&LitStr>,
    grid: Option<&LitStr>,
    block: Option<&[Expr; 3]>,
    max_threads: Option<&Expr>,
    (values, covers, dimensions): (&[Value], &[Cover], Dimensions),
) -> syn::Result<Contract> {
    let mut contract = Contract::default();
    let mut requirements = Vec::new();
    if let Some((requirement, on_device)) = dimensions.requirement() {
        requirements.push(requirement);
        contract.facts.extend(on_device.iter().map(fact::assume));
    }
    if let Some(text) = requires {
        let mut conditions = Vec::new();
        split(text.parse()?, &mut conditions);
        for condition in &conditions {
            let term = term(condition, values)?;
            if term.kind != Kind::Truth {
                let message = "requires is a condition: `y.len() >= x.len()`";
                return Err(syn::Error::new(condition.span(), message));
            }
            requirements.push(Requirement {
                text: source(condition),
                code: term.words,
            });
            contract
                .facts
                .push(fact::known(condition, &term.device, values)?);
        }
    }
    if !requirements.is_empty() {
        contract.json.push(",\"requires\":[");
        for (at, Requirement { text, code }) in requirements.into_iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            contract
                .json
                .push(&format!("{comma}{{\"text\":\"{text}\",\"code\":\""));
            contract.json.append(code);
            contract.json.push("\"}");
        }
        contract.json.push("]");
    }
    if let Some(text) = grid {
        let (block, blocks) = launch(text, block, max_threads, (values, covers))?;
        contract.json.push(",\"grid\":{\"block\":[");
        for (at, threads) in block.iter().enumerate() {
            contract.json.push(if at > 0 { "," } else { "" });
            contract.json.number(threads.clone());
        }
        contract.json.push("],\"blocks\":[");
        for (at, words) in blocks.into_iter().enumerate() {
            contract.json.push(if at > 0 { ",\"" } else { "\"" });
            contract.json.append(words);
            contract.json.push("\"");
        }
        contract.json.push("]}");
    }
    Ok(contract)
}

/// The conditions that `&&` joins, each by itself, so that an error names the one that is not met.
fn split(expression: Expr, into: &mut Vec<Expr>) {
    match expression {
        Expr::Binary(ExprBinary {
            left,
            op: BinOp::And(_),
            right,
            ..
        }) => {
            split(*left, into);
            split(*right, into);
        }
        Expr::Paren(paren) if matches!(&*paren.expr, Expr::Binary(_)) => split(*paren.expr, into),
        other => into.push(other),
    }
}

/// The expression as Rust writes it.
fn source(expression: &Expr) -> String {
    let spaced = expression.to_token_stream().to_string();
    let joined = [
        (" . ", "."),
        (" (", "("),
        ("( ", "("),
        (" )", ")"),
        (" ,", ","),
        (" ::", "::"),
        (":: ", "::"),
        ("! ", "!"),
    ];
    joined
        .iter()
        .fold(spaced, |text, (from, to)| text.replace(from, to))
}

/// Extents of the block, and formulas of the numbers of blocks.
fn launch(
    text: &LitStr,
    block: Option<&[Expr; 3]>,
    max_threads: Option<&Expr>,
    (values, covers): (&[Value], &[Cover]),
) -> syn::Result<([TokenStream; 3], [Text; 3])> {
    let (expression, is_resident) = without_limit(text.parse()?)?;
    let cover = covers.iter().find(|cover| is_name(&expression, &cover.of));
    let extents: Vec<Expr> = match expression {
        _ if cover.is_some() => Vec::new(),
        Expr::Tuple(tuple) => tuple.elems.into_iter().collect(),
        other => vec![other],
    };
    let dimensions = cover.map_or(extents.len(), |cover| cover.along.len());
    if !(1..=3).contains(&dimensions) {
        let message = "a grid has one to three extents: `(x.columns(), x.rows())`";
        return Err(syn::Error::new(text.span(), message));
    }
    let threads: [TokenStream; 3] = match (block, max_threads) {
        (Some(block), _) => block.each_ref().map(ToTokens::to_token_stream),
        (None, _) if dimensions > 1 => {
            let message = "a grid of more than one extent needs the block's: block = (32, 8)";
            return Err(syn::Error::new(text.span(), message));
        }
        (None, Some(threads)) => [quote!(#threads), quote!(1), quote!(1)],
        (None, None) => [quote!(#THREADS), quote!(1), quote!(1)],
    };
    if is_resident && dimensions > 1 {
        let message = "resident takes what lies along x alone";
        return Err(syn::Error::new(text.span(), message));
    }
    let mut blocks = [(); 3].map(|()| Text::of("1"));
    for (at, blocks) in blocks.iter_mut().enumerate().take(dimensions) {
        let extent_of_block = &threads[at];
        let (mut words, by) = match cover {
            Some(Cover { of, along }) => {
                let words = Text::of(&format!("${of}.{}", along[at].extent));
                let by = match &along[at].by {
                    By::Thread => extent_of_block.clone(),
                    By::Warp => quote!(((#extent_of_block) as u64).div_ceil(32)),
                    By::Block(elements) => elements.clone(),
                };
                (words, by)
            }
            None => {
                let term = term(&extents[at], values)?;
                if term.kind != Kind::Number {
                    let message = "a grid is a number of threads: `x.len()`";
                    return Err(syn::Error::new(extents[at].span(), message));
                }
                (term.words, extent_of_block.clone())
            }
        };
        words.push(" ");
        words.number(by);
        words.push(" div_ceil");
        if is_resident {
            words.push(&format!(" ${RESIDENT}() min"));
        }
        *blocks = words;
    }
    Ok((threads, blocks))
}

/// What a grid is for, and whether it has at most as many blocks as the device holds at a time:
/// `resident(y)`.
fn without_limit(expression: Expr) -> syn::Result<(Expr, bool)> {
    let Expr::Call(mut call) = expression else {
        return Ok((expression, false));
    };
    let is_resident = matches!(&*call.func, Expr::Path(path) if path.path.is_ident(RESIDENT));
    match (call.args.pop(), call.args.is_empty()) {
        (Some(of), true) if is_resident => Ok((of, true)),
        _ => {
            let message =
                "a grid may be `resident(y)`: at most the blocks that a device holds at a time";
            Err(syn::Error::new(call.span(), message))
        }
    }
}

fn is_name(expression: &Expr, name: &Ident) -> bool {
    matches!(expression, Expr::Path(path) if path.path.is_ident(name))
}

/// Reads an expression.
fn term(expression: &Expr, values: &[Value]) -> syn::Result<Term> {
    let refuse = |message: String| Err(syn::Error::new(expression.span(), message));
    match expression {
        Expr::Paren(inner) => term(&inner.expr, values),
        Expr::Lit(literal) if matches!(literal.lit, Lit::Int(_)) => Ok(constant(expression)),
        // The value of a generic parameter.
        Expr::Block(_) => Ok(constant(expression)),
        Expr::Path(path) => match values.iter().find(|value| path.path.is_ident(&value.of)) {
            Some(value) if value.extent.is_empty() => Ok(value_of_launch(value)),
            Some(_) => refuse("a parameter has a length or extents: `x.len()`, `x.rows()`".into()),
            None if is_constant(&path.path) => Ok(constant(expression)),
            None => refuse(unknown(&path.path.to_token_stream(), values)),
        },
        Expr::Unary(unary) if matches!(unary.op, UnOp::Not(_)) => {
            let of = operand(&unary.expr, Kind::Truth, values)?;
            let mut words = of.words;
            words.push(" !");
            let of = of.device;
            let device = quote!((!#of));
            let kind = Kind::Truth;
            Ok(Term { kind, words, device })
        }
        Expr::Binary(binary) => self::binary(binary, values),
        Expr::MethodCall(call) => method(call, values),
        _ => refuse(
            "there are lengths and extents (`x.len()`, `x.rows()`), numbers, + - * / %, comparisons, \
             && || !, min, max, div_ceil and is_multiple_of"
                .into(),
        ),
    }
}

fn operand(expression: &Expr, want: Kind, values: &[Value]) -> syn::Result<Term> {
    let term = term(expression, values)?;
    let message = match want {
        Kind::Number => "a number has to be here",
        Kind::Truth => "a condition has to be here",
    };
    match term.kind == want {
        true => Ok(term),
        false => Err(syn::Error::new(expression.span(), message)),
    }
}

/// A path whose last name is upper-case is a constant.
fn is_constant(path: &Path) -> bool {
    let last = path.segments.last().map(|last| last.ident.to_string());
    last.is_some_and(|last| !last.chars().any(char::is_lowercase))
}

fn unknown(name: &TokenStream, values: &[Value]) -> String {
    let known: Vec<String> = values
        .iter()
        .map(|Value { of, extent, .. }| match *extent {
            "" => format!("`{of}`"),
            extent => format!("`{of}.{extent}()`"),
        })
        .collect();
    let name = name.to_string().replace(' ', "");
    match known.is_empty() {
        true => format!("`{name}` is no value of a launch, and this kernel has none"),
        false => format!(
            "`{name}` is no value of a launch; there are {}, and constants",
            known.join(", ")
        ),
    }
}

fn constant(expression: &Expr) -> Term {
    let mut words = Text::default();
    words.number(expression.to_token_stream());
    let device = quote!(((#expression) as u64));
    let kind = Kind::Number;
    Term {
        kind,
        words,
        device,
    }
}

fn value_of_launch(Value { of, extent, device }: &Value) -> Term {
    let name = match *extent {
        "" => format!("${of}"),
        extent => format!("${of}.{extent}"),
    };
    Term {
        kind: Kind::Number,
        words: Text::of(&name),
        device: quote!((#device as u64)),
    }
}

fn binary(binary: &ExprBinary, values: &[Value]) -> syn::Result<Term> {
    let (of, result, word) = match binary.op {
        BinOp::Add(_) => (Kind::Number, Kind::Number, "+"),
        BinOp::Sub(_) => (Kind::Number, Kind::Number, "-"),
        BinOp::Mul(_) => (Kind::Number, Kind::Number, "*"),
        BinOp::Div(_) => (Kind::Number, Kind::Number, "/"),
        BinOp::Rem(_) => (Kind::Number, Kind::Number, "%"),
        BinOp::Eq(_) => (Kind::Number, Kind::Truth, "=="),
        BinOp::Ne(_) => (Kind::Number, Kind::Truth, "!="),
        BinOp::Lt(_) => (Kind::Number, Kind::Truth, "<"),
        BinOp::Le(_) => (Kind::Number, Kind::Truth, "<="),
        BinOp::Gt(_) => (Kind::Number, Kind::Truth, ">"),
        BinOp::Ge(_) => (Kind::Number, Kind::Truth, ">="),
        BinOp::And(_) => (Kind::Truth, Kind::Truth, "&&"),
        BinOp::Or(_) => (Kind::Truth, Kind::Truth, "||"),
        _ => {
            let message = "there are + - * / %, comparisons, && and ||";
            return Err(syn::Error::new(binary.op.span(), message));
        }
    };
    let left = operand(&binary.left, of, values)?;
    let right = operand(&binary.right, of, values)?;
    let (a, b, op) = (&left.device, &right.device, &binary.op);
    // The launch has computed the same before, without overflow.
    let device = match word {
        "+" => quote!(u64::unchecked_add(#a, #b)),
        "-" => quote!(u64::unchecked_sub(#a, #b)),
        "*" => quote!(u64::unchecked_mul(#a, #b)),
        "/" => quote!(u64::checked_div(#a, #b).unwrap_unchecked()),
        "%" => quote!(u64::checked_rem(#a, #b).unwrap_unchecked()),
        _ => quote!((#a #op #b)),
    };
    Ok(joined(left.words, right.words, word, result, device))
}

fn joined(mut left: Text, right: Text, word: &str, kind: Kind, device: TokenStream) -> Term {
    left.push(" ");
    left.append(right);
    left.push(&format!(" {word}"));
    Term {
        kind,
        words: left,
        device,
    }
}

fn method(call: &ExprMethodCall, values: &[Value]) -> syn::Result<Term> {
    let (name, arguments): (String, &Punctuated<Expr, Token![,]>) =
        (call.method.to_string(), &call.args);
    if let (Expr::Path(path), true) = (&*call.receiver, arguments.is_empty()) {
        let mut of_path = values.iter().filter(|value| path.path.is_ident(&value.of));
        return match of_path.find(|value| value.extent == name) {
            Some(value) => Ok(value_of_launch(value)),
            None => Err(syn::Error::new(
                call.span(),
                unknown(&call.to_token_stream(), values),
            )),
        };
    }
    let result = match name.as_str() {
        "min" | "max" | "div_ceil" => Kind::Number,
        "is_multiple_of" => Kind::Truth,
        _ => {
            let message = "there are min, max, div_ceil and is_multiple_of";
            return Err(syn::Error::new(call.method.span(), message));
        }
    };
    let [argument] = &*arguments.iter().collect::<Vec<_>>() else {
        let message = format!("{name} takes one argument");
        return Err(syn::Error::new(call.span(), message));
    };
    let left = operand(&call.receiver, Kind::Number, values)?;
    let right = operand(argument, Kind::Number, values)?;
    let (a, b) = (&left.device, &right.device);
    let device = match name.as_str() {
        "min" => quote!(Ord::min(#a, #b)),
        "max" => quote!(Ord::max(#a, #b)),
        "is_multiple_of" => quote!(u64::is_multiple_of(#a, #b)),
        _ => quote!({
            let (a, b) = (#a, #b);
            ::core::hint::assert_unchecked(b != 0);
            a.div_ceil(b)
        }),
    };
    Ok(joined(left.words, right.words, &name, result, device))
}

#[cfg(test)]
mod tests;

//! What goes into a hole.

use std::fmt::Write as _;

use super::{Fragment, FuseError, Scalar};

/// What one hole is filled with.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Filling {
    /// The hole's only output is this number.
    Constant(u32),
    /// A load from global memory of so many bytes, 1 to 16, into the first outputs; of less than a
    /// word, the rest of the word is 0.
    Load(u32),
    /// A store of so many bytes, 1 to 16, of the first inputs behind the address.
    Store(u32),
    /// Fragments.
    Body(Body),
}

/// Fragments applied to a hole's inputs and to each other's results.
///
/// ```
/// # use warpsmith::fuse::{Body, Fragment, FuseError};
/// /// f(f(x)) of the hole's first input as its first output.
/// fn twice(f: &Fragment) -> Result<Body, FuseError> {
///     let mut body = Body::default();
///     let x = body.input(0);
///     let once = body.apply(f, &[x])?;
///     let twice = body.apply(f, &[once])?;
///     body.output(0, twice)?;
///     Ok(body)
/// }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Body {
    nodes: Vec<Node>,
    outputs: Vec<(usize, Value)>,
}

/// A value of a [`Body`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value(usize);

#[derive(Clone, Debug)]
enum Node {
    Input(usize),
    Constant(u64, Scalar),
    Param {
        index: usize,
        offset: u32,
        scalar: Scalar,
    },
    Apply {
        fragment: Fragment,
        arguments: Vec<Value>,
    },
}

impl Node {
    fn scalar(&self) -> Scalar {
        match self {
            Self::Input(_) => Scalar::U32,
            Self::Constant(_, scalar) | Self::Param { scalar, .. } => *scalar,
            Self::Apply { fragment, .. } => fragment.result(),
        }
    }
}

impl Body {
    fn push(&mut self, node: Node) -> Value {
        self.nodes.push(node);
        Value(self.nodes.len() - 1)
    }

    /// The hole's input of that number, a word.
    pub fn input(&mut self, index: usize) -> Value {
        self.push(Node::Input(index))
    }

    /// A number by its bits.
    pub fn constant(&mut self, bits: u64, scalar: Scalar) -> Value {
        self.push(Node::Constant(bits, scalar))
    }

    /// What the launch gives in its parameter `index`, `offset` bytes behind that one's beginning.
    pub fn param(&mut self, index: usize, offset: u32, scalar: Scalar) -> Value {
        self.push(Node::Param {
            index,
            offset,
            scalar,
        })
    }

    /// The fragment of these arguments.
    ///
    /// # Errors
    /// [`FuseError::ArgumentCount`], [`FuseError::ArgumentType`], [`FuseError::UnknownValue`].
    pub fn apply(&mut self, fragment: &Fragment, arguments: &[Value]) -> Result<Value, FuseError> {
        let params = fragment.params();
        if params.len() != arguments.len() {
            return Err(FuseError::ArgumentCount {
                fragment: fragment.name().into(),
                got: arguments.len(),
                want: params.len(),
            });
        }
        for (index, (argument, &want)) in arguments.iter().zip(params).enumerate() {
            let got = self.node(*argument)?.scalar();
            if got != want {
                return Err(FuseError::ArgumentType {
                    fragment: fragment.name().into(),
                    index,
                    got,
                    want,
                });
            }
        }
        Ok(self.push(Node::Apply {
            fragment: fragment.clone(),
            arguments: arguments.to_vec(),
        }))
    }

    /// The hole's output of that number is `value`, a word.
    ///
    /// # Errors
    /// [`FuseError::UnknownValue`].
    pub fn output(&mut self, index: usize, value: Value) -> Result<(), FuseError> {
        self.node(value)?;
        self.outputs.push((index, value));
        Ok(())
    }

    /// Instructions of all fragments, by [`Fragment::instructions`].
    pub fn instructions(&self) -> u32 {
        self.fragments().map(Fragment::instructions).sum()
    }

    /// The fragments, as often as they are applied.
    pub(super) fn fragments(&self) -> impl Iterator<Item = &Fragment> {
        self.nodes.iter().filter_map(|node| match node {
            Node::Apply { fragment, .. } => Some(fragment),
            _ => None,
        })
    }

    fn node(&self, Value(index): Value) -> Result<&Node, FuseError> {
        let len = self.nodes.len();
        self.nodes
            .get(index)
            .ok_or(FuseError::UnknownValue { index, len })
    }

    /// Register of a value: names that no compiler gives, since a fragment's hide those around it.
    fn register(&self, Value(index): Value) -> String {
        let is_wide = self
            .nodes
            .get(index)
            .is_some_and(|node| node.scalar().is_wide());
        format!("{}{index}", if is_wide { "$d" } else { "$w" })
    }

    /// Writes the scope that stands for the hole; what does not fit is said.
    pub(super) fn write(
        &self,
        out: &mut String,
        name: &str,
        outputs: &[&str],
        inputs: &[&str],
        params: &[(&str, u32)],
    ) -> Result<(), String> {
        let count = self.nodes.len();
        // Writing to a string does not fail.
        let _ = writeln!(
            out,
            "{{ // {name}\n.reg .b32\t$w<{count}>;\n.reg .b64\t$d<{count}>;"
        );
        for (index, node) in self.nodes.iter().enumerate() {
            let register = self.register(Value(index));
            let width = if node.scalar().is_wide() { 64 } else { 32 };
            match node {
                Node::Input(input) => {
                    let from = inputs.get(*input).ok_or_else(|| {
                        format!("it has {} inputs, not input {input}", inputs.len())
                    })?;
                    let _ = writeln!(out, "mov.b32\t{register},{from};");
                }
                Node::Constant(bits, _) => {
                    let _ = writeln!(out, "mov.b{width}\t{register},{bits:#x};");
                }
                Node::Param { index, offset, .. } => {
                    let (param, bytes) = params.get(*index).ok_or_else(|| {
                        format!("the kernel has {} parameters, not {index}", params.len())
                    })?;
                    let end = offset.checked_add(width / 8);
                    if end.is_none_or(|end| end > *bytes) {
                        return Err(format!(
                            "parameter {param} has {bytes} bytes, not byte {offset}"
                        ));
                    }
                    let _ = writeln!(out, "ld.param.b{width}\t{register},[{param}+{offset}];");
                }
                Node::Apply {
                    fragment,
                    arguments,
                } => {
                    let arguments: Vec<String> = arguments
                        .iter()
                        .map(|value| self.register(*value))
                        .collect();
                    fragment.write(out, &arguments, &register);
                }
            }
        }
        for (index, value) in &self.outputs {
            let to = outputs
                .get(*index)
                .ok_or_else(|| format!("it has {} outputs, not output {index}", outputs.len()))?;
            if self.node(*value).is_ok_and(|node| node.scalar().is_wide()) {
                return Err(format!("output {index} is a word, the value has 64 bits"));
            }
            let _ = writeln!(out, "mov.b32\t{to},{};", self.register(*value));
        }
        out.push_str("}\n");
        Ok(())
    }
}

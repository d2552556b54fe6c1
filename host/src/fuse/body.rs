//! Fillings of holes.

use std::fmt::Write as _;

use super::{Fragment, FuseError, Scalar};

/// The contents of one hole.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Filling {
    /// The hole's only output is this number.
    Constant(u32),
    /// A load of 1, 2, 4, 8 or 16 bytes from global memory, at the address that is the hole's only
    /// input. The first outputs get the loaded 32-bit words (1 and 2 bytes are zero-extended); the
    /// remaining outputs become 0.
    Load(u32),
    /// The same, of data that is read once, as `cuda_std::mem::ld_global_once_v4_u32` reads it:
    /// the loaded kernel has L2 evict it last, where that is faster.
    LoadOnce(u32),
    /// A store of 1, 2, 4, 8 or 16 bytes to global memory. The hole's first input is the address,
    /// and the words to store are the inputs after it.
    Store(u32),
    /// Nothing: an access that a kernel leaves out. The hole's outputs stay unwritten.
    Nothing,
    /// Fragments that compute the hole's outputs from its inputs.
    Body(Body),
}

/// A data-flow graph of fragments, applied to a hole's inputs and to each other's results. Inputs
/// and outputs have 32 bits.
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

/// A value in a [`Body`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value(usize);

#[derive(Clone, Debug)]
enum Node {
    Input(usize, Scalar),
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
    /// The 1, 2 or 4 bytes at an address of global memory, zero-extended.
    Load {
        address: Value,
        bytes: u32,
    },
    /// Writes an f32 to global memory where the condition is not 0; its own value is that f32.
    Store {
        address: Value,
        value: Value,
        condition: Value,
    },
}

impl Node {
    fn scalar(&self) -> Scalar {
        match self {
            Self::Input(_, scalar) | Self::Constant(_, scalar) | Self::Param { scalar, .. } => {
                *scalar
            }
            Self::Load { .. } => Scalar::U32,
            Self::Store { .. } => Scalar::F32,
            Self::Apply { fragment, .. } => fragment.result(),
        }
    }
}

impl Body {
    fn push(&mut self, node: Node) -> Value {
        self.nodes.push(node);
        Value(self.nodes.len() - 1)
    }

    /// The hole's input `index` (from 0), of type [`Scalar::U32`].
    pub fn input(&mut self, index: usize) -> Value {
        self.push(Node::Input(index, Scalar::U32))
    }

    /// The hole's input `index` (from 0), which holds an f32.
    pub(crate) fn input_f32(&mut self, index: usize) -> Value {
        self.push(Node::Input(index, Scalar::F32))
    }

    /// The 1, 2 or 4 bytes at `address`, of global memory that is not written while the kernel runs,
    /// zero-extended to a u32.
    pub(crate) fn load(&mut self, address: Value, bytes: u32) -> Value {
        self.push(Node::Load { address, bytes })
    }

    /// Writes the f32 `value` to `address` of global memory, where `condition`, a u32, is not 0.
    pub(crate) fn store(&mut self, address: Value, value: Value, condition: Value) {
        self.push(Node::Store {
            address,
            value,
            condition,
        });
    }

    /// The constant with these bits.
    pub fn constant(&mut self, bits: u64, scalar: Scalar) -> Value {
        self.push(Node::Constant(bits, scalar))
    }

    /// A value that is read from the kernel's parameter `index` (from 0), at `offset` bytes from
    /// its start.
    pub fn param(&mut self, index: usize, offset: u32, scalar: Scalar) -> Value {
        self.push(Node::Param {
            index,
            offset,
            scalar,
        })
    }

    /// The result of the fragment applied to these arguments.
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

    /// Makes `value`, which must be 32 bits wide, the hole's output `index` (from 0).
    ///
    /// # Errors
    /// [`FuseError::UnknownValue`].
    pub fn output(&mut self, index: usize, value: Value) -> Result<(), FuseError> {
        self.node(value)?;
        self.outputs.push((index, value));
        Ok(())
    }

    /// Number of PTX instructions of all fragment applications, by [`Fragment::instructions`].
    pub fn instructions(&self) -> u32 {
        self.fragments().map(Fragment::instructions).sum()
    }

    /// The fragments, each as often as it is applied.
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

    /// Name of a value's register. Compilers give no such names, so that a fragment's own registers
    /// do not hide it.
    fn register(&self, Value(index): Value) -> String {
        let is_wide = self
            .nodes
            .get(index)
            .is_some_and(|node| node.scalar().is_wide());
        format!("{}{index}", if is_wide { "$d" } else { "$w" })
    }

    /// Writes the scope that replaces the hole. The error says what does not fit.
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
                Node::Input(input, _) => {
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
                Node::Load { address, bytes } => {
                    let kind = match bytes {
                        1 => "u8",
                        2 => "u16",
                        _ => "b32",
                    };
                    let address = self.register(*address);
                    let _ = writeln!(out, "ld.global.nc.{kind}\t{register},[{address}];");
                }
                Node::Store {
                    address,
                    value,
                    condition,
                } => {
                    let [address, value, condition] =
                        [address, value, condition].map(|value| self.register(*value));
                    let _ = writeln!(
                        out,
                        "{{\n.reg .pred\t$p;\nsetp.ne.u32\t$p,{condition},0;\n\
                         @$p st.global.b32\t[{address}],{value};\n}}"
                    );
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

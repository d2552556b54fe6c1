//! Composes the kernel of a program from fragments.

use super::steps::{Operand, Step};
use crate::Result;
use crate::fuse::{Body, Filling, Fragment, Scalar, Value, builtin_fragment, builtin_skeleton};
use abi::DType;
use abi::elementwise::{Arithmetic, FusedEntry, MAX_INPUTS, MAX_KEPT};
use std::collections::HashMap;

/// Everything that the text of a composed kernel depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Composition<'a> {
    pub(super) entry: FusedEntry,
    /// Elements of a chunk, which is one vector access.
    pub(super) elements: u32,
    /// Bit t is set if tensor t is broadcast along the innermost dimension: one element serves a
    /// whole chunk.
    pub(super) splat: u32,
    pub(super) arithmetic: Arithmetic,
    /// Of the output, then of the inputs.
    pub(super) dtypes: [DType; 1 + MAX_INPUTS],
    pub(super) steps: &'a [Step<'a>],
}

/// The inputs that steps read, or write to, a bit for each: bit 0 is the first input.
pub(super) fn inputs_of(steps: &[Step<'_>], is_written: bool) -> u32 {
    let first = u32::from(!is_written); // It is read ahead of the steps.
    steps.iter().fold(first, |bits, step| {
        let input = match (step, step.operand()) {
            (Step::Store(input), _) if is_written => Some(*input),
            (_, Some(Operand::Input(input))) if !is_written => Some(input),
            _ => None,
        };
        bits | input.map_or(0, |input| 1 << input)
    })
}

/// Index of the skeletons' parameter that holds the numbers of the steps.
const PARAMS: usize = 5;

/// Largest key, in words.
const KEY: usize = 2 + 2 * abi::elementwise::MAX_STEPS;

impl Composition<'_> {
    /// A key that is unique among compositions, and its length in words.
    pub(super) fn key(&self) -> ([u64; KEY], usize) {
        let mut key = [0; KEY];
        let form = u64::from(self.entry.dense) | u64::from(self.entry.stores) << 1;
        let entry = form | u64::from(self.entry.inputs) << 8;
        let shape = u64::from(self.elements) << 24 | u64::from(self.splat) << 32;
        key[0] =
            entry | u64::from(self.entry.chunks) << 16 | shape | (self.arithmetic as u64) << 40;
        for (t, dtype) in self.dtypes.iter().enumerate() {
            key[1] |= (*dtype as u64) << (8 * t);
        }
        for (words, step) in key[2..].chunks_exact_mut(2).zip(self.steps) {
            words.copy_from_slice(&step.words());
        }
        (key, 2 + 2 * self.steps.len())
    }

    /// The text of the kernel for devices of `arch`.
    pub(super) fn text(&self, arch: (u32, u32)) -> Result<String> {
        let skeleton = builtin_skeleton(&self.entry.to_string(), arch)?;
        let mut fragments = Fragments {
            arch,
            known: HashMap::new(),
        };
        skeleton.compose(|hole| self.filling(hole, &mut fragments))
    }

    fn filling(&self, hole: &str, fragments: &mut Fragments) -> Result<Option<Filling>> {
        let name = hole.trim_end_matches(|c: char| c.is_ascii_digit());
        let tensor: usize = hole[name.len()..].parse().unwrap_or(0);
        let size = |t: usize| {
            self.dtypes
                .get(t)
                .map_or(1, |dtype| dtype.size_bytes() as u32)
        };
        let bytes = |t: usize| {
            if self.is_splat(t) {
                size(t)
            } else {
                size(t) * self.elements
            }
        };
        Ok(Some(match name {
            "elements" => Filling::Constant(self.elements),
            "bytes" => Filling::Constant(bytes(tensor)),
            "size" => Filling::Constant(size(tensor)),
            "load" | "take" if !self.has(tensor, false) => Filling::Nothing,
            "load" => Filling::LoadOnce(bytes(tensor)),
            "take" => Filling::Load(size(tensor)),
            "store" | "put" if tensor > 0 && !self.has(tensor, true) => Filling::Nothing,
            "store" => Filling::Store(bytes(tensor)),
            "put" => Filling::Store(size(tensor)),
            "chunk" => Filling::Body(self.body(self.elements, 4, fragments)?),
            "element" => Filling::Body(self.body(1, 2, fragments)?),
            _ => return Ok(None),
        }))
    }

    /// Whether steps read tensor number `tensor`, an input, or write to it.
    fn has(&self, tensor: usize, is_written: bool) -> bool {
        (inputs_of(self.steps, is_written) << 1 >> tensor) & 1 == 1
    }

    fn is_splat(&self, tensor: usize) -> bool {
        (self.splat >> tensor) & 1 == 1
    }

    /// The program for `elements` elements, where each tensor has `words` words of the hole's
    /// inputs.
    fn body(&self, elements: u32, words: usize, fragments: &mut Fragments) -> Result<Body> {
        let mut writer = Writer {
            of: self,
            words,
            body: Body::default(),
            fragments,
            kept: [None; MAX_KEPT],
            mask: None,
            stored: Default::default(),
        };
        for element in 0..elements as usize {
            let value = writer.element(element)?;
            writer.stored[0].push(value);
        }
        for tensor in 0..=MAX_INPUTS {
            let values = std::mem::take(&mut writer.stored[tensor]);
            writer.narrow(tensor, values)?;
        }
        Ok(writer.body)
    }

    /// Offset in bytes of a step's number in the kernel's parameter [`PARAMS`].
    fn number_offset(&self, step: usize) -> u32 {
        let before = if self.entry.dense {
            std::mem::offset_of!(abi::elementwise::DenseParams, scalars)
        } else {
            std::mem::offset_of!(abi::elementwise::StridedParams, scalars)
        };
        (before + 8 * step) as u32
    }
}

/// The fragments that a composition uses, each looked up once.
struct Fragments {
    arch: (u32, u32),
    known: HashMap<String, Fragment>,
}

impl Fragments {
    fn get(&mut self, name: String) -> Result<Fragment> {
        if let Some(fragment) = self.known.get(&name) {
            return Ok(fragment.clone());
        }
        let fragment = builtin_fragment(&name, self.arch)?;
        self.known.insert(name, fragment.clone());
        Ok(fragment)
    }
}

/// A body under construction.
struct Writer<'w, 'c> {
    of: &'w Composition<'c>,
    /// Words of each tensor among the hole's inputs.
    words: usize,
    body: Body,
    fragments: &'w mut Fragments,
    kept: [Option<Value>; MAX_KEPT],
    mask: Option<Value>,
    /// What is written to each tensor, of all elements.
    stored: [Vec<Value>; 1 + MAX_INPUTS],
}

impl Writer<'_, '_> {
    fn apply(&mut self, name: String, arguments: &[Value]) -> Result<Value> {
        let fragment = self.fragments.get(name)?;
        Ok(self.body.apply(&fragment, arguments)?)
    }

    /// All steps of one element.
    fn element(&mut self, element: usize) -> Result<Value> {
        (self.kept, self.mask) = ([None; MAX_KEPT], None);
        let arithmetic = self.of.arithmetic;
        let mut value = self.widen(0, element, arithmetic)?;
        for (at, step) in self.of.steps.iter().enumerate() {
            value = self.step(at, step, value, element)?;
        }
        Ok(value)
    }

    fn step(&mut self, at: usize, step: &Step<'_>, value: Value, element: usize) -> Result<Value> {
        let name = |function: &str| format!("{}_{function}", self.of.arithmetic.name());
        match *step {
            Step::Unary(op) => {
                let is_narrow = self.is_narrow();
                let suffix = match op.narrow_ulps() {
                    Some(_) if is_narrow => "_narrow",
                    _ => "",
                };
                self.apply(name(&format!("{}{suffix}", op.name())), &[value])
            }
            Step::Binary {
                op,
                operand,
                is_first,
            } => {
                let name = name(op.name());
                let operand = self.operand(at, operand, element, value)?;
                let pair = if is_first {
                    [operand, value]
                } else {
                    [value, operand]
                };
                self.apply(name, &pair)
            }
            Step::Gradient(op, operand) => {
                let name = name(&format!("{}_grad", op.name()));
                let operand = self.operand(at, operand, element, value)?;
                self.apply(name, &[value, operand])
            }
            Step::Keep(number) => {
                self.kept[usize::from(number)] = Some(value);
                Ok(value)
            }
            Step::Load(operand) => self.operand(at, operand, element, value),
            Step::Store(input) => {
                self.stored[1 + usize::from(input)].push(value);
                Ok(value)
            }
            Step::Mask(operand) => {
                self.mask = Some(self.condition(at, operand, element, value)?);
                Ok(value)
            }
            Step::Select(operand) => {
                let name = name("select");
                let other = self.operand(at, operand, element, value)?;
                match self.mask {
                    Some(mask) => self.apply(name, &[mask, value, other]),
                    None => Ok(value),
                }
            }
            Step::Apply(fragment, None) => Ok(self.body.apply(fragment, &[value])?),
            Step::Apply(fragment, Some(operand)) => {
                let operand = self.operand(at, operand, element, value)?;
                Ok(self.body.apply(fragment, &[value, operand])?)
            }
        }
    }

    /// Whether functions use their short forms: if everything that is written is short.
    fn is_narrow(&self) -> bool {
        let mut written = (0..=MAX_INPUTS).filter(|&t| t == 0 || self.of.has(t, true));
        written.all(|t| self.of.arithmetic.is_narrow(self.of.dtypes[t]))
    }

    /// The second operand of step `at`.
    fn operand(
        &mut self,
        at: usize,
        operand: Operand,
        element: usize,
        value: Value,
    ) -> Result<Value> {
        let arithmetic = self.of.arithmetic;
        match operand {
            Operand::Number(_) => {
                let offset = self.of.number_offset(at);
                Ok(self.body.param(PARAMS, offset, scalar(arithmetic)))
            }
            Operand::Input(input) => self.widen(input.into(), element, arithmetic),
            // A program that uses a value it has not kept is refused before.
            Operand::Kept(number) => Ok(self.kept[usize::from(number)].unwrap_or(value)),
        }
    }

    /// An operand as a condition, which may be u8 in every arithmetic.
    fn condition(
        &mut self,
        at: usize,
        operand: Operand,
        element: usize,
        value: Value,
    ) -> Result<Value> {
        let arithmetic = match operand {
            Operand::Input(input) if self.of.dtypes[1 + usize::from(input)] == DType::U8 => {
                Arithmetic::F32
            }
            _ => self.of.arithmetic,
        };
        let operand = match operand {
            Operand::Input(input) => self.widen(input.into(), element, arithmetic)?,
            _ => self.operand(at, operand, element, value)?,
        };
        self.apply(format!("{}_is_true", arithmetic.name()), &[operand])
    }

    /// An element of an input, unpacked from its words and converted to the arithmetic.
    fn widen(&mut self, input: usize, element: usize, to: Arithmetic) -> Result<Value> {
        let dtype = self.of.dtypes[1 + input];
        let element = if self.of.is_splat(1 + input) {
            0
        } else {
            element
        };
        let size = dtype.size_bytes();
        let first = input * self.words + element * size / 4;
        let part = element % (4_usize.div_ceil(size));
        let word = self.body.input(first);
        let name = format!("{}_of_{dtype}_{part}", to.name());
        if size == 8 {
            let high = self.body.input(first + 1);
            return self.apply(name, &[word, high]);
        }
        self.apply(name, &[word])
    }

    /// Converts the values to the dtype of a tensor that is written, and packs them into its words.
    fn narrow(&mut self, tensor: usize, mut values: Vec<Value>) -> Result<()> {
        let (dtype, mut arithmetic) = (self.of.dtypes[tensor], self.of.arithmetic);
        let first = tensor * self.words;
        let is_short_float = matches!(dtype, DType::F16 | DType::Bf16 | DType::E4m3 | DType::E5m2);
        if is_short_float && arithmetic != Arithmetic::F32 {
            for value in &mut values {
                let name = format!("f32_odd_of_{}", arithmetic.name());
                *value = self.apply(name, &[*value])?;
            }
            arithmetic = Arithmetic::F32;
        }
        let name = format!("{dtype}_from_{}", arithmetic.name());
        if dtype.size_bytes() == 8 {
            for (element, &value) in values.iter().enumerate() {
                for half in 0..2 {
                    let word = self.apply(format!("{name}_{half}"), &[value])?;
                    self.body.output(first + 2 * element + half, word)?;
                }
            }
            return Ok(());
        }
        let each = 4 / dtype.size_bytes();
        for (at, of_word) in values.chunks(each).enumerate() {
            let mut of_word = of_word.to_vec();
            while of_word.len() < each {
                of_word.push(self.body.constant(0, scalar(arithmetic)));
            }
            let word = self.apply(name.clone(), &of_word)?;
            self.body.output(first + at, word)?;
        }
        Ok(())
    }
}

/// The register type of a value.
pub(super) fn scalar(arithmetic: Arithmetic) -> Scalar {
    match arithmetic {
        Arithmetic::F32 => Scalar::F32,
        Arithmetic::F64 => Scalar::F64,
        Arithmetic::I32 => Scalar::I32,
        Arithmetic::I64 => Scalar::I64,
    }
}

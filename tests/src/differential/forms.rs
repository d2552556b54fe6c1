//! Forms: single instructions with every combination of modifiers that PTX allows.

use super::operands::Kind;
use super::table;

/// The result of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// A value of this kind.
    Value(Kind),
    /// A predicate, converted to 0 or 1; a third operand, if any, is a predicate too.
    Predicate,
    /// Two predicates, converted to 0 to 3; a third operand, if any, is a predicate too.
    Predicates,
}

impl Output {
    /// The kind of register that holds the result.
    #[must_use]
    pub fn kind(self) -> Kind {
        match self {
            Self::Value(kind) => kind,
            Self::Predicate | Self::Predicates => Kind::I32,
        }
    }
}

/// An instruction, or a short sequence that belongs together, with placeholders for operands.
#[derive(Clone, Debug)]
pub struct Form {
    /// The name in reports: the mnemonic.
    pub name: String,
    /// PTX with `$a $b $c $e` as placeholders for operands and `$d` for the result. The registers
    /// `%r4` to `%r8`, `%d4` to `%d8`, `%h4` to `%h8` and `%p1` to `%p3` are free for use.
    pub body: String,
    /// Kinds of the operands.
    pub inputs: Vec<Kind>,
    /// The result.
    pub output: Output,
    /// Whether PTX leaves the bits to the hardware (`.approx`): results are then compared by error.
    pub approximate: bool,
}

impl Form {
    /// The instruction `name`, with this `body`, or without one, with its operands in order.
    #[must_use]
    pub fn new(
        name: &str,
        body: Option<&str>,
        inputs: &[Kind],
        output: Output,
        approximate: bool,
    ) -> Self {
        let sources = ["$a", "$b", "$c", "$e"][..inputs.len()].join(", ");
        let body = match (body, output) {
            (Some(body), _) => body.replace("@ ", &format!("{name} ")),
            (None, Output::Value(_)) => format!("{name} $d, {sources};"),
            (None, Output::Predicate) if inputs.len() == 3 => {
                format!("setp.lt.s32 %p3, $c, 0; {name} %p1, $a, $b, !%p3; selp.u32 $d, 1, 0, %p1;")
            }
            (None, Output::Predicate) => {
                format!("{name} %p1, {sources}; selp.u32 $d, 1, 0, %p1;")
            }
            (None, Output::Predicates) => both(name, inputs.len() == 3),
        };
        Self {
            name: name.to_owned(),
            body,
            inputs: inputs.to_vec(),
            output,
            approximate,
        }
    }

    /// Width of the result in bits.
    #[must_use]
    pub fn output_bits(&self) -> u32 {
        self.output.kind().bits()
    }
}

/// A comparison that writes two predicates, optionally combined with a third.
fn both(name: &str, combines: bool) -> String {
    let (before, third) = if combines {
        ("setp.lt.s32 %p3, $c, 0; ", ", %p3")
    } else {
        ("", "")
    };
    format!(
        "{before}{name} %p1|%p2, $a, $b{third}; selp.u32 %r4, 1, 0, %p1; \
         selp.u32 %r5, 2, 0, %p2; add.u32 $d, %r4, %r5;"
    )
}

/// The forms of one line of the table; golden answers are kept by line.
#[derive(Clone, Debug)]
pub struct Family {
    /// The line's text.
    pub name: String,
    /// Its forms.
    pub forms: Vec<Form>,
}

/// All forms whose bits are defined, by line of the table.
#[must_use]
pub fn families() -> Vec<Family> {
    let exact = |line: &table::Line| line.section != "approximate";
    let family = |line: table::Line| Family {
        forms: line.forms(),
        name: line.text,
    };
    table::plain()
        .into_iter()
        .filter(exact)
        .map(family)
        .collect()
}

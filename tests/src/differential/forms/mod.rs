//! Single instructions with every modifier that PTX allows on them.

mod convert;
mod float;
mod half;
mod integer;

use super::operands::Kind;

/// An instruction, or a few that belong together, with operands to be filled in.
#[derive(Clone, Debug)]
pub struct Form {
    /// What it is called in reports: the mnemonic.
    pub name: String,
    /// PTX with `$a $b $c $e` for operands and `$d` for the result; `%r4` to `%r8`, `%d4` to `%d8`,
    /// `%h4` to `%h8` and `%p1` to `%p3` are free.
    pub body: String,
    /// The operands.
    pub inputs: Vec<Kind>,
    /// Width of the result.
    pub output_bits: u32,
    /// True if PTX leaves the bits to the hardware (`.approx`): compared by error, not by bits.
    pub approximate: bool,
}

impl Form {
    /// `name $d, $a, ..;`
    fn plain(name: &str, inputs: &[Kind], output_bits: u32) -> Self {
        let operands = ["$d", "$a", "$b", "$c", "$e"][..=inputs.len()].join(", ");
        Self::with_body(name, &format!("{name} {operands};"), inputs, output_bits)
    }

    fn with_body(name: &str, body: &str, inputs: &[Kind], output_bits: u32) -> Self {
        Self {
            name: name.to_owned(),
            body: body.to_owned(),
            inputs: inputs.to_vec(),
            output_bits,
            approximate: false,
        }
    }

    /// A comparison, its predicate made 0 or 1.
    fn predicate(name: &str, inputs: &[Kind]) -> Self {
        let operands = ["%p1", "$a", "$b"][..=inputs.len()].join(", ");
        let body = format!("{name} {operands}; selp.u32 $d, 1, 0, %p1;");
        Self::with_body(name, &body, inputs, 32)
    }

    fn approximate(name: &str, inputs: &[Kind], output_bits: u32) -> Self {
        Self {
            approximate: true,
            ..Self::plain(name, inputs, output_bits)
        }
    }
}

/// Every form.
#[must_use]
pub fn all() -> Vec<Form> {
    [
        integer::forms(),
        float::forms(),
        half::forms(),
        convert::forms(),
    ]
    .concat()
}

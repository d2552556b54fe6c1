//! What `#[kernel(requires = .., grid = ..)]` says of a launch, as a manifest has it: formulas over
//! lengths, extents and numbers that a launch passes.
//!
//! A formula is written in postfix form, in words: `$y.len $x.len >=`. A word that begins with `$` is a
//! value of the launch. It is the length of a parameter (`$x.len`), one of its extents (`$x.planes`,
//! `$x.rows`, `$x.columns`) or strides (`$x.row_stride`), or a parameter that is a number (`$n`). It may
//! also be an extent of grid or block (`$grid.y`, `$block.z`). Truth is 1 or 0. Numbers have 64 bits without
//! a sign; a negative stride is 2^64 less its size. A formula without a value (a negative difference,
//! a division by 0, a number of more than 64 bits) is none.

use serde::{Deserialize, Serialize};

/// A condition that each launch has to meet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Requirement {
    /// As the source has it: `y.len() >= x.len()`.
    pub text: String,
    /// The formula.
    pub code: String,
}

/// The launch that a kernel states.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grid {
    /// Threads of a block in x, y, z.
    pub block: [u32; 3],
    /// Formulas of the number of blocks in x, y, z.
    pub blocks: [String; 3],
}

/// What a word of a formula does with the values before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Add,
    Sub,
    Mul,
    Div,
    Rem,
    DivCeil,
    Min,
    Max,
    IsMultipleOf,
    Equal,
    NotEqual,
    Less,
    AtMost,
    Greater,
    AtLeast,
    And,
    Or,
    Not,
}

const OPERATORS: [(&str, Operator); 18] = [
    ("+", Operator::Add),
    ("-", Operator::Sub),
    ("*", Operator::Mul),
    ("/", Operator::Div),
    ("%", Operator::Rem),
    ("div_ceil", Operator::DivCeil),
    ("min", Operator::Min),
    ("max", Operator::Max),
    ("is_multiple_of", Operator::IsMultipleOf),
    ("==", Operator::Equal),
    ("!=", Operator::NotEqual),
    ("<", Operator::Less),
    ("<=", Operator::AtMost),
    (">", Operator::Greater),
    (">=", Operator::AtLeast),
    ("&&", Operator::And),
    ("||", Operator::Or),
    ("!", Operator::Not),
];

impl Operator {
    fn apply(self, a: u64, b: u64) -> Option<u64> {
        Some(match self {
            Self::Add => a.checked_add(b)?,
            Self::Sub => a.checked_sub(b)?,
            Self::Mul => a.checked_mul(b)?,
            Self::Div => a.checked_div(b)?,
            Self::Rem => a.checked_rem(b)?,
            Self::DivCeil => match b {
                0 => return None,
                b => a.div_ceil(b),
            },
            Self::Min => a.min(b),
            Self::Max => a.max(b),
            Self::IsMultipleOf => a.is_multiple_of(b).into(),
            Self::Equal => (a == b).into(),
            Self::NotEqual => (a != b).into(),
            Self::Less => (a < b).into(),
            Self::AtMost => (a <= b).into(),
            Self::Greater => (a > b).into(),
            Self::AtLeast => (a >= b).into(),
            Self::And => a & b,
            Self::Or => a | b,
            Self::Not => 1 - b,
        })
    }
}

#[derive(Clone, Debug)]
enum Word<V> {
    Number(u64),
    /// A value of the launch, by its index.
    Value(V),
    Operator(Operator),
}

/// A formula whose values of the launch are `V`.
#[derive(Clone, Debug)]
pub struct Formula<V> {
    words: Vec<Word<V>>,
}

/// Most values that a formula keeps at a time.
const DEPTH: usize = 16;

impl<V> Formula<V> {
    /// Reads a formula. `find` gives the value of a name: `x.len`, `n`.
    ///
    /// # Errors
    /// What is wrong with it, and what `find` says.
    pub fn parse(
        code: &str,
        mut find: impl FnMut(&str) -> Result<V, String>,
    ) -> Result<Self, String> {
        let wrong = |what: &str| format!("the formula `{code}` {what}");
        let mut depth = 0_usize;
        let mut words = Vec::new();
        for word in code.split_whitespace() {
            let operator = OPERATORS.iter().find(|(name, _)| *name == word);
            words.push(match (word.strip_prefix('$'), operator) {
                (Some(name), _) => Word::Value(find(name)?),
                (None, Some((_, operator))) => {
                    let operands = if *operator == Operator::Not { 1 } else { 2 };
                    depth = depth
                        .checked_sub(operands)
                        .ok_or_else(|| wrong("lacks an operand"))?;
                    Word::Operator(*operator)
                }
                (None, None) => {
                    let number = word.parse();
                    Word::Number(number.map_err(|_| wrong(&format!("has the word `{word}`")))?)
                }
            });
            depth += 1;
            if depth > DEPTH {
                return Err(wrong("is too long"));
            }
        }
        match depth {
            1 => Ok(Self { words }),
            _ => Err(wrong(&format!("leaves {depth} values"))),
        }
    }

    /// Its value, if it has one. `read` reads a value of the launch.
    pub fn value(&self, mut read: impl FnMut(&V) -> u64) -> Option<u64> {
        let mut stack = [0_u64; DEPTH];
        let mut depth = 0;
        for word in &self.words {
            let value = match word {
                Word::Number(number) => *number,
                Word::Value(value) => read(value),
                Word::Operator(Operator::Not) => {
                    depth -= 1;
                    Operator::Not.apply(0, stack[depth])?
                }
                Word::Operator(operator) => {
                    depth -= 2;
                    operator.apply(stack[depth], stack[depth + 1])?
                }
            };
            stack[depth] = value;
            depth += 1;
        }
        Some(stack[0])
    }

    /// The values of the launch that it reads, in order.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.words.iter().filter_map(|word| match word {
            Word::Value(value) => Some(value),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(code: &str) -> Option<u64> {
        let find = |name: &str| match name {
            "x.len" => Ok(7),
            "n" => Ok(2),
            _ => Err(format!("no {name}")),
        };
        let formula = Formula::parse(code, find).expect(code);
        formula.value(|value| *value)
    }

    #[test]
    fn formulas_have_the_values_of_their_expressions() {
        for (code, want) in [
            ("$x.len 3 -", Some(4)),
            ("$x.len   256 div_ceil", Some(1)),
            ("$x.len $n % 1 == $n 3 < &&", Some(1)),
            ("$x.len $n is_multiple_of !", Some(1)),
            ("$x.len $n min 9 max", Some(9)),
            ("$n $x.len -", None),
            ("$n 0 /", None),
            ("$n 0 div_ceil", None),
            ("$n 18446744073709551615 *", None),
        ] {
            assert_eq!(value(code), want, "{code}");
        }
    }

    #[test]
    fn what_is_no_formula_is_refused() {
        for (code, want) in [
            ("", "leaves 0 values"),
            ("1 2", "leaves 2 values"),
            ("1 +", "lacks an operand"),
            ("1 !!", "has the word `!!`"),
            ("$y.len", "no y.len"),
            (&"1 ".repeat(17), "is too long"),
        ] {
            let find = |name: &str| Err::<u64, _>(format!("no {name}"));
            let error = Formula::parse(code, find).expect_err(code);
            assert!(error.contains(want), "{error}");
        }
    }
}

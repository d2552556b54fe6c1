//! Constant expressions: PTX ISA 4.5. Integers are 64 bits wide and wrap; floats are f64.

/// Value of a constant expression.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value {
    /// Two's complement bits, and whether they are unsigned.
    Integer { bits: u64, unsigned: bool },
    /// A literal of `0f` and eight hexadecimal digits that no arithmetic has been applied to.
    F32(u32),
    /// Any other float, as bits.
    F64(u64),
}

/// The precedence of a binary operator; higher binds tighter.
pub(crate) fn precedence(operator: &str) -> Option<u8> {
    Some(match operator {
        "*" | "/" | "%" => 10,
        "+" | "-" => 9,
        "<<" | ">>" => 8,
        "<" | ">" | "<=" | ">=" => 7,
        "==" | "!=" => 6,
        "&" => 5,
        "^" => 4,
        "|" => 3,
        "&&" => 2,
        "||" => 1,
        _ => return None,
    })
}

impl Value {
    pub(crate) fn signed(value: i64) -> Self {
        Value::Integer {
            bits: value.cast_unsigned(),
            unsigned: false,
        }
    }

    /// The integer with its sign; `None` for a float.
    pub(crate) fn integer(self) -> Option<i128> {
        match self {
            Value::Integer {
                bits,
                unsigned: true,
            } => Some(i128::from(bits)),
            Value::Integer {
                bits,
                unsigned: false,
            } => Some(i128::from(bits.cast_signed())),
            Value::F32(_) | Value::F64(_) => None,
        }
    }

    fn float(self) -> f64 {
        match self {
            Value::Integer {
                bits,
                unsigned: true,
            } => bits as f64,
            Value::Integer {
                bits,
                unsigned: false,
            } => bits.cast_signed() as f64,
            Value::F32(bits) => f64::from(f32::from_bits(bits)),
            Value::F64(bits) => f64::from_bits(bits),
        }
    }

    pub(crate) fn is_true(self) -> bool {
        match self {
            Value::Integer { bits, .. } => bits != 0,
            Value::F32(_) | Value::F64(_) => self.float() != 0.0,
        }
    }

    /// Applies the cast `(.s64)` or `(.u64)`.
    pub(crate) fn cast(self, unsigned: bool) -> Self {
        match self {
            Value::Integer { bits, .. } => Value::Integer { bits, unsigned },
            Value::F32(_) | Value::F64(_) if unsigned => Value::Integer {
                bits: self.float() as u64,
                unsigned,
            },
            Value::F32(_) | Value::F64(_) => Value::signed(self.float() as i64),
        }
    }
}

/// Applies a unary operator.
pub(crate) fn unary(operator: &str, value: Value) -> Result<Value, String> {
    const SMALLEST: u64 = 1 << 63;
    Ok(match (operator, value) {
        ("+", value) => value,
        // The literal of i64::MIN without its sign does not fit an i64.
        ("-", Value::Integer { bits: SMALLEST, .. }) => Value::signed(i64::MIN),
        ("-", Value::Integer { bits, unsigned }) => Value::Integer {
            bits: bits.wrapping_neg(),
            unsigned,
        },
        ("-", Value::F32(_)) => {
            return Err("a `0f` constant takes no minus: set its sign bit".into());
        }
        ("-", Value::F64(bits)) => Value::F64(bits ^ 1 << 63),
        ("~", Value::Integer { bits, unsigned }) => Value::Integer {
            bits: !bits,
            unsigned,
        },
        ("!", value) => Value::signed(i64::from(!value.is_true())),
        (_, Value::F32(_) | Value::F64(_)) | (_, Value::Integer { .. }) => {
            return Err(format!("operator `{operator}` does not take this constant"));
        }
    })
}

/// Applies a binary operator.
pub(crate) fn binary(operator: &str, a: Value, b: Value) -> Result<Value, String> {
    match (a, b) {
        (
            Value::Integer {
                bits: x,
                unsigned: x_unsigned,
            },
            Value::Integer {
                bits: y,
                unsigned: y_unsigned,
            },
        ) => integer_binary(operator, x, y, x_unsigned, y_unsigned),
        _ => float_binary(operator, a.float(), b.float()),
    }
}

fn integer_binary(
    operator: &str,
    x: u64,
    y: u64,
    x_unsigned: bool,
    y_unsigned: bool,
) -> Result<Value, String> {
    let unsigned = x_unsigned || y_unsigned;
    let (sx, sy) = (x.cast_signed(), y.cast_signed());
    let shift = u32::try_from(y).unwrap_or(u32::MAX);
    let by_zero = || format!("division by zero in `{x} {operator} 0`");
    let truth = |claim: bool| Value::signed(i64::from(claim));
    let order = if unsigned { x.cmp(&y) } else { sx.cmp(&sy) };
    let bits = match operator {
        "*" => x.wrapping_mul(y),
        "/" | "%" if y == 0 => return Err(by_zero()),
        "/" if unsigned => x / y,
        "/" => sx.wrapping_div(sy).cast_unsigned(),
        "%" if unsigned => x % y,
        "%" => sx.wrapping_rem(sy).cast_unsigned(),
        "+" => x.wrapping_add(y),
        "-" => x.wrapping_sub(y),
        // The type of a shift is that of its left operand.
        "<<" => {
            let bits = x.checked_shl(shift).unwrap_or(0);
            return Ok(Value::Integer {
                bits,
                unsigned: x_unsigned,
            });
        }
        ">>" if x_unsigned => {
            let bits = x.checked_shr(shift).unwrap_or(0);
            return Ok(Value::Integer {
                bits,
                unsigned: true,
            });
        }
        ">>" => return Ok(Value::signed(sx >> shift.min(63))),
        "&" => x & y,
        "^" => x ^ y,
        "|" => x | y,
        "<" => return Ok(truth(order.is_lt())),
        ">" => return Ok(truth(order.is_gt())),
        "<=" => return Ok(truth(order.is_le())),
        ">=" => return Ok(truth(order.is_ge())),
        "==" => return Ok(truth(x == y)),
        "!=" => return Ok(truth(x != y)),
        "&&" => return Ok(truth(x != 0 && y != 0)),
        "||" => return Ok(truth(x != 0 || y != 0)),
        _ => return Err(format!("unknown operator `{operator}`")),
    };
    Ok(Value::Integer { bits, unsigned })
}

fn float_binary(operator: &str, x: f64, y: f64) -> Result<Value, String> {
    let truth = |claim: bool| Ok(Value::signed(i64::from(claim)));
    let value = match operator {
        "*" => x * y,
        "/" => x / y,
        "+" => x + y,
        "-" => x - y,
        "<" => return truth(x < y),
        ">" => return truth(x > y),
        "<=" => return truth(x <= y),
        ">=" => return truth(x >= y),
        "==" => return truth(x == y),
        "!=" => return truth(x != y),
        "&&" => return truth(x != 0.0 && y != 0.0),
        "||" => return truth(x != 0.0 || y != 0.0),
        _ => return Err(format!("operator `{operator}` does not take floats")),
    };
    Ok(Value::F64(value.to_bits()))
}

#[cfg(test)]
mod tests {
    use super::{Value, binary, unary};

    #[test]
    fn signed_division_of_the_smallest_integer_wraps() {
        let value = binary("/", Value::signed(i64::MIN), Value::signed(-1));
        assert_eq!(value, Ok(Value::signed(i64::MIN)));
    }

    #[test]
    fn a_shift_by_64_or_more_is_zero_or_the_sign() {
        assert_eq!(
            binary("<<", Value::signed(1), Value::signed(64)),
            Ok(Value::signed(0))
        );
        assert_eq!(
            binary(">>", Value::signed(-8), Value::signed(200)),
            Ok(Value::signed(-1))
        );
    }

    #[test]
    fn division_by_zero_is_an_error() {
        assert!(binary("%", Value::signed(1), Value::signed(0)).is_err());
    }

    #[test]
    fn a_minus_sets_the_sign_of_a_decimal_float_and_refuses_bits() {
        let one = Value::F64(1.0_f64.to_bits());
        assert_eq!(unary("-", one), Ok(Value::F64((-1.0_f64).to_bits())));
        assert!(unary("-", Value::F32(0x3f80_0000)).is_err());
    }
}

//! C format strings: parsing, and formatting of one number.

use crate::fifo::Fifo;

/// A piece of a format string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    Text(&'a [u8]),
    /// A conversion, and its text.
    Value(Style, &'a [u8]),
}

/// What a conversion prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Conversion {
    Signed,
    Unsigned,
    Octal,
    /// Upper case with `true`.
    Hex(bool),
    Char,
    String,
    Pointer,
    Fixed(bool),
    Exponent(bool),
    General(bool),
    HexFloat(bool),
}

/// Length modifier of an integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Length {
    Byte,
    Short,
    Int,
    Long,
}

/// A conversion with its flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Style {
    pub(super) conversion: Conversion,
    pub(super) length: Length,
    pub(super) left: bool,
    plus: bool,
    space: bool,
    alternate: bool,
    zero: bool,
    pub(super) width: usize,
    pub(super) precision: Option<usize>,
    /// Whether the width and the precision are arguments (`*`).
    pub(super) width_given: bool,
    pub(super) precision_given: bool,
}

/// Splits a format string into pieces.
pub(super) fn parse(format: &[u8]) -> Result<Vec<Piece<'_>>, String> {
    let mut pieces = Vec::new();
    let mut rest = format;
    while let Some(at) = rest.iter().position(|byte| *byte == b'%') {
        let (text, conversion) = rest.split_at(at);
        if !text.is_empty() {
            pieces.push(Piece::Text(text));
        }
        let tail = if let [percent, b'%', tail @ ..] = conversion {
            pieces.push(Piece::Text(std::slice::from_ref(percent)));
            tail
        } else {
            let (style, tail) = parse_style(&conversion[1..])?;
            let length = conversion.len() - tail.len();
            pieces.push(Piece::Value(style, &conversion[..length]));
            tail
        };
        rest = tail;
    }
    if !rest.is_empty() {
        pieces.push(Piece::Text(rest));
    }
    Ok(pieces)
}

fn parse_style(mut rest: &[u8]) -> Result<(Style, &[u8]), String> {
    let mut style = Style {
        conversion: Conversion::Signed,
        length: Length::Int,
        left: false,
        plus: false,
        space: false,
        alternate: false,
        zero: false,
        width: 0,
        precision: None,
        width_given: false,
        precision_given: false,
    };
    while let [flag, tail @ ..] = rest {
        match flag {
            b'-' => style.left = true,
            b'+' => style.plus = true,
            b' ' => style.space = true,
            b'#' => style.alternate = true,
            b'0' => style.zero = true,
            _ => break,
        }
        rest = tail;
    }
    if let [b'*', tail @ ..] = rest {
        style.width_given = true;
        rest = tail;
    } else {
        (style.width, rest) = digits(rest);
    }
    if let [b'.', tail @ ..] = rest {
        if let [b'*', tail @ ..] = tail {
            style.precision_given = true;
            rest = tail;
        } else {
            let (precision, tail) = digits(tail);
            style.precision = Some(precision);
            rest = tail;
        }
    }
    (style.length, rest) = match rest {
        [b'h', b'h', tail @ ..] => (Length::Byte, tail),
        [b'h', tail @ ..] => (Length::Short, tail),
        [b'l', b'l', tail @ ..] | [b'l' | b'j' | b'z' | b't', tail @ ..] => (Length::Long, tail),
        [b'L', tail @ ..] => (Length::Int, tail),
        _ => (Length::Int, rest),
    };
    let [letter, rest @ ..] = rest else {
        return Err("the format ends inside a conversion".to_owned());
    };
    style.conversion = match letter {
        b'd' | b'i' => Conversion::Signed,
        b'u' => Conversion::Unsigned,
        b'o' => Conversion::Octal,
        b'x' => Conversion::Hex(false),
        b'X' => Conversion::Hex(true),
        b'c' => Conversion::Char,
        b's' => Conversion::String,
        b'p' => Conversion::Pointer,
        b'f' => Conversion::Fixed(false),
        b'F' => Conversion::Fixed(true),
        b'e' => Conversion::Exponent(false),
        b'E' => Conversion::Exponent(true),
        b'g' => Conversion::General(false),
        b'G' => Conversion::General(true),
        b'a' => Conversion::HexFloat(false),
        b'A' => Conversion::HexFloat(true),
        other => {
            return Err(format!(
                "`%{}` is not a conversion",
                char::from(*other).escape_default()
            ));
        }
    };
    Ok((style, rest))
}

/// The number at the front (0 if there is none; an `int` at most), and the rest.
fn digits(mut rest: &[u8]) -> (usize, &[u8]) {
    let mut value = 0usize;
    while let [digit @ b'0'..=b'9', tail @ ..] = rest {
        value = value
            .saturating_mul(10)
            .saturating_add(usize::from(digit - b'0'))
            .min(i32::MAX as usize);
        rest = tail;
    }
    (value, rest)
}

impl Style {
    /// A value other than a string.
    pub(super) fn number(&self, value: u64) -> Field {
        match self.conversion {
            Conversion::Char => Field::text(vec![value as u8]),
            Conversion::String => Field::default(),
            Conversion::Pointer => Field::text(format!("0x{value:x}").into()),
            Conversion::Signed => {
                let value = match self.length {
                    Length::Byte => i64::from(value as i8),
                    Length::Short => i64::from(value as i16),
                    Length::Int => i64::from(value as i32),
                    Length::Long => value as i64,
                };
                self.integer(self.sign(value < 0), value.unsigned_abs().to_string())
            }
            Conversion::Unsigned | Conversion::Octal | Conversion::Hex(_) => self.unsigned(value),
            _ => self.float(f64::from_bits(value)),
        }
    }

    fn unsigned(&self, value: u64) -> Field {
        let value = match self.length {
            Length::Byte => u64::from(value as u8),
            Length::Short => u64::from(value as u16),
            Length::Int => u64::from(value as u32),
            Length::Long => value,
        };
        let alternate = self.alternate && value != 0;
        match self.conversion {
            Conversion::Octal => {
                let digits = format!("{value:o}");
                let mut field = self.integer("", digits);
                if self.alternate && field.zeros == 0 && field.body.first() != Some(&b'0') {
                    field.body.insert(0, b'0');
                }
                field
            }
            Conversion::Hex(false) => {
                self.integer(if alternate { "0x" } else { "" }, format!("{value:x}"))
            }
            Conversion::Hex(true) => {
                self.integer(if alternate { "0X" } else { "" }, format!("{value:X}"))
            }
            _ => self.integer("", value.to_string()),
        }
    }

    fn sign(&self, negative: bool) -> &'static str {
        match (negative, self.plus, self.space) {
            (true, ..) => "-",
            (_, true, _) => "+",
            (_, _, true) => " ",
            _ => "",
        }
    }

    fn integer(&self, head: &str, digits: String) -> Field {
        let least = match self.precision {
            Some(precision) => precision,
            None if self.zero && !self.left => self.width.saturating_sub(head.len()),
            None => 0,
        };
        let body = match self.precision {
            Some(0) if digits == "0" => Vec::new(),
            _ => digits.into_bytes(),
        };
        Field {
            head: head.to_owned(),
            zeros: least.saturating_sub(body.len()),
            body,
            ..Field::default()
        }
    }

    fn float(&self, value: f64) -> Field {
        let magnitude = value.abs();
        let mut field = if magnitude.is_nan() {
            Field::text(b"nan".into())
        } else if magnitude.is_infinite() {
            Field::text(b"inf".into())
        } else {
            let precision = self.precision.unwrap_or(6);
            match self.conversion {
                Conversion::Fixed(_) => fixed(magnitude, precision, self.alternate),
                Conversion::Exponent(_) => exponent(magnitude, precision, self.alternate),
                Conversion::General(_) => general(magnitude, precision.max(1), self.alternate),
                _ => hex_float(magnitude, self.precision, self.alternate),
            }
        };
        field
            .head
            .insert_str(0, self.sign(value.is_sign_negative()));
        if self.zero && !self.left && magnitude.is_finite() {
            field.zeros = self.width.saturating_sub(field.len());
        }
        if self.is_upper() {
            field.head.make_ascii_uppercase();
            field.body.make_ascii_uppercase();
            field.tail.make_ascii_uppercase();
        }
        field
    }

    fn is_upper(&self) -> bool {
        matches!(
            self.conversion,
            Conversion::Fixed(true)
                | Conversion::Exponent(true)
                | Conversion::General(true)
                | Conversion::HexFloat(true)
        )
    }

    /// Writes a field, padded with spaces to the width.
    pub(super) fn pad(&self, field: &Field, out: &mut Fifo) {
        let missing = self.width.saturating_sub(field.len());
        if !self.left {
            out.fill(b' ', missing);
        }
        field.write(out);
        if self.left {
            out.fill(b' ', missing);
        }
    }
}

/// A formatted value in parts, in this order. Zeros are counts: a format can ask for billions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Field {
    /// Sign and prefix.
    head: String,
    zeros: usize,
    /// The digits, or the text.
    body: Vec<u8>,
    trailing_zeros: usize,
    /// The exponent.
    tail: String,
}

impl Field {
    pub(super) fn text(body: Vec<u8>) -> Self {
        Self {
            body,
            ..Self::default()
        }
    }

    fn len(&self) -> usize {
        self.head.len() + self.zeros + self.body.len() + self.trailing_zeros + self.tail.len()
    }

    fn write(&self, out: &mut Fifo) {
        out.write(self.head.as_bytes());
        out.fill(b'0', self.zeros);
        out.write(&self.body);
        out.fill(b'0', self.trailing_zeros);
        out.write(self.tail.as_bytes());
    }
}

/// More digits than the exact value of any `f64` has after its point; further ones are zeros.
const MOST_DIGITS: usize = 1100;

fn fixed(value: f64, precision: usize, alternate: bool) -> Field {
    let exact = precision.min(MOST_DIGITS);
    let point = if alternate && precision == 0 { "." } else { "" };
    Field {
        body: format!("{value:.exact$}{point}").into(),
        trailing_zeros: precision - exact,
        ..Field::default()
    }
}

fn exponent(value: f64, precision: usize, alternate: bool) -> Field {
    let exact = precision.min(MOST_DIGITS);
    let text = format!("{value:.exact$e}");
    let (digits, power) = text.split_once('e').unwrap_or((&text, "0"));
    let power: i32 = power.parse().unwrap_or(0);
    let point = if alternate && precision == 0 { "." } else { "" };
    let sign = if power < 0 { '-' } else { '+' };
    Field {
        body: format!("{digits}{point}").into(),
        trailing_zeros: precision - exact,
        tail: format!("e{sign}{:02}", power.unsigned_abs()),
        ..Field::default()
    }
}

/// `precision` is at least 1.
fn general(value: f64, precision: usize, alternate: bool) -> Field {
    let scientific = exponent(value, precision - 1, alternate);
    let power: i64 = scientific.tail[1..].parse().unwrap_or(0);
    let places = precision as i64 - 1 - power;
    let mut field = if power < -4 || places < 0 {
        scientific
    } else {
        fixed(value, places as usize, alternate)
    };
    if !alternate {
        field.trailing_zeros = 0;
        if field.body.contains(&b'.') {
            let zeros = field.body.iter().rev().take_while(|digit| **digit == b'0');
            field.body.truncate(field.body.len() - zeros.count());
            field.body.pop_if(|last| *last == b'.');
        }
    }
    field
}

/// `%a`: the bits as hexadecimal digits, normalised to a leading 1.
fn hex_float(value: f64, precision: Option<usize>, alternate: bool) -> Field {
    let bits = value.to_bits();
    let (mut power, mut mantissa) = ((bits >> 52) as i32, bits & ((1 << 52) - 1));
    let mut lead = 1u64;
    if power == 0 {
        (lead, power) = (0, if mantissa == 0 { 0 } else { -1022 });
    } else {
        power -= 1023;
    }
    let mut digits = 13;
    if let Some(precision) = precision.filter(|precision| *precision < 13) {
        let shift = 4 * (13 - precision) as u32;
        let whole = lead << 52 | mantissa;
        let half = 1u64 << (shift - 1);
        let (mut kept, cut) = (whole >> shift, whole & ((1 << shift) - 1));
        if cut > half || cut == half && kept & 1 != 0 {
            kept += 1;
        }
        lead = kept >> (4 * precision);
        mantissa = kept & ((1 << (4 * precision)) - 1);
        digits = precision;
    }
    let mut text = if digits == 0 {
        String::new()
    } else {
        format!("{mantissa:0digits$x}")
    };
    if precision.is_none() {
        text.truncate(text.trim_end_matches('0').len());
    }
    let point = if text.is_empty() && !alternate {
        ""
    } else {
        "."
    };
    Field {
        head: "0x".to_owned(),
        body: format!("{lead}{point}{text}").into(),
        trailing_zeros: precision.map_or(0, |precision| precision - digits),
        tail: format!("p{power:+}"),
        ..Field::default()
    }
}

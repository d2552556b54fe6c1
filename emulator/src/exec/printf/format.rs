//! C format strings: parsing, and formatting of one number.

/// A piece of a format string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Text(Vec<u8>),
    Value(Style),
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
pub(super) fn parse(format: &[u8]) -> Result<Vec<Piece>, String> {
    let mut pieces = Vec::new();
    let mut text = Vec::new();
    let mut rest = format;
    while let [byte, tail @ ..] = rest {
        rest = tail;
        if *byte != b'%' {
            text.push(*byte);
            continue;
        }
        if let [b'%', tail @ ..] = rest {
            text.push(b'%');
            rest = tail;
            continue;
        }
        if !text.is_empty() {
            pieces.push(Piece::Text(std::mem::take(&mut text)));
        }
        let (style, tail) = parse_style(rest)?;
        pieces.push(Piece::Value(style));
        rest = tail;
    }
    if !text.is_empty() {
        pieces.push(Piece::Text(text));
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

/// The number at the front (0 if there is none), and the rest.
fn digits(mut rest: &[u8]) -> (usize, &[u8]) {
    let mut value = 0usize;
    while let [digit @ b'0'..=b'9', tail @ ..] = rest {
        value = value
            .saturating_mul(10)
            .saturating_add(usize::from(digit - b'0'))
            .min(1 << 16);
        rest = tail;
    }
    (value, rest)
}

impl Style {
    /// The text of a value other than a string, before padding to the width.
    pub(super) fn number(&self, value: u64) -> String {
        match self.conversion {
            Conversion::Char => char::from(value as u8).to_string(),
            Conversion::String => String::new(),
            Conversion::Pointer => format!("0x{value:x}"),
            Conversion::Signed => {
                let value = match self.length {
                    Length::Byte => i64::from(value as i8),
                    Length::Short => i64::from(value as i16),
                    Length::Int => i64::from(value as i32),
                    Length::Long => value as i64,
                };
                self.integer(value < 0, value.unsigned_abs().to_string(), "")
            }
            Conversion::Unsigned | Conversion::Octal | Conversion::Hex(_) => self.unsigned(value),
            _ => self.float(f64::from_bits(value)),
        }
    }

    fn unsigned(&self, value: u64) -> String {
        let value = match self.length {
            Length::Byte => u64::from(value as u8),
            Length::Short => u64::from(value as u16),
            Length::Int => u64::from(value as u32),
            Length::Long => value,
        };
        let alternate = self.alternate && value != 0;
        let plain = Self {
            plus: false,
            space: false,
            ..*self
        };
        match self.conversion {
            Conversion::Octal if alternate => plain.integer(false, format!("0{value:o}"), ""),
            Conversion::Octal => plain.integer(false, format!("{value:o}"), ""),
            Conversion::Hex(false) => plain.integer(
                false,
                format!("{value:x}"),
                if alternate { "0x" } else { "" },
            ),
            Conversion::Hex(true) => plain.integer(
                false,
                format!("{value:X}"),
                if alternate { "0X" } else { "" },
            ),
            _ => plain.integer(false, value.to_string(), ""),
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

    fn integer(&self, negative: bool, digits: String, prefix: &str) -> String {
        let head = format!("{}{prefix}", self.sign(negative));
        let least = match self.precision {
            Some(0) if digits == "0" => return head,
            Some(precision) => precision,
            None if self.zero && !self.left => self.width.saturating_sub(head.len()),
            None => 0,
        };
        format!("{head}{digits:0>least$}")
    }

    fn float(&self, value: f64) -> String {
        let head = self.sign(value.is_sign_negative());
        let (magnitude, upper) = (value.abs(), self.is_upper());
        let digits = if magnitude.is_nan() {
            "nan".to_owned()
        } else if magnitude.is_infinite() {
            "inf".to_owned()
        } else {
            let precision = self.precision.unwrap_or(6);
            match self.conversion {
                Conversion::Fixed(_) => fixed(magnitude, precision, self.alternate),
                Conversion::Exponent(_) => exponent(magnitude, precision, self.alternate),
                Conversion::General(_) => general(magnitude, precision.max(1), self.alternate),
                _ => hex_float(magnitude, self.precision),
            }
        };
        let digits = if upper { digits.to_uppercase() } else { digits };
        let zeros = self.zero && !self.left && magnitude.is_finite();
        let least = if zeros {
            self.width.saturating_sub(head.len())
        } else {
            0
        };
        match digits
            .strip_prefix("0x")
            .or_else(|| digits.strip_prefix("0X"))
        {
            Some(rest) if zeros => {
                let (prefix, least) = (&digits[..2], least.saturating_sub(2));
                format!("{head}{prefix}{rest:0>least$}")
            }
            _ => format!("{head}{digits:0>least$}"),
        }
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

    /// Appends text, padded with spaces to the width.
    pub(super) fn pad(&self, text: &[u8], out: &mut Vec<u8>) {
        let missing = self.width.saturating_sub(text.len());
        if !self.left {
            out.resize(out.len() + missing, b' ');
        }
        out.extend_from_slice(text);
        if self.left {
            out.resize(out.len() + missing, b' ');
        }
    }
}

fn fixed(value: f64, precision: usize, alternate: bool) -> String {
    let point = if alternate && precision == 0 { "." } else { "" };
    format!("{value:.precision$}{point}")
}

fn exponent(value: f64, precision: usize, alternate: bool) -> String {
    let text = format!("{value:.precision$e}");
    let (digits, power) = text.split_once('e').unwrap_or((&text, "0"));
    let power: i32 = power.parse().unwrap_or(0);
    let point = if alternate && precision == 0 { "." } else { "" };
    let sign = if power < 0 { '-' } else { '+' };
    format!("{digits}{point}e{sign}{:02}", power.unsigned_abs())
}

fn general(value: f64, precision: usize, alternate: bool) -> String {
    let scientific = exponent(value, precision - 1, alternate);
    let power: i32 = scientific
        .split_once('e')
        .and_then(|(_, power)| power.parse().ok())
        .unwrap_or(0);
    let (digits, tail) = if power < -4 || power >= precision as i32 {
        let (digits, tail) = scientific.split_once('e').unwrap_or((&scientific, ""));
        (digits.to_owned(), format!("e{tail}"))
    } else {
        let places = (precision as i32 - 1 - power).max(0) as usize;
        (fixed(value, places, alternate), String::new())
    };
    if alternate || !digits.contains('.') {
        return digits + &tail;
    }
    digits
        .trim_end_matches('0')
        .trim_end_matches('.')
        .to_owned()
        + &tail
}

/// `%a`: the bits as hexadecimal digits, normalised to a leading 1.
fn hex_float(value: f64, precision: Option<usize>) -> String {
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
    match precision {
        None => text.truncate(text.trim_end_matches('0').len()),
        Some(precision) => text.extend(std::iter::repeat_n('0', precision - digits)),
    }
    let point = if text.is_empty() { "" } else { "." };
    format!("0x{lead}{point}{text}p{power:+}")
}

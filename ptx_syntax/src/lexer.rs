//! The lexer: PTX text to tokens. Drops white space and comments, but for [`READS_ONCE`]. Every
//! token has its line and column.

use crate::ast::READS_ONCE;
use crate::parser::ParseError;

/// Kind of a token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    /// A name: `ld`, `%r1`, `$L__BB0_2`, `_`.
    Name,
    /// A dotted word: `.global`, `.v4`, `.shared::cta`; the text has the dot.
    Word,
    /// An integer and whether it is unsigned (a `U` suffix, or too large for an i64).
    Integer { value: u64, unsigned: bool },
    /// `0f` and eight hexadecimal digits
    F32(u32),
    /// `0d` and sixteen hexadecimal digits or a decimal float.
    F64(u64),
    /// A quoted string; the text is without the quotes.
    Text,
    /// An operator or a bracket.
    Punct,
    /// End of the text.
    End,
}

/// A token with its place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token<'a> {
    pub(crate) kind: Kind,
    pub(crate) text: &'a str,
    pub(crate) line: u32,
    pub(crate) column: u32,
}

/// Most tokens of a module: some hundred megabytes of compiler-generated PTX. Bounds the memory for
/// a text that consists only of brackets.
const MAX_TOKENS: usize = 1 << 24;

/// The tokens of a text.
pub(crate) struct Tokens<'a> {
    /// In order; the last is a [`Kind::End`].
    pub(crate) all: Vec<Token<'a>>,
    /// Indices of the `;` that [`READS_ONCE`] follows on their line, in order.
    pub(crate) marked: Vec<usize>,
}

/// All tokens of `text`.
pub(crate) fn tokenize(text: &str) -> Result<Tokens<'_>, ParseError> {
    let mut lexer = Lexer {
        text,
        at: 0,
        line: 1,
        line_start: 0,
    };
    let mut tokens = Vec::with_capacity((text.len() / 4).min(MAX_TOKENS));
    let mut marked = Vec::new();
    loop {
        lexer.skip_blank()?;
        let token = lexer.next_token()?;
        if token.text == ";" && lexer.is_marked() {
            marked.push(tokens.len());
        }
        if tokens.len() == MAX_TOKENS {
            return Err(lexer.error(format!(
                "more than {MAX_TOKENS} tokens: split the module, or is it no PTX?"
            )));
        }
        tokens.push(token);
        if token.kind == Kind::End {
            let all = tokens;
            return Ok(Tokens { all, marked });
        }
    }
}

/// Operators, longest first.
const PUNCTUATION: [&str; 33] = [
    "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "{", "}", "(", ")", "[", "]", ",", ";", ":",
    "@", "!", "|", "&", "+", "-", "*", "/", "%", "=", "?", "~", "^", "<", ">", ".",
];

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    line: u32,
    line_start: usize,
}

impl<'a> Lexer<'a> {
    fn peek(&self, ahead: usize) -> u8 {
        self.text
            .as_bytes()
            .get(self.at + ahead)
            .copied()
            .unwrap_or(0)
    }

    fn error(&self, message: impl Into<String>) -> ParseError {
        ParseError {
            line: self.line,
            column: self.column(),
            message: message.into(),
        }
    }

    fn column(&self) -> u32 {
        u32::try_from(self.at - self.line_start + 1).unwrap_or(u32::MAX)
    }

    fn newline(&mut self) {
        self.line = self.line.saturating_add(1);
        self.line_start = self.at;
    }

    fn skip_blank(&mut self) -> Result<(), ParseError> {
        loop {
            match (self.peek(0), self.peek(1)) {
                (b'\n', _) => {
                    self.at += 1;
                    self.newline();
                }
                (b' ' | b'\t' | b'\r' | 0x0b | 0x0c, _) => self.at += 1,
                // A program image may be passed with its terminating zero.
                (0, _) if self.at + 1 == self.text.len() => self.at += 1,
                (b'/', b'/') => self.skip_line(),
                (b'/', b'*') => self.skip_block_comment()?,
                _ => return Ok(()),
            }
        }
    }

    /// Whether the rest of the line is [`READS_ONCE`].
    fn is_marked(&self) -> bool {
        const BLANK: [char; 3] = [' ', '\t', '\r'];
        let rest = self.text[self.at..].trim_start_matches(BLANK);
        let after = rest.strip_prefix(READS_ONCE);
        let after = after.map(|after| after.trim_start_matches(BLANK));
        after.is_some_and(|after| after.is_empty() || after.starts_with('\n'))
    }

    fn skip_line(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.find('\n').unwrap_or(rest.len());
    }

    fn skip_block_comment(&mut self) -> Result<(), ParseError> {
        let Some(length) = self.text[self.at + 2..].find("*/") else {
            return Err(self.error("comment `/*` is never closed"));
        };
        let end = self.at + 2 + length + 2;
        while self.at < end {
            let newline = self.peek(0) == b'\n';
            self.at += 1;
            if newline {
                self.newline();
            }
        }
        Ok(())
    }

    fn next_token(&mut self) -> Result<Token<'a>, ParseError> {
        let (line, column, start) = (self.line, self.column(), self.at);
        let first = self.peek(0);
        let kind = match first {
            _ if self.at >= self.text.len() => Kind::End,
            b'0'..=b'9' => self.number()?,
            b'"' => return self.string(),
            b'.' if self.starts_fraction() => self.decimal()?,
            b'.' if is_name_byte(self.peek(1)) => self.word(),
            b'%' if !is_name_byte(self.peek(1)) => self.punctuation()?,
            _ if first == b'%' || is_name_byte(first) => {
                self.at += 1;
                self.skip_name();
                Kind::Name
            }
            _ => self.punctuation()?,
        };
        Ok(Token {
            kind,
            text: &self.text[start..self.at],
            line,
            column,
        })
    }

    /// Whether a number such as `.5` begins here: a digit follows the dot, and no mnemonic precedes
    /// it as in `tex.2d`.
    fn starts_fraction(&self) -> bool {
        let before = self
            .at
            .checked_sub(1)
            .map_or(b' ', |at| self.text.as_bytes()[at]);
        self.peek(1).is_ascii_digit() && !is_name_byte(before)
    }

    fn skip_name(&mut self) {
        while is_name_byte(self.peek(0)) {
            self.at += 1;
        }
    }

    fn word(&mut self) -> Kind {
        self.at += 1;
        self.skip_name();
        while self.peek(0) == b':' && self.peek(1) == b':' && is_name_byte(self.peek(2)) {
            self.at += 2;
            self.skip_name();
        }
        Kind::Word
    }

    fn punctuation(&mut self) -> Result<Kind, ParseError> {
        let rest = &self.text[self.at..];
        match PUNCTUATION.iter().find(|p| rest.starts_with(**p)) {
            Some(found) => {
                self.at += found.len();
                Ok(Kind::Punct)
            }
            None => {
                let found = rest.chars().next().unwrap_or('\0');
                Err(self.error(format!("unexpected character {found:?}")))
            }
        }
    }

    fn string(&mut self) -> Result<Token<'a>, ParseError> {
        let (line, column) = (self.line, self.column());
        let start = self.at + 1;
        let bytes = &self.text.as_bytes()[start..];
        let mut length = 0;
        loop {
            match bytes.get(length) {
                Some(b'"') => break,
                Some(b'\\') => length += 2,
                Some(b'\n') | None => return Err(self.error("string is not closed on its line")),
                Some(_) => length += 1,
            }
        }
        self.at = start + length + 1;
        Ok(Token {
            kind: Kind::Text,
            text: &self.text[start..start + length],
            line,
            column,
        })
    }

    fn number(&mut self) -> Result<Kind, ParseError> {
        let rest = &self.text[self.at..];
        let bits = |length: usize| rest.get(2..2 + length).filter(|hex| is_hex(hex));
        if let (b'0', b'f' | b'F') = (self.peek(0), self.peek(1)) {
            let hex = bits(8).ok_or_else(|| self.error("`0f` needs 8 hex digits"))?;
            self.at += 10;
            self.end_of_number()?;
            return Ok(Kind::F32(u32::from_str_radix(hex, 16).unwrap_or(0)));
        }
        if let (b'0', b'd' | b'D') = (self.peek(0), self.peek(1)) {
            let hex = bits(16).ok_or_else(|| self.error("`0d` needs 16 hex digits"))?;
            self.at += 18;
            self.end_of_number()?;
            return Ok(Kind::F64(u64::from_str_radix(hex, 16).unwrap_or(0)));
        }
        let radix = match (self.peek(0), self.peek(1)) {
            (b'0', b'x' | b'X') => 16,
            (b'0', b'b' | b'B') => 2,
            _ => return self.decimal(),
        };
        self.integer(2, radix)
    }

    fn decimal(&mut self) -> Result<Kind, ParseError> {
        let digits = |from: usize| {
            self.text.as_bytes()[from..]
                .iter()
                .take_while(|b| b.is_ascii_digit())
                .count()
        };
        let mut end = self.at + digits(self.at);
        let byte = |at: usize| self.text.as_bytes().get(at).copied().unwrap_or(0);
        let mut is_float = false;
        if byte(end) == b'.' {
            is_float = true;
            end += 1 + digits(end + 1);
        }
        if matches!(byte(end), b'e' | b'E') {
            let sign = usize::from(matches!(byte(end + 1), b'+' | b'-'));
            let exponent = digits(end + 1 + sign);
            if exponent > 0 {
                is_float = true;
                end += 1 + sign + exponent;
            }
        }
        if !is_float {
            let octal = byte(self.at) == b'0' && end > self.at + 1;
            return if octal {
                self.integer(1, 8)
            } else {
                self.integer(0, 10)
            };
        }
        let text = &self.text[self.at..end];
        let value: f64 = text
            .parse()
            .map_err(|_| self.error(format!("`{text}` is not a number")))?;
        self.at = end;
        self.end_of_number()?;
        Ok(Kind::F64(value.to_bits()))
    }

    fn integer(&mut self, prefix: usize, radix: u32) -> Result<Kind, ParseError> {
        let start = self.at;
        let digits_at = start + prefix;
        let length = self.text.as_bytes()[digits_at..]
            .iter()
            .take_while(|b| char::from(**b).is_digit(radix))
            .count();
        let digits = &self.text[digits_at..digits_at + length];
        let value = u64::from_str_radix(digits, radix).map_err(|_| {
            let what = if length == 0 {
                "not an integer"
            } else {
                "larger than 64 bits"
            };
            let end = digits_at
                + self.text.as_bytes()[digits_at..]
                    .iter()
                    .take_while(|b| is_name_byte(**b))
                    .count();
            self.error(format!(
                "`{}` is {what} in base {radix}",
                &self.text[start..end]
            ))
        })?;
        self.at = digits_at + length;
        let suffix = self.peek(0) == b'U';
        self.at += usize::from(suffix);
        self.end_of_number()?;
        Ok(Kind::Integer {
            value,
            unsigned: suffix || i64::try_from(value).is_err(),
        })
    }

    /// Refuses `12ab` and `0x5g`, which are not numbers followed by names.
    fn end_of_number(&self) -> Result<(), ParseError> {
        if is_name_byte(self.peek(0)) {
            let found = char::from(self.peek(0));
            return Err(self.error(format!("unexpected `{found}` right after a number")));
        }
        Ok(())
    }
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$')
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_hexdigit())
}

//! The position in the token list, and the small steps that every grammar rule consists of.

use super::{MAX_DEPTH, ParseError};
use crate::lexer::{Kind, Token, Tokens};

pub(super) type Result<T> = std::result::Result<T, ParseError>;

pub(super) struct Cursor<'t, 'a> {
    tokens: &'t [Token<'a>],
    marked: &'t [usize],
    at: usize,
    depth: u32,
}

impl<'t, 'a> Cursor<'t, 'a> {
    pub(super) fn new(tokens: &'t Tokens<'a>) -> Self {
        Cursor {
            tokens: &tokens.all,
            marked: &tokens.marked,
            at: 0,
            depth: 0,
        }
    }

    pub(super) fn peek(&self) -> Token<'a> {
        self.peek_at(0)
    }

    /// The token `ahead` positions from here; the end token if that is beyond the end.
    pub(super) fn peek_at(&self, ahead: usize) -> Token<'a> {
        self.tokens[(self.at + ahead).min(self.tokens.len() - 1)]
    }

    pub(super) fn line(&self) -> u32 {
        self.peek().line
    }

    /// Whether the next token ends an instruction that reads once.
    pub(super) fn is_marked(&self) -> bool {
        self.marked.binary_search(&self.at).is_ok()
    }

    pub(super) fn next(&mut self) -> Token<'a> {
        let token = self.peek();
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        token
    }

    pub(super) fn is(&self, punctuation: &str) -> bool {
        self.is_at(0, punctuation)
    }

    pub(super) fn is_at(&self, ahead: usize, punctuation: &str) -> bool {
        let token = self.peek_at(ahead);
        token.kind == Kind::Punct && token.text == punctuation
    }

    pub(super) fn is_word(&self, word: &str) -> bool {
        let token = self.peek();
        token.kind == Kind::Word && token.text == word
    }

    /// Consumes `punctuation` if it is next.
    pub(super) fn eat(&mut self, punctuation: &str) -> bool {
        let found = self.is(punctuation);
        if found {
            self.next();
        }
        found
    }

    /// Consumes the dotted `word` if it is next.
    pub(super) fn eat_word(&mut self, word: &str) -> bool {
        let found = self.is_word(word);
        if found {
            self.next();
        }
        found
    }

    pub(super) fn expect(&mut self, punctuation: &str) -> Result<()> {
        if self.eat(punctuation) {
            return Ok(());
        }
        Err(self.expected(&format!("`{punctuation}`")))
    }

    pub(super) fn name(&mut self, what: &str) -> Result<String> {
        if self.peek().kind == Kind::Name {
            return Ok(self.next().text.to_owned());
        }
        Err(self.expected(what))
    }

    pub(super) fn text(&mut self) -> Result<String> {
        if self.peek().kind == Kind::Text {
            return Ok(self.next().text.to_owned());
        }
        Err(self.expected("a quoted string"))
    }

    /// `item, item, ..` with at least one item.
    pub(super) fn list<T>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.eat(",") {
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// Runs a grammar rule that may recurse, and limits the depth.
    pub(super) fn nested<T>(&mut self, rule: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth == MAX_DEPTH {
            return Err(self.error(format!("nested more than {MAX_DEPTH} deep")));
        }
        self.depth += 1;
        let result = rule(self);
        self.depth -= 1;
        result
    }

    pub(super) fn error(&self, message: String) -> ParseError {
        let Token { line, column, .. } = self.peek();
        ParseError {
            line,
            column,
            message,
        }
    }

    pub(super) fn expected(&self, what: &str) -> ParseError {
        let token = self.peek();
        match token.kind {
            Kind::End => self.error(format!("expected {what}, found the end of the text")),
            Kind::Text => self.error(format!("expected {what}, found a string")),
            _ => self.error(format!("expected {what}, found `{}`", token.text)),
        }
    }
}

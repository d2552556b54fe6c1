//! Findings that `--ignore` leaves out.

use warpsmith_emulator::{FaultKind, Ignored};

/// The kinds after which a kernel can go on.
const KINDS: [FaultKind; 3] = [
    FaultKind::DataRace,
    FaultKind::Uninitialized,
    FaultKind::UnwrittenRegister,
];

/// A kind of findings, of all lines or one.
#[derive(Clone, Debug)]
pub(super) struct Ignore {
    /// As it was written.
    pub(super) text: String,
    pub(super) ignored: Ignored,
}

/// Reads `KIND` or `KIND:LINE`. The kind is that of a report, with hyphens for spaces.
pub(super) fn parse(text: &str) -> Result<Ignore, String> {
    let name = |kind: FaultKind| kind.name().replace(' ', "-");
    let (word, line) = match text.split_once(':') {
        Some((word, line)) => (word, Some(line)),
        None => (text, None),
    };
    let kind = KINDS.into_iter().find(|kind| name(*kind) == word);
    let kind = kind.ok_or_else(|| {
        let known = KINDS.map(name).join(", ");
        format!("a kernel can go on only after: {known}")
    })?;
    let line = line.map(|line| {
        let number = line.parse().ok().filter(|line| *line > 0);
        number.ok_or_else(|| format!("`{line}` is not a line of a PTX file"))
    });
    Ok(Ignore {
        text: text.to_owned(),
        ignored: Ignored {
            kind,
            line: line.transpose()?,
        },
    })
}

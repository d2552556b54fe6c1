//! Runs a tool so that the error of a failure states the step, the tool, the file and the cause.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::error::{Error, Step};

/// The number of lines of a tool's output that an error contains.
const TAIL_LINES: usize = 40;

/// Runs `command` for `step` on `file` and returns its output; a failure is an [`Error`].
pub(crate) fn run(step: Step, file: &Path, command: &mut Command) -> Result<Output, Error> {
    tracing::debug!(?command, "{step}");
    let tool = Path::new(command.get_program()).to_owned();
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|source| Error::Start {
        step,
        tool: tool.clone(),
        source,
    })?;
    if output.status.success() {
        return Ok(output);
    }
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut cause = tail(&text(&output.stderr));
    if cause.is_empty() {
        cause = tail(&text(&output.stdout));
    }
    let status = output.status.to_string();
    Err(Error::Tool {
        step,
        tool,
        file: file.to_owned(),
        status,
        cause,
    })
}

/// The last lines of `text`.
pub(crate) fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..]
        .join("\n")
        .trim()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_that_is_not_there_is_named() {
        let result = run(
            Step::Link,
            Path::new("a.o"),
            &mut Command::new("no-such-tool-anywhere"),
        );
        let message = result
            .map_err(|error| error.to_string())
            .expect_err("cannot start");
        assert!(
            message.contains("link") && message.contains("no-such-tool-anywhere"),
            "{message}"
        );
    }

    #[test]
    fn the_tail_is_the_end() {
        let text: String = (0..100).map(|line| format!("line {line}\n")).collect();
        assert!(tail(&text).starts_with("line 60\n"));
        assert!(tail(&text).ends_with("line 99"));
    }
}

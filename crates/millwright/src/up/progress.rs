//! The progress that the user sees.

use std::io::{IsTerminal as _, Write as _};

/// The last line of the inner process.
pub(super) const READY: &str = "ready";

/// Prints progress: on a terminal in one line that is overwritten, otherwise line by line.
pub(super) struct ProgressPrinter {
    in_place: bool,
}

impl ProgressPrinter {
    pub(super) fn new() -> Self {
        Self { in_place: std::io::stderr().is_terminal() }
    }

    pub(super) fn print(&mut self, line: &str) {
        let mut out = std::io::stderr();
        // Errors of the output are ignored.
        let _ = if self.in_place { write!(out, "\r\x1b[K{line}") } else { writeln!(out, "{line}") };
        let _ = out.flush();
    }

    /// Clears the line, so that later output starts at its beginning.
    pub(super) fn end(&mut self) {
        if self.in_place {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

/// Returns a bar such as `[####----] 1 of 2 machines ready`.
pub(super) fn bar(ready: usize, all: usize) -> String {
    const WIDTH: usize = 24;
    let full = (WIDTH * ready.min(all)).checked_div(all).unwrap_or(WIDTH);
    format!("[{}{}] {ready} of {all} machines ready", "#".repeat(full), "-".repeat(WIDTH - full))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case(0, 2, "[------------------------] 0 of 2 machines ready")]
    #[case(1, 2, "[############------------] 1 of 2 machines ready")]
    #[case(2, 2, "[########################] 2 of 2 machines ready")]
    #[case(3, 2, "[########################] 3 of 2 machines ready")]
    #[case(0, 0, "[########################] 0 of 0 machines ready")]
    fn bar_is_full_when_all_machines_are_ready(#[case] ready: usize, #[case] all: usize, #[case] expected: &str) {
        assert_eq!(bar(ready, all), expected);
    }
}

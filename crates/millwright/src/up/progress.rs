//! What a person sees while they wait.

use std::io::{IsTerminal as _, Write as _};

/// The last line of the inner half.
pub(super) const READY: &str = "ready";

/// Tells how far things are: on a terminal in one line that changes, else in one line each.
pub(super) struct Teller {
    in_place: bool,
}

impl Teller {
    pub(super) fn new() -> Self {
        Self { in_place: std::io::stderr().is_terminal() }
    }

    pub(super) fn tell(&mut self, line: &str) {
        let mut out = std::io::stderr();
        // Nothing depends on being read.
        let _ = if self.in_place { write!(out, "\r\x1b[K{line}") } else { writeln!(out, "{line}") };
        let _ = out.flush();
    }

    /// What is printed next begins a line of its own.
    pub(super) fn end(&mut self) {
        if self.in_place {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

/// `[####----] 1 of 2 machines ready`.
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
    fn the_bar_is_full_when_all_are_ready(#[case] ready: usize, #[case] all: usize, #[case] told: &str) {
        assert_eq!(bar(ready, all), told);
    }
}

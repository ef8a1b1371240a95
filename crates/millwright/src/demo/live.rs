//! The live view of the demo: draws [`frame`] ten times per second.
//!
//! The view only moves the cursor up to the first line of the previous frame, and writes each frame at once. There is
//! no terminal state to restore when the demo ends, fails or is interrupted.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io::{IsTerminal, Write as _};
use std::sync::Arc;
use std::time::Duration;

use api::Object;
use inspect::tree::Paint;
use parking_lot::Mutex;
use runtime::Clock;

use super::environment::Environment;
use super::frame::{Entry, Line, Size, Snapshot, Style, frame};
use super::printer::Printer;
use crate::cli::{Demo, Output};
use crate::inspect_commands::paint;
use crate::{print, ui};

/// Interval between two frames.
const INTERVAL: Duration = Duration::from_millis(100);
/// Number of entries that are kept. More than any terminal is high.
const MAX_ENTRIES: usize = 200;
/// Size of a terminal that does not report its size.
const DEFAULT_SIZE: Size = Size { columns: 80, rows: 24 };
/// Minimum size of the terminal. On a smaller terminal, lines are printed instead.
const MIN_SIZE: Size = Size { columns: 40, rows: 12 };

/// The live view. Clones share their state.
#[derive(Clone)]
pub(super) struct Live {
    paint: Paint,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// Start time and title of each step.
    steps: Vec<(f64, String)>,
    entries: Vec<Entry>,
    /// Number of lines of the frame on the terminal.
    drawn: usize,
}

impl Live {
    /// Returns a live view if stdout is a suitable terminal and no options exclude it. A log on stderr would be mixed
    /// into the view.
    pub(super) fn wanted(options: &Demo) -> Option<Self> {
        let lines = options.plain || options.output != Output::Text || options.verbosity.is_some();
        let shown = !lines && std::io::stdout().is_terminal() && moves_the_cursor();
        let size = size();
        (shown && size.columns >= MIN_SIZE.columns && size.rows >= MIN_SIZE.rows)
            .then(|| Self { paint: paint(), state: Arc::default() })
    }

    pub(super) fn step(&self, seconds: f64, text: &str) {
        self.state.lock().steps.push((seconds, text.to_owned()));
    }

    pub(super) fn add(&self, entry: Entry) {
        let entries = &mut self.state.lock().entries;
        entries.push(entry);
        let excess = entries.len().saturating_sub(MAX_ENTRIES);
        entries.drain(..excess);
    }

    /// Draws the current frame over the previous one.
    pub(super) fn draw(&self, environment: &Environment, printer: &Printer) {
        let machines = environment.cluster.machines().list();
        let operation = |machine: &Arc<api::Machine>| machine.status.last_operation.description.clone();
        let operations: BTreeMap<String, String> =
            machines.iter().map(|machine| (machine.name().to_owned(), operation(machine))).collect();
        let mut state = self.state.lock();
        let snapshot = Snapshot {
            seconds: printer.elapsed().as_secs_f64(),
            step: state.steps.last().map(|(_, step)| step.as_str()).unwrap_or_default(),
            picture: &ui::picture(&environment.cluster, &Clock::system()),
            operations: &operations,
            entries: &state.entries,
        };
        let lines = frame(&snapshot, size());
        let mut stdout = std::io::stdout();
        let _ignored = stdout.write_all(over(state.drawn, &lines, self.paint).as_bytes());
        let _ignored = stdout.flush();
        state.drawn = lines.len();
    }

    /// Draws until the future is dropped.
    pub(super) async fn draw_continuously(&self, environment: &Environment, printer: &Printer) -> Infallible {
        loop {
            self.draw(environment, printer);
            tokio::time::sleep(INTERVAL).await;
        }
    }

    /// Prints a summary, because the first entries are no longer visible.
    pub(super) fn summarize(&self, seconds: f64) {
        print::line("\nSummary:");
        for line in summary(&self.state.lock().steps, seconds) {
            print::line(line);
        }
    }
}

/// Returns each step with its duration.
fn summary(steps: &[(f64, String)], end: f64) -> Vec<String> {
    let ends = steps.iter().skip(1).map(|(begin, _)| *begin).chain([end]);
    steps.iter().zip(ends).map(|((begin, step), end)| format!("  {:5.1} s  {step}", end - begin)).collect()
}

/// Returns the text that draws the lines over a previous frame of this height. It ends with a line break, reason
/// stdout splits a write after the last line break.
fn over(before: usize, lines: &[Line], paint: Paint) -> String {
    let up = if before == 0 { String::new() } else { format!("\x1b[{before}A\r") };
    let lines: Vec<String> = lines.iter().map(|line| painted(line, paint)).collect();
    // Clears the rest of each line and everything below the last line. Clearing all at first would flicker.
    let text = lines.join("\x1b[K\n");
    let end = if lines.is_empty() { "\x1b[J" } else { "\x1b[J\n" };
    format!("{up}{text}{end}")
}

fn painted(line: &Line, paint: Paint) -> String {
    match (paint, line.style) {
        (Paint::Ansi, Style::Heading) => format!("\x1b[1m{}\x1b[0m", line.text),
        (Paint::Ansi, Style::Reason) => format!("\x1b[2m{}\x1b[0m", line.text),
        (Paint::Plain, _) | (_, Style::Plain) => line.text.clone(),
    }
}

/// Returns the current size of the terminal.
fn size() -> Size {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok();
    size.filter(|size| size.ws_col > 0 && size.ws_row > 0)
        .map_or(DEFAULT_SIZE, |size| Size { columns: size.ws_col.into(), rows: size.ws_row.into() })
}

#[allow(clippy::disallowed_methods, reason = "the binary is where the environment is read")]
fn moves_the_cursor() -> bool {
    std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

#[cfg(test)]
mod tests {
    use super::super::frame::MILLWRIGHT;
    use super::*;
    use rstest::rstest;

    fn lines() -> Vec<Line> {
        let line = |style, text: &str| Line { style, text: text.to_owned() };
        vec![line(Style::Heading, "step"), line(Style::Plain, "pool"), line(Style::Reason, "reason")]
    }

    /// Shows OPR-16.
    #[rstest]
    #[case::first_frame(0, Paint::Plain, "step\x1b[K\npool\x1b[K\nreason\x1b[J\n")]
    #[case::over_a_higher_frame(5, Paint::Plain, "\x1b[5A\rstep\x1b[K\npool\x1b[K\nreason\x1b[J\n")]
    #[case::with_colours(3, Paint::Ansi, "\x1b[3A\r\x1b[1mstep\x1b[0m\x1b[K\npool\x1b[K\n\x1b[2mreason\x1b[0m\x1b[J\n")]
    fn frame_is_drawn_over_the_previous_one(#[case] before: usize, #[case] paint: Paint, #[case] expected: &str) {
        assert_eq!(over(before, &lines(), paint), expected);
    }

    #[test]
    fn summary_shows_the_duration_of_each_step() {
        let steps = [(0.5, "create a pool".to_owned()), (2.0, "scale the pool".to_owned())];
        assert_eq!(summary(&steps, 6.25), ["    1.5 s  create a pool", "    4.2 s  scale the pool"]);
        assert!(summary(&[], 1.0).is_empty());
    }

    #[test]
    fn number_of_entries_is_limited() {
        let live = Live { paint: Paint::Plain, state: Arc::default() };
        for number in 0..MAX_ENTRIES + 5 {
            live.add(Entry { seconds: 0.0, actor: MILLWRIGHT, action: number.to_string(), reason: None });
        }
        let entries = &live.state.lock().entries;
        assert_eq!((entries.len(), entries.first().map(|entry| entry.action.as_str())), (MAX_ENTRIES, Some("5")));
    }
}

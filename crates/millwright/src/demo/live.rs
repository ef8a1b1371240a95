//! The demo for somebody who looks: what [`frame`] shows, drawn over ten times a second.
//!
//! Of the terminal only the cursor is moved, up to the first line of the frame before, and each frame is one write: there is nothing to restore, whether the
//! demo ends, fails or is interrupted.

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
use super::frame::{Line, Scene, Size, Style, Told, frame};
use super::printer::Printer;
use crate::cli::{Demo, Output};
use crate::operator::paint;
use crate::{print, ui};

/// How often it is drawn.
const EVERY: Duration = Duration::from_millis(100);
/// How much of what happened is remembered: more than any terminal is high.
const REMEMBERED: usize = 200;
/// A terminal that does not say how large it is.
const USUAL: Size = Size { columns: 80, rows: 24 };
/// On less there is no room for machines and reasons, and lines serve better.
const LEAST: Size = Size { columns: 40, rows: 12 };

/// What is in sight. Clones are the same.
#[derive(Clone)]
pub(super) struct Live {
    paint: Paint,
    inside: Arc<Mutex<Inside>>,
}

#[derive(Default)]
struct Inside {
    /// When each act began, and its name.
    acts: Vec<(f64, String)>,
    told: Vec<Told>,
    /// How many lines the frame on the terminal has.
    drawn: usize,
}

impl Live {
    /// A live view, if stdout is a terminal that can show one and nobody has asked for lines. A log on stderr would be written into it.
    pub(super) fn wanted(options: &Demo) -> Option<Self> {
        let lines = options.plain || options.output != Output::Text || options.verbosity.is_some();
        let shown = !lines && std::io::stdout().is_terminal() && moves_the_cursor();
        let size = size();
        (shown && size.columns >= LEAST.columns && size.rows >= LEAST.rows)
            .then(|| Self { paint: paint(), inside: Arc::default() })
    }

    pub(super) fn act(&self, seconds: f64, text: &str) {
        self.inside.lock().acts.push((seconds, text.to_owned()));
    }

    pub(super) fn tell(&self, told: Told) {
        let told_before = &mut self.inside.lock().told;
        told_before.push(told);
        let too_many = told_before.len().saturating_sub(REMEMBERED);
        told_before.drain(..too_many);
    }

    /// Draws what there is now, over what was drawn before.
    pub(super) fn draw(&self, environment: &Environment, printer: &Printer) {
        let machines = environment.cluster.machines().list();
        let operation = |machine: &Arc<api::Machine>| machine.status.last_operation.description.clone();
        let operations: BTreeMap<String, String> =
            machines.iter().map(|machine| (machine.name().to_owned(), operation(machine))).collect();
        let mut inside = self.inside.lock();
        let scene = Scene {
            seconds: printer.elapsed().as_secs_f64(),
            act: inside.acts.last().map(|(_, act)| act.as_str()).unwrap_or_default(),
            picture: &ui::picture(&environment.cluster, &Clock::system()),
            operations: &operations,
            told: &inside.told,
        };
        let lines = frame(&scene, size());
        let mut stdout = std::io::stdout();
        let _unread = stdout.write_all(over(inside.drawn, &lines, self.paint).as_bytes());
        let _unread = stdout.flush();
        inside.drawn = lines.len();
    }

    /// Draws again and again until it is dropped.
    pub(super) async fn keep_drawing(&self, environment: &Environment, printer: &Printer) -> Infallible {
        loop {
            self.draw(environment, printer);
            tokio::time::sleep(EVERY).await;
        }
    }

    /// Prints what happened, as what was told first is no longer in sight.
    pub(super) fn summarize(&self, seconds: f64) {
        print::line("\nWhat happened:");
        for line in summary(&self.inside.lock().acts, seconds) {
            print::line(line);
        }
    }
}

/// Each act with how long it took.
fn summary(acts: &[(f64, String)], end: f64) -> Vec<String> {
    let ends = acts.iter().skip(1).map(|(begin, _)| *begin).chain([end]);
    acts.iter().zip(ends).map(|((begin, act), end)| format!("  {:5.1} s  {act}", end - begin)).collect()
}

/// What to write so that these lines stand where so many lines were written before. It ends with the line, because stdout splits a write behind the last one.
fn over(before: usize, lines: &[Line], paint: Paint) -> String {
    let up = if before == 0 { String::new() } else { format!("\x1b[{before}A\r") };
    let lines: Vec<String> = lines.iter().map(|line| painted(line, paint)).collect();
    // What was longer before is cleared behind each line and below the last one, not all of it at first, which would flicker.
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

/// How large the terminal is now.
fn size() -> Size {
    let told = rustix::termios::tcgetwinsize(std::io::stdout()).ok();
    told.filter(|size| size.ws_col > 0 && size.ws_row > 0)
        .map_or(USUAL, |size| Size { columns: size.ws_col.into(), rows: size.ws_row.into() })
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
        vec![line(Style::Heading, "act"), line(Style::Plain, "pool"), line(Style::Reason, "because")]
    }

    /// Shows OPR-16.
    #[rstest]
    #[case::the_first(0, Paint::Plain, "act\x1b[K\npool\x1b[K\nbecause\x1b[J\n")]
    #[case::over_one_that_was_higher(5, Paint::Plain, "\x1b[5A\ract\x1b[K\npool\x1b[K\nbecause\x1b[J\n")]
    #[case::in_colours(3, Paint::Ansi, "\x1b[3A\r\x1b[1mact\x1b[0m\x1b[K\npool\x1b[K\n\x1b[2mbecause\x1b[0m\x1b[J\n")]
    fn a_frame_is_drawn_over_the_one_before(#[case] before: usize, #[case] paint: Paint, #[case] expected: &str) {
        assert_eq!(over(before, &lines(), paint), expected);
    }

    #[test]
    fn the_summary_says_how_long_each_act_took() {
        let acts = [(0.5, "three come up".to_owned()), (2.0, "six are wanted".to_owned())];
        assert_eq!(summary(&acts, 6.25), ["    1.5 s  three come up", "    4.2 s  six are wanted"]);
        assert!(summary(&[], 1.0).is_empty());
    }

    #[test]
    fn what_is_remembered_has_an_end() {
        let live = Live { paint: Paint::Plain, inside: Arc::default() };
        for number in 0..REMEMBERED + 5 {
            live.tell(Told { seconds: 0.0, who: MILLWRIGHT, what: number.to_string(), because: None });
        }
        let told = &live.inside.lock().told;
        assert_eq!((told.len(), told.first().map(|told| told.what.as_str())), (REMEMBERED, Some("5")));
    }
}

//! The first thing a newcomer runs.

use std::io::{BufRead, BufReader};
use std::process::{Command, ExitStatus, Stdio};

use serde_json::Value;

use crate::program::{run, text};
use crate::terminal::{on_a_terminal, without_escapes};

/// Shows THR-1, OPR-16.
#[test]
fn the_demo_tells_the_story_of_a_pool_and_exits_zero() {
    let output = run(&["demo"]);
    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}{}", text(&output.stderr));
    for line in [
        "three machines run",
        "six machines run",
        "six machines of class v2 run",
        "it is replaced",
        "machines, VMs and nodes are gone",
        "Everything went as promised",
    ] {
        assert!(said.contains(line), "{line:?} is missing in:\n{said}");
    }
    assert!(!said.contains("BROKEN"));
    assert!(!said.contains('\x1b') && !said.contains("What happened:"), "a pipe gets lines and nothing else:\n{said}");
}

/// Shows OPR-16.
#[test]
#[allow(clippy::print_stderr, reason = "what is skipped is said")]
fn on_a_terminal_the_demo_is_a_live_view_with_a_summary() {
    let Some((success, shown)) = on_a_terminal(100, 30, "demo") else {
        eprintln!("skipped: there is no `script` (util-linux), so there is no terminal");
        return;
    };
    assert!(success, "{shown}");
    let (live, summary) = shown.split_once("What happened:").unwrap();
    for part in ["roll-out: 3 of 6 new run", "[##.] Pending", "[#..] Terminating", "\x1b[2m         because "] {
        assert!(live.contains(part), "{part:?} is missing in:\n{live}");
    }
    for part in ["s  a node dies", "What was promised:", "Everything went as promised"] {
        assert!(summary.contains(part), "{part:?} is missing in:\n{summary}");
    }
    let lines: Vec<String> = live.split(['\n', '\r']).map(without_escapes).collect();
    assert!(lines.iter().all(|line| line.chars().count() <= 100), "{lines:#?}");
    let frames = live.matches("\x1b[J").count();
    let took = summary.rsplit_once("promised, in ").and_then(|(_, end)| end.split_once(" s.")).unwrap().0;
    let whole_seconds: usize = took.split('.').next().unwrap().parse().unwrap();
    assert!((20..=10 * (whole_seconds + 1) + 2).contains(&frames), "{frames} frames in {took} s");
    assert!(!shown.contains("\x1b[?"), "a mode of the terminal would have to be restored when it is interrupted");
}

/// Shows OPR-16.
#[test]
#[allow(clippy::print_stderr, reason = "what is skipped is said")]
fn on_a_terminal_too_lines_are_printed_for_whoever_asks_or_has_no_room() {
    for (columns, flags) in [(100, "--plain"), (30, "")] {
        let Some((success, shown)) = on_a_terminal(columns, 30, &format!("demo {flags}")) else {
            eprintln!("skipped: there is no `script` (util-linux), so there is no terminal");
            return;
        };
        assert!(success && !shown.contains('\x1b') && shown.contains("--- a node dies"), "{columns} {flags}: {shown}");
    }
}

#[test]
fn the_demo_speaks_json_to_programs() {
    let output = run(&["demo", "-o", "json"]);
    let lines: Vec<Value> = text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.iter().any(|line| line["who"] == "millwright" && line["because"].is_string()));
    assert_eq!(lines.last().unwrap()["end"]["kept"], true);
}

/// `millwright … | head -1`: the first line is read and then nobody listens any more. What the program has to say to that on stderr.
fn heard_to_the_first_line(arguments: &[&str]) -> (ExitStatus, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_millwright"));
    let mut child = command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = String::new();
    BufReader::with_capacity(1, child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert!(!first.is_empty());
    let output = child.wait_with_output().unwrap();
    (output.status, text(&output.stderr))
}

/// Shows FLG-13.
#[test]
fn the_demo_does_not_mind_a_reader_who_leaves_after_the_first_line() {
    let (status, said) = heard_to_the_first_line(&["demo"]);
    assert!(status.success() && said.is_empty(), "{status}: {said}");
}

/// Shows FLG-13.
#[test]
fn the_definitions_do_not_mind_a_reader_who_leaves_after_the_first_line() {
    let (status, said) = heard_to_the_first_line(&["crds"]);
    assert!(status.success() && said.is_empty(), "{status}: {said}");
}

#[test]
fn the_definitions_can_be_printed() {
    let said = text(&run(&["crds"]).stdout);
    assert_eq!(said.matches("kind: CustomResourceDefinition").count(), 4, "{said}");
}

//! Tests of `millwright demo` and of output into a closed pipe.

use std::io::{BufRead, BufReader};
use std::process::{Command, ExitStatus, Stdio};

use serde_json::Value;

use crate::program::{run, text};
use crate::terminal::{on_a_terminal, without_escapes};

/// Shows THR-1, OPR-16.
#[test]
fn demo_prints_the_lifecycle_of_a_pool_and_succeeds() {
    let output = run(&["demo"]);
    let printed = text(&output.stdout);
    assert!(output.status.success(), "{printed}{}", text(&output.stderr));
    for line in [
        "three machines are Running",
        "six machines are Running",
        "six machines of class v2 are Running",
        "the machine is replaced",
        "all machines, VMs and nodes are deleted",
        "All checks passed",
    ] {
        assert!(printed.contains(line), "{line:?} is missing in:\n{printed}");
    }
    assert!(!printed.contains("FAIL"));
    assert!(!printed.contains('\x1b') && !printed.contains("Summary:"), "a pipe receives plain lines:\n{printed}");
}

/// Shows OPR-16.
#[test]
#[allow(clippy::print_stderr, reason = "skipped tests are reported")]
fn demo_shows_a_live_view_on_a_terminal() {
    let Some((success, shown)) = on_a_terminal(100, 30, "demo") else {
        eprintln!("skipped: there is no `script` (util-linux), so there is no terminal");
        return;
    };
    assert!(success, "{shown}");
    let (live, summary) = shown.split_once("Summary:").unwrap();
    for part in ["rollout: 3 of 6 new Running", "[##.] Pending", "[#..] Terminating", "\x1b[2m         reason: "] {
        assert!(live.contains(part), "{part:?} is missing in:\n{live}");
    }
    for part in ["s  a node fails", "Checks:", "All checks passed"] {
        assert!(summary.contains(part), "{part:?} is missing in:\n{summary}");
    }
    let lines: Vec<String> = live.split(['\n', '\r']).map(without_escapes).collect();
    assert!(lines.iter().all(|line| line.chars().count() <= 100), "{lines:#?}");
    let frames = live.matches("\x1b[J").count();
    let took = summary.rsplit_once("passed in ").and_then(|(_, end)| end.split_once(" s.")).unwrap().0;
    let whole_seconds: usize = took.split('.').next().unwrap().parse().unwrap();
    assert!((20..=10 * (whole_seconds + 1) + 2).contains(&frames), "{frames} frames in {took} s");
    assert!(!shown.contains("\x1b[?"), "a terminal mode would have to be restored after an interrupt");
}

/// Shows OPR-16.
#[test]
#[allow(clippy::print_stderr, reason = "skipped tests are reported")]
fn demo_prints_lines_with_plain_or_on_a_small_terminal() {
    for (columns, flags) in [(100, "--plain"), (30, "")] {
        let Some((success, shown)) = on_a_terminal(columns, 30, &format!("demo {flags}")) else {
            eprintln!("skipped: there is no `script` (util-linux), so there is no terminal");
            return;
        };
        assert!(success && !shown.contains('\x1b') && shown.contains("--- a node fails"), "{columns} {flags}: {shown}");
    }
}

#[test]
fn demo_prints_json() {
    let output = run(&["demo", "-o", "json"]);
    let lines: Vec<Value> = text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.iter().any(|line| line["who"] == "millwright" && line["because"].is_string()));
    assert_eq!(lines.last().unwrap()["end"]["kept"], true);
}

/// Runs the program, reads its first line and closes the pipe, as `millwright … | head -1` does. Returns its exit
/// status and stderr.
fn run_until_first_line(arguments: &[&str]) -> (ExitStatus, String) {
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
fn demo_continues_after_its_output_is_closed() {
    let (status, printed) = run_until_first_line(&["demo"]);
    assert!(status.success() && printed.is_empty(), "{status}: {printed}");
}

/// Shows FLG-13.
#[test]
fn crds_succeeds_after_its_output_is_closed() {
    let (status, printed) = run_until_first_line(&["crds"]);
    assert!(status.success() && printed.is_empty(), "{status}: {printed}");
}

#[test]
fn crds_prints_the_four_crds() {
    let printed = text(&run(&["crds"]).stdout);
    assert_eq!(printed.matches("kind: CustomResourceDefinition").count(), 4, "{printed}");
}

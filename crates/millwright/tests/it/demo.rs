//! The first thing a newcomer runs.

use std::io::{BufRead, BufReader};
use std::process::{Command, ExitStatus, Stdio};

use serde_json::Value;

use crate::program::{run, text};

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

#[test]
fn the_demo_does_not_mind_a_reader_who_leaves_after_the_first_line() {
    let (status, said) = heard_to_the_first_line(&["demo"]);
    assert!(status.success() && said.is_empty(), "{status}: {said}");
}

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

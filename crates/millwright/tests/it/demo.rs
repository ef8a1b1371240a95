//! The first thing a newcomer runs.

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

#[test]
fn the_definitions_can_be_printed() {
    let said = text(&run(&["crds"]).stdout);
    assert_eq!(said.matches("kind: CustomResourceDefinition").count(), 4, "{said}");
}

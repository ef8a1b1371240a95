//! Tests the example of a driver program.

use std::process::Command;

#[test]
fn driver_program_needs_no_driver_endpoint_flag() {
    // Cargo builds examples for tests but provides no variable with their path: two directories above, beside `deps`.
    let test = std::env::current_exe().unwrap();
    let program = test.ancestors().nth(2).unwrap().join("examples/provider");
    let output = Command::new(program).args(["machine-controller", "--target-kubeconfig=/none"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("/none") && !said.contains("--driver-endpoint"), "the kubeconfig is the first error: {said}");
}

#[test]
fn documentation_shows_the_example_program_unchanged() {
    let page = include_str!("../../../../docs/tasks/write-a-driver.md");
    let program = include_str!("../../examples/provider.rs");
    let code = program.find("use std").map(|begin| &program[begin..]).unwrap();
    assert!(
        page.contains(&format!("```rust\n{code}```\n")),
        "docs/tasks/write-a-driver.md does not show examples/provider.rs"
    );
}

//! The program starts.

#![allow(clippy::unwrap_used, reason = "a test may die of what it did not expect")]

use std::process::Command;

#[test]
fn the_program_of_aws_needs_no_flag_that_names_the_driver() {
    let program = env!("CARGO_BIN_EXE_millwright-driver-aws");
    let output = Command::new(program).args(["machine-controller", "--target-kubeconfig=/none"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("/none") && !said.contains("--driver-endpoint"), "it got as far as the kubeconfig: {said}");
}

//! The example of a driver's own program.

use std::process::Command;

#[test]
fn the_program_of_a_driver_needs_no_flag_that_names_the_driver() {
    // Cargo compiles examples for tests, and has no variable that says where: two folders above, beside `deps`.
    let test = std::env::current_exe().unwrap();
    let program = test.ancestors().nth(2).unwrap().join("examples/provider");
    let output = Command::new(program).args(["machine-controller", "--target-kubeconfig=/none"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("/none") && !said.contains("--driver-endpoint"), "it got as far as the kubeconfig: {said}");
}

#[test]
fn the_page_of_drivers_shows_the_program_as_it_is() {
    let page = include_str!("../../../../docs/tasks/write-a-driver.md");
    let program = include_str!("../../examples/provider.rs");
    let code = program.find("use std").map(|begin| &program[begin..]).unwrap();
    assert!(page.contains(&format!("```rust\n{code}```\n")), "docs/tasks/write-a-driver.md does not show examples/provider.rs");
}

use std::process::Command;

/// What the program says to these arguments, and how it ends.
fn said(arguments: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_millwright-driver-openstack")).args(arguments).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn the_driver_of_openstack_says_which_version_it_is_and_what_it_needs() {
    let (code, version) = said(&["--version"]);
    let expected = concat!("millwright-driver-openstack ", env!("CARGO_PKG_VERSION"), " (");
    assert!(code == Some(0) && version.starts_with(expected), "{version}");
    let (code, bare) = said(&[]);
    assert!(code == Some(2) && bare.contains("--listen"), "{bare}");
    let (code, nobody) = said(&["--probe=unix:/none/driver.sock"]);
    assert!(code == Some(1) && nobody.contains("/none/driver.sock"), "{nobody}");
}

#[test]
fn the_program_of_openstack_needs_no_flag_that_names_the_driver() {
    let (code, text) = said(&["machine-controller", "--target-kubeconfig=/none"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("/none") && !text.contains("--driver-endpoint"), "it got as far as the kubeconfig: {text}");
}

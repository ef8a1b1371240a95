use std::process::Command;

/// Returns the exit code and the output of the program.
fn said(arguments: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_millwright-driver-openstack")).args(arguments).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn openstack_driver_prints_its_version_and_requires_listen() {
    let (code, version) = said(&["--version"]);
    let expected = concat!("millwright-driver-openstack ", env!("CARGO_PKG_VERSION"), " (");
    assert!(code == Some(0) && version.starts_with(expected), "{version}");
    let (code, bare) = said(&[]);
    assert!(code == Some(2) && bare.contains("--listen"), "{bare}");
    let (code, nobody) = said(&["--probe=unix:/none/driver.sock"]);
    assert!(code == Some(1) && nobody.contains("/none/driver.sock"), "{nobody}");
}

#[test]
fn openstack_program_needs_no_driver_endpoint_flag() {
    let (code, text) = said(&["machine-controller", "--target-kubeconfig=/none"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("/none") && !text.contains("--driver-endpoint"), "the kubeconfig is the first error: {text}");
}

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Output, Stdio};

fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_millwright-driver-aws"));
    command.args(arguments);
    command
}

fn run(arguments: &[&str]) -> Output {
    program(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A child process that is killed when it is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Shows AWS-25.
#[test]
fn aws_driver_answers_probes_on_its_socket_until_sigterm() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("driver.sock");
    let (listen, probe) = (format!("--listen=unix:{}", socket.display()), format!("--probe=unix:{}", socket.display()));
    let nobody = run(&[&probe]);
    assert_eq!(nobody.status.code(), Some(1));
    assert!(text(&nobody.stderr).contains(&socket.display().to_string()), "{}", text(&nobody.stderr));

    let mut running = Running(program(&[&listen]).stderr(Stdio::piped()).spawn().unwrap());
    let mut log = BufReader::new(running.0.stderr.take().unwrap()).lines();
    assert!(
        log.any(|line| line.is_ok_and(|line| line.contains("listening for controllers"))),
        "the process exited before it listened"
    );
    assert_eq!(socket.metadata().unwrap().permissions().mode() & 0o777, 0o600, "accessible only to its user");
    assert!(run(&[&probe]).status.success());
    let second = run(&[&listen]);
    assert!(text(&second.stderr).contains("another process already does"), "{}", text(&second.stderr));

    let asked = Command::new("kill").arg(running.0.id().to_string()).status().unwrap();
    assert!(asked.success());
    assert_eq!(log.map_while(Result::ok).filter(|line| line.contains("ERROR")).count(), 0);
    assert!(running.0.wait().unwrap().success());
    assert!(!socket.exists(), "the socket is removed");
}

/// Shows AWS-25.
#[test]
fn aws_driver_prints_its_version_and_requires_listen() {
    let version = text(&run(&["--version"]).stdout);
    let expected = concat!("millwright-driver-aws ", env!("CARGO_PKG_VERSION"), " (");
    assert!(version.starts_with(expected), "{version}");
    let bare = run(&[]);
    assert_eq!(bare.status.code(), Some(2));
    assert!(text(&bare.stderr).contains("--listen"), "{}", text(&bare.stderr));
}

/// Shows AWS-25.
#[test]
fn aws_program_needs_no_driver_endpoint_flag() {
    let output = run(&["machine-controller", "--target-kubeconfig=/none"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("/none") && !said.contains("--driver-endpoint"), "the kubeconfig is the first error: {said}");
}

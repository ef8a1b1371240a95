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

/// Ended with the test, whatever happens in it.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Shows AWS-25.
#[test]
fn the_driver_of_aws_answers_probes_on_a_socket_of_its_own_until_it_is_asked_to_end() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("driver.sock");
    let (listen, probe) = (format!("--listen=unix:{}", socket.display()), format!("--probe=unix:{}", socket.display()));
    let nobody = run(&[&probe]);
    assert_eq!(nobody.status.code(), Some(1));
    assert!(text(&nobody.stderr).contains(&socket.display().to_string()), "{}", text(&nobody.stderr));

    let mut running = Running(program(&[&listen]).stderr(Stdio::piped()).spawn().unwrap());
    let mut log = BufReader::new(running.0.stderr.take().unwrap()).lines();
    assert!(log.any(|line| line.is_ok_and(|line| line.contains("listening for controllers"))), "it ended before it listened");
    assert_eq!(socket.metadata().unwrap().permissions().mode() & 0o777, 0o600, "open to its user alone");
    assert!(run(&[&probe]).status.success());
    let second = run(&[&listen]);
    assert!(text(&second.stderr).contains("another process already does"), "{}", text(&second.stderr));

    let asked = Command::new("kill").arg(running.0.id().to_string()).status().unwrap();
    assert!(asked.success());
    assert_eq!(log.map_while(Result::ok).filter(|line| line.contains("ERROR")).count(), 0);
    assert!(running.0.wait().unwrap().success());
    assert!(!socket.exists(), "nothing is left behind");
}

/// Shows AWS-25.
#[test]
fn the_driver_of_aws_says_which_version_it_is_and_what_it_needs() {
    let version = text(&run(&["--version"]).stdout);
    let expected = concat!("millwright-driver-aws ", env!("CARGO_PKG_VERSION"), " (");
    assert!(version.starts_with(expected), "{version}");
    let bare = run(&[]);
    assert_eq!(bare.status.code(), Some(2));
    assert!(text(&bare.stderr).contains("--listen"), "{}", text(&bare.stderr));
}

/// Shows AWS-25.
#[test]
fn the_program_of_aws_needs_no_flag_that_names_the_driver() {
    let output = run(&["machine-controller", "--target-kubeconfig=/none"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("/none") && !said.contains("--driver-endpoint"), "it got as far as the kubeconfig: {said}");
}

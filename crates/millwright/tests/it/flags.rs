//! The command line of the real binary: its names, its exit codes, and where it says what.

use std::os::unix::fs::symlink;
use std::process::{Command, Output};

use rstest::rstest;
use tempfile::TempDir;

use crate::program::{run, text};

/// Runs the binary under another name.
fn called(name: &str, arguments: &[&str]) -> Output {
    let folder = TempDir::new().unwrap();
    symlink(env!("CARGO_BIN_EXE_millwright"), folder.path().join(name)).unwrap();
    Command::new(format!("./{name}")).current_dir(&folder).args(arguments).output().unwrap()
}

/// Shows FLG-3.
#[rstest]
#[case("machine-controller-manager", "--safety-up", "--machine-drain-timeout")]
#[case("machine-controller", "--machine-drain-timeout", "--safety-up")]
fn a_symlink_with_a_name_of_the_reference_is_that_process(
    #[case] name: &str,
    #[case] own: &str,
    #[case] of_the_other: &str,
) {
    let help = called(name, &["--help"]);
    assert_eq!(help.status.code(), Some(0));
    let said = text(&help.stdout);
    assert!(said.contains(&format!("Usage: {name} ")) && said.contains(own) && !said.contains(of_the_other), "{said}");

    let unknown = called(name, &[&format!("{of_the_other}=1")]);
    assert_eq!(unknown.status.code(), Some(2), "a flag of the other process is unknown to it");
    assert!(text(&unknown.stderr).contains(&format!("Usage: {name} ")), "{}", text(&unknown.stderr));
}

/// Shows FLG-6.
#[test]
fn a_flag_that_cannot_be_read_is_told_with_usage_and_exit_code_two() {
    for flags in [["--port=http"], ["--nonsense"], ["-port=1"], ["--machine-safety-overshooting-period=1"]] {
        let output = called("machine-controller-manager", &flags);
        assert_eq!(output.status.code(), Some(2));
        let said = text(&output.stderr);
        assert!(said.contains("Usage: machine-controller-manager"), "{said}");
    }
}

/// Shows FLG-7.
#[test]
fn flags_that_make_no_sense_are_told_together_with_exit_code_one() {
    let output = run(&["machine-controller", "--port=0", "--machine-drain-timeout=-1s", "--contention-profiling"]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    for flag in ["--port", "--machine-drain-timeout", "--contention-profiling"] {
        assert!(said.contains(flag), "{said}");
    }
}

/// Shows FLG-8.
#[test]
fn a_flag_without_effect_says_so_once_and_verbosity_two_lists_them_all() {
    let flags =
        ["--control-kubeconfig=/none", "--cloud-provider=aws", "--min_resync_period", "1h", "--target-kubeconfig=none"];
    let quiet = text(&run(&[&["manager"], &flags[..]].concat()).stderr);
    assert_eq!(quiet.matches("--cloud-provider has no effect").count(), 1, "{quiet}");
    assert_eq!(quiet.matches("--min-resync-period has no effect").count(), 1, "{quiet}");
    assert_eq!(quiet.matches("has no effect").count(), 2, "only those that were given: {quiet}");
    assert!(!quiet.contains("FLAG:"), "{quiet}");

    let verbose = text(&run(&[&["manager", "-v", "3"], &flags[..]].concat()).stderr);
    for line in [
        r#"FLAG: --min-resync-period="1h0m0s""#,
        r#"FLAG: --port="10258""#,
        r#"FLAG: --leader-elect="true""#,
        "Version: ",
    ] {
        assert!(verbose.contains(line), "{line} is missing: {verbose}");
    }
    let controller =
        text(&run(&[&["machine-controller", "--provider=virtual", "-v", "3"], &flags[..]].concat()).stderr);
    assert!(controller.contains("FLAG: --port=\"10259\"") && !controller.contains("Version: "), "{controller}");
}

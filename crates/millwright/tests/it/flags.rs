//! Tests of the command line of the binary: program names, exit codes and messages.

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
fn symlink_with_a_program_name_of_mcm_selects_its_command(
    #[case] name: &str,
    #[case] own: &str,
    #[case] of_other: &str,
) {
    let help = called(name, &["--help"]);
    assert_eq!(help.status.code(), Some(0));
    let printed = text(&help.stdout);
    assert!(
        printed.contains(&format!("Usage: {name} ")) && printed.contains(own) && !printed.contains(of_other),
        "{printed}"
    );

    let unknown = called(name, &[&format!("{of_other}=1")]);
    assert_eq!(unknown.status.code(), Some(2), "a flag of the other process is unknown");
    assert!(text(&unknown.stderr).contains(&format!("Usage: {name} ")), "{}", text(&unknown.stderr));
}

/// Shows FLG-6.
#[test]
fn unreadable_flag_prints_usage_and_exits_with_two() {
    for flags in [["--port=http"], ["--nonsense"], ["-port=1"], ["--machine-safety-overshooting-period=1"]] {
        let output = called("machine-controller-manager", &flags);
        assert_eq!(output.status.code(), Some(2));
        let printed = text(&output.stderr);
        assert!(printed.contains("Usage: machine-controller-manager"), "{printed}");
    }
}

/// Shows FLG-7.
#[test]
fn invalid_flags_are_reported_together_and_exit_with_one() {
    let output = run(&["machine-controller", "--port=0", "--machine-drain-timeout=-1s", "--contention-profiling"]);
    assert_eq!(output.status.code(), Some(1));
    let printed = text(&output.stderr);
    for flag in ["--port", "--machine-drain-timeout", "--contention-profiling"] {
        assert!(printed.contains(flag), "{printed}");
    }
}

/// Shows FLG-8.
#[test]
fn flags_without_effect_log_one_warning_each() {
    let flags =
        ["--control-kubeconfig=/none", "--cloud-provider=aws", "--min_resync_period", "1h", "--target-kubeconfig=none"];
    let quiet = text(&run(&[&["manager"], &flags[..]].concat()).stderr);
    assert_eq!(quiet.matches("--cloud-provider has no effect").count(), 1, "{quiet}");
    assert_eq!(quiet.matches("--min-resync-period has no effect").count(), 1, "{quiet}");
    assert_eq!(quiet.matches("has no effect").count(), 2, "only given flags: {quiet}");
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

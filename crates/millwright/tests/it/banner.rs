//! Tests of the banner of `millwright dev`, on a terminal and into a pipe.

use crate::program::Program;
use crate::terminal::same_as;

const LAST_LINE: &str = "Decisions of Millwright:";

/// Returns the banner without what differs between runs.
fn normalized(lines: &[String]) -> String {
    let ports = |line: &str| {
        let mut pieces = line.split("127.0.0.1:");
        let first = pieces.next().unwrap_or_default().to_owned();
        first
            + &pieces
                .map(|piece| "127.0.0.1:PORT".to_owned() + piece.trim_start_matches(|c: char| c.is_ascii_digit()))
                .collect::<String>()
    };
    let line = |line: &String| match line.trim_end_matches('\r').split_once("KUBECONFIG=") {
        Some((before, _)) => format!("{before}KUBECONFIG=FILE\n"),
        None => ports(line.trim_end_matches('\r')) + "\n",
    };
    lines.iter().map(line).collect::<String>().replace('\x1b', "<esc>")
}

/// Shows OPR-22.
#[test]
fn dev_prints_its_banner_first() {
    let mut dev = Program::start_reading_stdout(&["dev"]);
    dev.wait_for_line(&[LAST_LINE]);
    same_as("dev-banner", &normalized(dev.lines_so_far()));
    assert_eq!(dev.interrupt().code(), Some(0));
}

/// The banner has no colours, so NO_COLOR does not change it.
/// Shows OPR-22.
#[test]
#[allow(clippy::print_stderr, reason = "skipped tests are reported")]
fn dev_prints_the_same_banner_on_a_terminal() {
    for environment in [&[][..], &[("NO_COLOR", "1")]] {
        let Some(mut dev) = Program::start_on_a_terminal(100, "dev --boot-time 100ms", environment) else {
            eprintln!("skipped: there is no `script` (util-linux), so there is no terminal");
            return;
        };
        dev.wait_for_line(&[LAST_LINE]);
        same_as("dev-banner", &normalized(dev.lines_so_far()));
        dev.wait_for_line(&["reason: "]);
        let printed = dev.lines_so_far();
        assert!(!printed.iter().any(|line| line.contains('\x1b')), "{printed:?}");
        assert_eq!(dev.press_ctrl_c().code(), Some(0));
    }
}

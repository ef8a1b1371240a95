//! What `millwright dev` says first, to a person on a terminal and into a pipe.

use crate::program::Program;
use crate::terminal::same_as;

const LAST_LINE: &str = "What Millwright decides, as it happens:";

/// The banner without what differs from run to run.
fn lasting(said: &[String]) -> String {
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
    said.iter().map(line).collect::<String>().replace('\x1b', "<esc>")
}

/// Shows OPR-22.
#[test]
fn dev_prints_its_banner_first() {
    let mut dev = Program::start_talking(&["dev"]);
    dev.says(&[LAST_LINE]);
    same_as("dev-banner", &lasting(dev.heard_so_far()));
    assert_eq!(dev.interrupt().code(), Some(0));
}

/// It has no colours, so whoever asks for none gets the same.
/// Shows OPR-22.
#[test]
#[allow(clippy::print_stderr, reason = "what is skipped is said")]
fn on_a_terminal_the_banner_of_dev_is_the_same_and_ctrl_c_ends_it() {
    for environment in [&[][..], &[("NO_COLOR", "1")]] {
        let Some(mut dev) = Program::start_on_a_terminal(100, "dev --boot-time 100ms", environment) else {
            eprintln!("skipped: there is no `script` (util-linux), so there is no terminal");
            return;
        };
        dev.says(&[LAST_LINE]);
        same_as("dev-banner", &lasting(dev.heard_so_far()));
        dev.says(&["because"]);
        let said = dev.heard_so_far();
        assert!(!said.iter().any(|line| line.contains('\x1b')), "{said:?}");
        assert_eq!(dev.press_ctrl_c().code(), Some(0));
    }
}

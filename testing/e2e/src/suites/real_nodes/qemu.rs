//! Checks whether this host has the programs for virtual machines. Otherwise the cases with virtual machines are
//! skipped by name before anything is started.

use std::process::{Command, Stdio};

use super::super::report::Report;
use super::{up, virtual_machines};

/// Programs and their Debian packages.
const REQUIRED: [(&str, &str); 2] = [("qemu-system-x86_64", "qemu-system-x86"), ("qemu-img", "qemu-utils")];

/// Returns what is missing on this host; `None` if virtual machines can be started.
pub(super) fn missing() -> Option<String> {
    missing_without(|program| {
        Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
    })
}

fn missing_without(is_there: impl Fn(&str) -> bool) -> Option<String> {
    let missing = REQUIRED.iter().filter(|(program, _)| !is_there(program));
    let sentences: Vec<String> =
        missing.map(|(program, package)| format!("{program} is not installed (Debian: {package})")).collect();
    (!sentences.is_empty()).then(|| sentences.join(", "))
}

/// Reports every case with virtual machines as skipped.
pub(super) fn skip(report: &mut Report, why: &str) {
    for case in virtual_machines::CASES.into_iter().chain(up::VIRTUAL) {
        report.skip(case, why);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows HST-33.
    #[test]
    fn each_missing_program_of_qemu_is_named_with_its_package() {
        assert_eq!(missing_without(|_| true), None);
        let expected = "qemu-img is not installed (Debian: qemu-utils)";
        assert_eq!(missing_without(|program| program != "qemu-img").as_deref(), Some(expected));
        assert!(missing_without(|_| false).is_some_and(|said| said.contains("qemu-system-x86")));
    }

    /// Shows HST-33.
    #[test]
    fn cases_without_qemu_are_skipped_by_name() {
        let mut report = Report::of("test");
        skip(&mut report, "qemu-img is not installed");
        let tally = report.tally();
        assert_eq!((tally.passed, tally.failed, tally.skipped), (0, 0, 9));
    }
}

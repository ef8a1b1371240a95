//! The measured process.

use std::fs;

use anyhow::Context;

use crate::test_bed::Process;

/// A running controller.
pub(super) struct Controller(pub(super) Process);

impl Controller {
    /// Returns its resident memory in bytes.
    pub(super) fn resident(&self) -> anyhow::Result<u64> {
        let status =
            fs::read_to_string(format!("/proc/{}/status", self.0.id())).context("the controller has exited")?;
        resident(&status).context("failed to read the resident memory of the controller. See its log")
    }
}

/// Returns `VmRSS` of `/proc/PID/status` in bytes. A process that has ended has none.
fn resident(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resident_memory_is_read_in_bytes() {
        assert_eq!(resident("VmPeak:\t   99 kB\nVmRSS:\t   33724 kB\nThreads:\t3\n"), Some(33_724 * 1024));
        assert_eq!(resident("State:\tZ (zombie)\n"), None);
    }
}

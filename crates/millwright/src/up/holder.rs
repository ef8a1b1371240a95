//! Which processes hold an `up`: those that were started for its directory, as their command lines say.
//!
//! Nothing is written down when they are started, so there is no moment in which they run and cannot be found.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::time::{Instant, sleep};

use super::layout::Layout;
use crate::cli::Up;

/// How long killed processes may take to be gone.
const PATIENCE: Duration = Duration::from_secs(30);
const GLANCE: Duration = Duration::from_millis(20);

/// Whether somebody holds it.
pub(super) fn is_up(layout: &Layout) -> anyhow::Result<bool> {
    Ok(!holders(layout)?.is_empty())
}

/// Kills them, the first process of the namespaces among them, and waits until they are gone.
pub(super) async fn kill(layout: &Layout) -> anyhow::Result<()> {
    let begin = Instant::now();
    loop {
        let holders = holders(layout)?;
        if holders.is_empty() {
            return Ok(());
        }
        ensure!(begin.elapsed() < PATIENCE, "processes {holders:?} do not end");
        for pid in holders {
            kill_one(pid, layout).with_context(|| format!("failed to kill process {pid}"))?;
        }
        sleep(GLANCE).await;
    }
}

fn holders(layout: &Layout) -> anyhow::Result<Vec<i32>> {
    let own = i32::try_from(std::process::id()).unwrap_or_default();
    let processes = fs::read_dir("/proc").context("failed to list processes")?.flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    Ok(numbers.filter(|pid| *pid != own && holds(*pid, layout)).collect())
}

/// The number alone could have become another's since it was read, so it is looked at again by a handle on the process.
fn kill_one(pid: i32, layout: &Layout) -> Result<(), Errno> {
    let Some(number) = Pid::from_raw(pid) else { return Ok(()) };
    let handle = match pidfd_open(number, PidfdFlags::empty()) {
        Ok(handle) => handle,
        Err(Errno::SRCH) => return Ok(()),
        Err(error) => return Err(error),
    };
    if !holds(pid, layout) {
        return Ok(());
    }
    match pidfd_send_signal(handle, Signal::KILL) {
        Ok(()) | Err(Errno::SRCH) => Ok(()),
        Err(error) => Err(error),
    }
}

fn holds(pid: i32, layout: &Layout) -> bool {
    fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| is_for(&line, layout.directory()))
}

/// Whether this is the command line of an inner half of this directory, or of what it was started by.
fn is_for(command_line: &[u8], directory: &Path) -> bool {
    let words: Vec<&OsStr> = command_line.split(|byte| *byte == 0).map(OsStr::from_bytes).collect();
    let flag = |name: &str| OsStr::new(name).to_owned();
    let directory = Up::directory_argument(directory);
    words.contains(&flag("up").as_os_str())
        && words.contains(&flag(Up::IN_NAMESPACES).as_os_str())
        && words.contains(&directory.as_os_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    /// Shows HST-19.
    #[rstest]
    #[case::unshare(&["unshare", "--net", "sh", "-c", "x", "/bin/millwright", "up", "--in-namespaces", "--directory=/a b"], true)]
    #[case::the_inner_half(&["/bin/millwright", "up", "--in-namespaces", "--directory=/a b", "--machines=2"], true)]
    #[case::of_another_directory(&["/bin/millwright", "up", "--in-namespaces", "--directory=/a b/c"], false)]
    #[case::the_outer_half(&["/bin/millwright", "up", "--directory=/a b"], false)]
    #[case::a_reader(&["less", "/a b/log"], false)]
    #[case::a_process_of_the_kernel(&[], false)]
    fn only_processes_that_were_started_for_the_directory_hold_it(#[case] words: &[&str], #[case] holds: bool) {
        assert_eq!(is_for(words.join("\0").as_bytes(), Path::new("/a b")), holds);
    }
}

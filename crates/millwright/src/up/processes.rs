//! Finds the processes of an `up` by their command lines, which contain its directory.
//!
//! No file records these processes, so there is no moment at which they run and cannot be found.

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

/// Timeout for killed processes to end.
const KILL_TIMEOUT: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Reports whether processes of this `up` run.
pub(super) fn any_running(layout: &Layout) -> anyhow::Result<bool> {
    Ok(!processes(layout)?.is_empty())
}

/// Kills the processes, including the init process of the namespaces, and waits until they have ended.
pub(super) async fn kill(layout: &Layout) -> anyhow::Result<()> {
    let begin = Instant::now();
    loop {
        let processes = processes(layout)?;
        if processes.is_empty() {
            return Ok(());
        }
        ensure!(begin.elapsed() < KILL_TIMEOUT, "processes {processes:?} do not end");
        for pid in processes {
            kill_one(pid, layout).with_context(|| format!("failed to kill process {pid}"))?;
        }
        sleep(POLL_INTERVAL).await;
    }
}

fn processes(layout: &Layout) -> anyhow::Result<Vec<i32>> {
    let own = i32::try_from(std::process::id()).unwrap_or_default();
    let entries = fs::read_dir("/proc").context("failed to list processes")?.flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    Ok(numbers.filter(|pid| *pid != own && belongs(*pid, layout)).collect())
}

/// Kills one process. The pid may have been reused since it was read, so the command line is checked again while a
/// pidfd is open.
fn kill_one(pid: i32, layout: &Layout) -> Result<(), Errno> {
    let Some(number) = Pid::from_raw(pid) else { return Ok(()) };
    let handle = match pidfd_open(number, PidfdFlags::empty()) {
        Ok(handle) => handle,
        Err(Errno::SRCH) => return Ok(()),
        Err(error) => return Err(error),
    };
    if !belongs(pid, layout) {
        return Ok(());
    }
    match pidfd_send_signal(handle, Signal::KILL) {
        Ok(()) | Err(Errno::SRCH) => Ok(()),
        Err(error) => Err(error),
    }
}

fn belongs(pid: i32, layout: &Layout) -> bool {
    fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| is_for(&line, layout.directory()))
}

/// Reports whether this is the command line of an inner process of this directory, or of the program that started it.
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
    #[case::inner_process(&["/bin/millwright", "up", "--in-namespaces", "--directory=/a b", "--machines=2"], true)]
    #[case::other_directory(&["/bin/millwright", "up", "--in-namespaces", "--directory=/a b/c"], false)]
    #[case::outer_process(&["/bin/millwright", "up", "--directory=/a b"], false)]
    #[case::other_program(&["less", "/a b/log"], false)]
    #[case::kernel_thread(&[], false)]
    fn only_processes_of_the_directory_are_found(#[case] words: &[&str], #[case] belongs: bool) {
        assert_eq!(is_for(words.join("\0").as_bytes(), Path::new("/a b")), belongs);
    }
}

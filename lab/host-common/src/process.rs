//! Processes as shown in `/proc`. A process id alone may have been reused.

use std::fs;
use std::path::Path;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// A process, identified by its id and start time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Process {
    /// Its process id on the host.
    pub pid: i32,
    /// Clock ticks after the host's boot.
    pub start_time: u64,
}

impl Process {
    /// Returns the process with this id, unless it has ended.
    pub fn alive(proc: &Path, pid: i32) -> Option<Self> {
        let stat = fs::read_to_string(proc.join(pid.to_string()).join("stat")).ok()?;
        let (state, start_time) = state_and_start(&stat)?;
        (!matches!(state, 'Z' | 'X')).then_some(Self { pid, start_time })
    }
}

/// Parses the state and the start time of a process. Its name is in parentheses before them and may contain any
/// character.
fn state_and_start(stat: &str) -> Option<(char, u64)> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((state, fields.nth(18)?.parse().ok()?))
}

/// Returns all visible process ids.
pub fn all(proc: &Path) -> Vec<i32> {
    let entries = fs::read_dir(proc).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Kills a process if `is_meant` still holds.
pub fn kill_if(pid: i32, is_meant: impl FnOnce() -> bool) -> Result<(), Errno> {
    let Some(number) = Pid::from_raw(pid) else { return Ok(()) };
    let handle = match pidfd_open(number, PidfdFlags::empty()) {
        Ok(handle) => handle,
        Err(Errno::SRCH) => return Ok(()),
        Err(error) => return Err(error),
    };
    if !is_meant() {
        return Ok(());
    }
    match pidfd_send_signal(handle, Signal::KILL) {
        Ok(()) | Err(Errno::SRCH) => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    /// Shows HST-26.
    #[rstest]
    #[case::runs('S', true)]
    #[case::frozen_or_waiting('D', true)]
    #[case::a_zombie('Z', false)]
    fn a_process_is_identified_by_its_id_and_start_time(#[case] state: char, #[case] alive: bool) {
        let proc = tempfile::tempdir().unwrap();
        fs::create_dir(proc.path().join("7")).unwrap();
        // A name that contains a closing parenthesis.
        let rest = "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20";
        fs::write(proc.path().join("7/stat"), format!("7 (a) S 1 (b)) {state} {rest}")).unwrap();
        fs::create_dir(proc.path().join("self")).unwrap();
        assert_eq!(Process::alive(proc.path(), 7), alive.then_some(Process { pid: 7, start_time: 4711 }));
        assert_eq!((Process::alive(proc.path(), 8), all(proc.path())), (None, vec![7]));
    }

    /// Shows HST-26.
    #[test]
    fn a_process_that_does_not_match_is_not_killed() {
        let mut process = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let pid = i32::try_from(process.id()).unwrap();
        kill_if(pid, || false).unwrap();
        assert!(process.try_wait().unwrap().is_none());
        kill_if(pid, || true).unwrap();
        process.wait().unwrap();
        kill_if(pid, || true).unwrap();
    }
}

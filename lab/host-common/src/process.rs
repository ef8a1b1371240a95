//! Processes, by what `/proc` says of them. A number alone could have become another's since it was read.

use std::fs;
use std::path::Path;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// A process, told from a later one with the same number by when it started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Process {
    /// Its number on the host.
    pub pid: i32,
    /// Clock ticks after the host's boot.
    pub start_time: u64,
}

impl Process {
    /// The process of this number, unless it has ended.
    pub fn alive(proc: &Path, pid: i32) -> Option<Self> {
        let stat = fs::read_to_string(proc.join(pid.to_string()).join("stat")).ok()?;
        let (state, start_time) = state_and_start(&stat)?;
        (!matches!(state, 'Z' | 'X')).then_some(Self { pid, start_time })
    }
}

/// A process' state and when it started. Its name stands in parentheses before them and may contain anything.
fn state_and_start(stat: &str) -> Option<(char, u64)> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((state, fields.nth(18)?.parse().ok()?))
}

/// All numbers of processes that are to be seen.
pub fn all(proc: &Path) -> Vec<i32> {
    let entries = fs::read_dir(proc).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Kills a process if it is still the one that is meant.
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
    fn a_process_is_known_by_its_number_and_its_start(#[case] state: char, #[case] alive: bool) {
        let proc = tempfile::tempdir().unwrap();
        fs::create_dir(proc.path().join("7")).unwrap();
        // A name that tries to look like the end of the name.
        let rest = "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20";
        fs::write(proc.path().join("7/stat"), format!("7 (a) S 1 (b)) {state} {rest}")).unwrap();
        fs::create_dir(proc.path().join("self")).unwrap();
        assert_eq!(Process::alive(proc.path(), 7), alive.then_some(Process { pid: 7, start_time: 4711 }));
        assert_eq!((Process::alive(proc.path(), 8), all(proc.path())), (None, vec![7]));
    }

    /// Shows HST-26.
    #[test]
    fn a_process_that_is_not_meant_any_more_is_left_alone() {
        let mut process = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let pid = i32::try_from(process.id()).unwrap();
        kill_if(pid, || false).unwrap();
        assert!(process.try_wait().unwrap().is_none());
        kill_if(pid, || true).unwrap();
        process.wait().unwrap();
        kill_if(pid, || true).unwrap();
    }
}

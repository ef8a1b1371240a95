//! Processes as shown in `/proc`.

use std::fs;
use std::path::Path;

use lab_host_common::process::{Process, kill_if};
use rustix::io::Errno;

/// Returns the process, if it is the init of a machine: the first process of a PID namespace directly below the current
/// one.
pub(crate) fn machine_init(proc: &Path, pid: i32) -> Option<Process> {
    let read = |who: &str, file: &str| fs::read_to_string(proc.join(who).join(file)).ok();
    let own = depth(&read("self", "status")?)?.0;
    let (depth, innermost) = depth(&read(&pid.to_string(), "status")?)?;
    Process::alive(proc, pid).filter(|_| depth == own + 1 && innermost == 1)
}

/// Returns the number of PID namespaces of a process, and its id in the innermost one.
fn depth(status: &str) -> Option<(usize, i32)> {
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    let numbers: Vec<&str> = line.split_whitespace().collect();
    Some((numbers.len(), numbers.last()?.parse().ok()?))
}

/// Kills a process if it is still in the cgroup.
pub(crate) fn kill_in(proc: &Path, pid: i32, cgroup: &str) -> Result<(), Errno> {
    kill_if(pid, || {
        let groups = fs::read_to_string(proc.join(pid.to_string()).join("cgroup")).unwrap_or_default();
        is_member(&groups, cgroup)
    })
}

/// Returns whether a process with these cgroups is in the one with this name, or below it.
fn is_member(groups: &str, cgroup: &str) -> bool {
    let paths = groups.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    paths.into_iter().any(|path| path.split('/').nth(1) == Some(cgroup))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn proc(status: &str, stat: &str) -> tempfile::TempDir {
        let proc = tempfile::tempdir().unwrap();
        for (who, status) in [("self", "Name:\ttest\nNSpid:\t20\n"), ("7", status)] {
            fs::create_dir(proc.path().join(who)).unwrap();
            fs::write(proc.path().join(who).join("status"), status).unwrap();
        }
        fs::write(proc.path().join("7/stat"), stat).unwrap();
        proc
    }

    fn stat(state: char) -> String {
        // A name that contains a closing parenthesis.
        let rest = "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20";
        format!("7 (a) S 1 (b)) {state} {rest}")
    }

    /// Shows HST-5.
    #[rstest]
    #[case::an_init("NSpid:\t7\t1\n", 'S', true)]
    #[case::frozen_or_waiting("NSpid:\t7\t1\n", 'D', true)]
    #[case::a_zombie("NSpid:\t7\t1\n", 'Z', false)]
    #[case::another_process_of_the_machine("NSpid:\t7\t2\n", 'S', false)]
    #[case::the_init_of_a_container("NSpid:\t7\t9\t1\n", 'S', false)]
    #[case::a_process_of_the_host("NSpid:\t7\n", 'S', false)]
    #[case::no_answer("", 'S', false)]
    fn a_machine_init_is_detected_by_its_pid_namespace(
        #[case] status: &str,
        #[case] state: char,
        #[case] is_init: bool,
    ) {
        let proc = proc(status, &stat(state));
        let found = machine_init(proc.path(), 7);
        assert_eq!(found, is_init.then_some(Process { pid: 7, start_time: 4711 }));
        assert_eq!(machine_init(proc.path(), 8), None);
    }

    /// Shows HST-5.
    #[rstest]
    #[case("4:memory:/millwright-host.m.1\n", true)]
    #[case("4:memory:/\n0::/millwright-host.m.1/init\n", true)]
    #[case("4:memory:/millwright-host.m.12\n", false)]
    #[case("4:memory:/other/millwright-host.m.1\n", false)]
    #[case("", false)]
    fn cgroup_membership_requires_the_full_name(#[case] groups: &str, #[case] member: bool) {
        assert_eq!(is_member(groups, "millwright-host.m.1"), member);
    }
}

//! What everything here needs of the host's memory.
//!
//! Of a process counts its share of what is resident: what it shares with others is divided among them (PSS), so the sum counts nothing twice and leaves
//! nothing out. The page cache is not in it, which the kernel takes back when it has to.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, ensure};

use super::cluster::Cluster;

/// What three machines, the control plane and the controllers have to fit into.
const HOST: u64 = 4_000_000_000;
/// What a machine's own processes may have.
const MACHINE: u64 = 250_000_000;
const MEGABYTE: u64 = 1_000_000;

/// Each machine's processes, as its cgroup counts them.
#[allow(clippy::print_stdout, reason = "a suite tells what it measured")]
pub(super) fn of_each_machine(cluster: &Cluster) -> anyhow::Result<()> {
    for machine in cluster.homes()? {
        let bytes = cluster.memory_of(&machine)?;
        println!("        {machine}: {} MB", bytes / MEGABYTE);
        ensure!(bytes < MACHINE, "{machine} has {} MB", bytes / MEGABYTE);
    }
    Ok(())
}

/// Everything that runs in the namespaces of the suite: control plane, controllers, machines with their pods, and the suite itself.
#[allow(clippy::print_stdout, reason = "a suite tells what it measured")]
pub(super) fn of_all(cluster: &Cluster) -> anyhow::Result<()> {
    let machines = cluster.homes()?;
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    let entries = fs::read_dir("/proc").context("failed to list processes")?.flatten();
    let processes = entries.filter(|entry| entry.file_name().to_string_lossy().parse::<u32>().is_ok());
    for process in processes.map(|entry| entry.path()) {
        // One that has ended meanwhile has no memory.
        let Some(bytes) = resident(&process) else { continue };
        let groups = fs::read_to_string(process.join("cgroup")).unwrap_or_default();
        let of_machine = machines.iter().find(|machine| is_of(&groups, machine));
        *sums.entry(of_machine.cloned().unwrap_or_else(|| program(&process))).or_default() += bytes;
    }
    let of_machines = machines.iter().filter(|machine| sums.contains_key(*machine)).count();
    ensure!(of_machines == machines.len(), "processes of {of_machines} machines were found instead of {machines:?}");
    for (whose, bytes) in sums.iter().filter(|(_, bytes)| **bytes >= MEGABYTE) {
        println!("        {whose}: {} MB", bytes / MEGABYTE);
    }
    let sum: u64 = sums.values().sum();
    println!("        together: {} MB", sum / MEGABYTE);
    ensure!(sum < HOST, "together they have {} MB", sum / MEGABYTE);
    Ok(())
}

/// Whether a process in these cgroups, as `/proc` shows them, is the machine's.
fn is_of(groups: &str, machine: &str) -> bool {
    groups.contains(&format!("/millwright-host.{machine}."))
}

/// Which program it is. Scripts have the name of their shell.
fn program(process: &Path) -> String {
    let program = fs::read_link(process.join("exe")).unwrap_or_default();
    program.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// What of memory is a process's; of a kernel that does not divide what is shared, all that it has.
fn resident(process: &Path) -> Option<u64> {
    let read = |file: &str| fs::read_to_string(process.join(file)).ok();
    let divided = read("smaps_rollup").and_then(|text| kilobytes(&text, "Pss:"));
    divided.or_else(|| kilobytes(&read("status")?, "VmRSS:"))
}

/// A field of a file of `/proc`, in bytes.
fn kilobytes(text: &str, field: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(field))?;
    let number: u64 = value.split_whitespace().next()?.parse().ok()?;
    Some(number * 1024)
}

impl Cluster {
    /// Memory that a machine's processes have and use: their own, and the files they have mapped, programs among them. It counts what is shared for the
    /// machine that used it first.
    fn memory_of(&self, machine: &str) -> anyhow::Result<u64> {
        let group = self.cgroups_of(machine).into_iter().find(|group| group.join("memory.stat").exists());
        let stat = fs::read_to_string(group.context("the machine has no memory cgroup")?.join("memory.stat"))?;
        let field = |name: &str| stat.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
        let both =
            field("total_rss ").zip(field("total_mapped_file ")).or_else(|| field("anon ").zip(field("file_mapped ")));
        both.map(|(own, mapped)| own + mapped).context("the kernel does not tell the machine's memory")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows HST-31.
    #[test]
    fn memory_that_processes_share_is_divided_where_the_kernel_does_it() {
        let process = tempfile::tempdir().unwrap();
        fs::write(process.path().join("status"), "Name:\tetcd\nVmRSS:\t    3000 kB\n").unwrap();
        assert_eq!(resident(process.path()), Some(3_072_000));
        let rollup = "0-1 ---p 00000000 00:00 0 [rollup]\nRss: 3000 kB\nPss:   1000 kB\nPss_Dirty: 10 kB\n";
        fs::write(process.path().join("smaps_rollup"), rollup).unwrap();
        assert_eq!(resident(process.path()), Some(1_024_000));
    }

    /// Shows HST-31.
    #[test]
    fn a_process_is_of_the_machine_whose_cgroup_it_is_in() {
        let groups = "4:memory:/millwright-host.rn1-a.0/kubepods/pod1\n";
        assert!(is_of(groups, "rn1-a"));
        assert!(!is_of(groups, "rn1"));
    }
}

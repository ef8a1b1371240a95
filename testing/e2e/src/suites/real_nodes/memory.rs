//! Memory use of all processes of the suite.
//!
//! The proportional set size (PSS) of each process is counted, which divides shared pages among the processes, so the
//! sum counts nothing twice. The page cache is excluded, because the kernel can reclaim it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, ensure};

use super::cluster::Cluster;

/// Limit for three machines, the control plane and the controllers.
const HOST: u64 = 4_000_000_000;
/// Limit for the processes of a machine.
const MACHINE: u64 = 250_000_000;
const MEGABYTE: u64 = 1_000_000;

/// Checks the processes of each machine, as counted by its cgroup.
#[allow(clippy::print_stdout, reason = "a suite prints its measurements")]
pub(super) fn of_each_machine(cluster: &Cluster) -> anyhow::Result<()> {
    for machine in cluster.homes()? {
        let bytes = cluster.memory_of(&machine)?;
        println!("        {machine}: {} MB", bytes / MEGABYTE);
        ensure!(bytes < MACHINE, "{machine} uses {} MB", bytes / MEGABYTE);
    }
    Ok(())
}

/// Checks everything in the namespaces of the suite: control plane, controllers, machines with their pods, and the
/// suite itself.
#[allow(clippy::print_stdout, reason = "a suite prints its measurements")]
pub(super) fn of_all(cluster: &Cluster) -> anyhow::Result<()> {
    let machines = cluster.homes()?;
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    let entries = fs::read_dir("/proc").context("failed to list processes")?.flatten();
    let processes = entries.filter(|entry| entry.file_name().to_string_lossy().parse::<u32>().is_ok());
    for process in processes.map(|entry| entry.path()) {
        // A process that has ended meanwhile uses no memory.
        let Some(bytes) = resident(&process) else { continue };
        let groups = fs::read_to_string(process.join("cgroup")).unwrap_or_default();
        let of_machine = machines.iter().find(|machine| is_of(&groups, machine));
        *sums.entry(of_machine.cloned().unwrap_or_else(|| program(&process))).or_default() += bytes;
    }
    let of_machines = machines.iter().filter(|machine| sums.contains_key(*machine)).count();
    ensure!(of_machines == machines.len(), "found processes of only {of_machines} machines of {machines:?}");
    for (owner, bytes) in sums.iter().filter(|(_, bytes)| **bytes >= MEGABYTE) {
        println!("        {owner}: {} MB", bytes / MEGABYTE);
    }
    let sum: u64 = sums.values().sum();
    println!("        together: {} MB", sum / MEGABYTE);
    ensure!(sum < HOST, "all processes together use {} MB", sum / MEGABYTE);
    Ok(())
}

/// Returns whether a process in these cgroups, as shown in `/proc`, belongs to the machine.
fn is_of(groups: &str, machine: &str) -> bool {
    groups.contains(&format!("/millwright-host.{machine}."))
}

/// Returns the name of the program. Scripts have the name of their shell.
fn program(process: &Path) -> String {
    let program = fs::read_link(process.join("exe")).unwrap_or_default();
    program.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Returns the proportional memory of a process; its resident memory if the kernel does not report PSS.
fn resident(process: &Path) -> Option<u64> {
    let read = |file: &str| fs::read_to_string(process.join(file)).ok();
    let divided = read("smaps_rollup").and_then(|text| kilobytes(&text, "Pss:"));
    divided.or_else(|| kilobytes(&read("status")?, "VmRSS:"))
}

/// Returns a field of a file in `/proc`, in bytes.
fn kilobytes(text: &str, field: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(field))?;
    let number: u64 = value.split_whitespace().next()?.parse().ok()?;
    Some(number * 1024)
}

impl Cluster {
    /// Returns the memory of a machine's processes: anonymous memory and mapped files, including programs. Shared files
    /// are counted for the machine that used them first.
    fn memory_of(&self, machine: &str) -> anyhow::Result<u64> {
        let group = self.cgroups_of(machine).into_iter().find(|group| group.join("memory.stat").exists());
        let stat = fs::read_to_string(group.context("the machine has no memory cgroup")?.join("memory.stat"))?;
        let field = |name: &str| stat.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
        let both =
            field("total_rss ").zip(field("total_mapped_file ")).or_else(|| field("anon ").zip(field("file_mapped ")));
        both.map(|(own, mapped)| own + mapped).context("memory.stat has no known fields")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows HST-31.
    #[test]
    fn shared_memory_is_divided_if_the_kernel_reports_pss() {
        let process = tempfile::tempdir().unwrap();
        fs::write(process.path().join("status"), "Name:\tetcd\nVmRSS:\t    3000 kB\n").unwrap();
        assert_eq!(resident(process.path()), Some(3_072_000));
        let rollup = "0-1 ---p 00000000 00:00 0 [rollup]\nRss: 3000 kB\nPss:   1000 kB\nPss_Dirty: 10 kB\n";
        fs::write(process.path().join("smaps_rollup"), rollup).unwrap();
        assert_eq!(resident(process.path()), Some(1_024_000));
    }

    /// Shows HST-31.
    #[test]
    fn a_process_belongs_to_the_machine_of_its_cgroup() {
        let groups = "4:memory:/millwright-host.rn1-a.0/kubepods/pod1\n";
        assert!(is_of(groups, "rn1-a"));
        assert!(!is_of(groups, "rn1"));
    }
}

//! Mounts, links, cgroups and processes that machines may leave behind.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, ensure};

/// Returns the prefix of the cgroup names of a pool's machines.
fn cgroup(pool: &str) -> String {
    format!("millwright-host.{pool}-")
}

/// Removes the cgroups when the other end of its stdin is closed. Their processes end at the same time, so it retries.
const SWEEPER: &str = "read -r _; tries=0
while [ \"$tries\" -lt 100 ]; do
  find \"$1\" -depth -type d -path \"*/$2*\" -exec rmdir {} ';' 2>/dev/null
  [ -n \"$(find \"$1\" -type d -path \"*/$2*\")\" ] || exit 0
  tries=$((tries + 1)); sleep 0.1
done; exit 1";
const ROOT: &str = "/sys/fs/cgroup";

/// Returns all such resources: on the host in the outer process of the suite, and in its namespaces in the inner one.
pub(super) fn list(pool: &str) -> anyhow::Result<BTreeSet<String>> {
    let mounts = fs::read_to_string("/proc/self/mounts").context("failed to list mounts")?;
    let listed = Command::new("ip").args(["-brief", "link"]).output().context("failed to list links")?;
    let links = String::from_utf8_lossy(&listed.stdout).into_owned();
    let names = links.lines().filter_map(|line| line.split_whitespace().next());
    let mut all: BTreeSet<String> = mounts.lines().map(|line| format!("mount {line}")).collect();
    all.extend(names.map(|name| format!("link {name}")));
    all.extend(cgroups(pool).iter().map(|group| format!("cgroup {}", group.display())));
    all.extend(processes(pool));
    Ok(all)
}

/// Returns the cgroups of a pool's machines.
pub(super) fn cgroups(pool: &str) -> Vec<PathBuf> {
    let folders =
        |path: &Path| fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path()).collect::<Vec<_>>();
    let all = folders(Path::new(ROOT)).into_iter().flat_map(|path| [folders(&path), vec![path]].concat());
    all.filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&cgroup(pool)))).collect()
}

/// Returns the processes of a pool's machines.
fn processes(pool: &str) -> Vec<String> {
    let all =
        fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let numbers = all.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
    let ours = numbers.filter(|pid| {
        let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
        read("cgroup").contains(&format!("/{}", cgroup(pool))) || read("cmdline").contains(&format!("\0-name\0{pool}-"))
    });
    ours.map(|pid| format!("process {pid}")).collect()
}

/// Removes the cgroups when this value is dropped or its process ends.
pub(super) struct CgroupSweeper {
    pool: String,
    child: Child,
}

impl CgroupSweeper {
    pub(super) fn start(pool: &str) -> anyhow::Result<Self> {
        Self::start_in(Path::new(ROOT), pool)
    }

    fn start_in(root: &Path, pool: &str) -> anyhow::Result<Self> {
        let mut command = Command::new("sh");
        command.args(["-c", SWEEPER, "millwright-sweeper"]).arg(root).arg(cgroup(pool));
        command.stdin(Stdio::piped()).process_group(0);
        let child = command.spawn().context("failed to start the cgroup sweeper")?;
        Ok(Self { pool: pool.to_owned(), child })
    }

    /// Removes the cgroups now.
    pub(super) fn sweep(mut self) -> anyhow::Result<()> {
        drop(self.child.stdin.take());
        let ended = self.child.wait().context("failed to wait for the cgroup sweeper")?;
        ensure!(ended.success(), "cgroups of machines still exist: {:?}", cgroups(&self.pool));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows HST-17.
    #[test]
    fn cgroups_of_a_pool_are_removed_and_others_are_kept() {
        let root = tempfile::tempdir().unwrap();
        for group in
            ["cpu/millwright-host.rn1-a.0/kubepods/pod", "millwright-host.rn1-b.0/init", "cpu/millwright-host.rn12-a.0"]
        {
            fs::create_dir_all(root.path().join(group)).unwrap();
        }
        CgroupSweeper::start_in(root.path(), "rn1").unwrap().sweep().unwrap();
        let left = |path: &str| root.path().join(path).exists();
        assert!(!left("cpu/millwright-host.rn1-a.0") && !left("millwright-host.rn1-b.0"));
        assert!(left("cpu/millwright-host.rn12-a.0"));
    }
}

//! Faults of a machine: its kubelet is killed, its processes are frozen, its link is down.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};

use super::cluster::Cluster;
use super::leftovers;

/// Runs a program in the namespaces and cgroups of a machine, given the id of its init, in the background.
const RESTART: &str = "for group in $1; do echo $$ >$group/cgroup.procs; done; init=$0; shift
exec nsenter --target=$init --mount --uts --ipc --net --pid --cgroup --root --wd -- \\
  sh -c '\"$@\" </dev/null >>/var/log/kubelet.log 2>&1 &' kubelet \"$@\"";

impl Cluster {
    /// Freezes or resumes all processes of a machine.
    pub(super) fn freeze(&self, machine: &str, frozen: bool) -> anyhow::Result<()> {
        for (file, words) in [("freezer.state", ["THAWED", "FROZEN"]), ("cgroup.freeze", ["0", "1"])] {
            let group = self.cgroups_of(machine).into_iter().map(|group| group.join(file)).find(|path| path.exists());
            if let Some(path) = group {
                let word = words.get(usize::from(frozen)).copied().unwrap_or_default();
                return fs::write(&path, word).with_context(|| format!("failed to write {}", path.display()));
            }
        }
        bail!("{machine} has no cgroup that can be frozen")
    }

    /// Sets the host's end of a machine's link down or up.
    pub(super) fn cut(&self, machine: &str, cut: bool) -> anyhow::Result<()> {
        let init = self.host().init_of(machine)?;
        let peer = format!("/proc/{init}/root/sys/class/net/eth0/iflink");
        let peer = fs::read_to_string(&peer).with_context(|| format!("failed to read {peer}"))?;
        let listed = Command::new("ip").args(["-oneline", "link"]).output().context("failed to list links")?;
        let links = String::from_utf8_lossy(&listed.stdout).into_owned();
        let link =
            links.lines().find_map(|line| line.strip_prefix(&format!("{}: ", peer.trim()))?.split(['@', ':']).next());
        let state = if cut { "down" } else { "up" };
        run("ip", &["link", "set", "dev", link.context("failed to find the link of the machine")?, state])
    }

    /// Kills a machine's kubelet, which is not restarted.
    pub(super) fn kill_kubelet(&self, machine: &str) -> anyhow::Result<()> {
        run("kill", &["-KILL", &self.kubelet_of(machine)?])
    }

    /// Returns the process id of a machine's kubelet in the suite's namespace.
    fn kubelet_of(&self, machine: &str) -> anyhow::Result<String> {
        let groups = self.cgroups_of(machine);
        let listed = groups.iter().filter_map(|group| fs::read_to_string(group.join("cgroup.procs")).ok());
        let pids: Vec<String> = listed.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect();
        let name = |pid: &str| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        pids.into_iter().find(|pid| name(pid).trim() == "kubelet").context("the machine has no kubelet")
    }

    /// Kills a machine's kubelet and starts it again with the same arguments.
    pub(super) fn restart_kubelet(&self, machine: &str) -> anyhow::Result<()> {
        let kubelet = self.kubelet_of(machine)?;
        let line =
            fs::read(format!("/proc/{kubelet}/cmdline")).context("failed to read the command line of the kubelet")?;
        let words = line.split(|byte| *byte == 0).filter(|word| !word.is_empty());
        let words: Vec<String> = words.map(|word| String::from_utf8_lossy(word).into_owned()).collect();
        self.kill_kubelet(machine)?;
        let groups = self.cgroups_of(machine).into_iter().map(|group| group.display().to_string()).collect::<Vec<_>>();
        let (init, groups) = (self.host().init_of(machine)?.to_string(), groups.join(" "));
        let words = [vec!["-c", RESTART, &init, &groups], words.iter().map(String::as_str).collect()].concat();
        run("sh", &words)
    }

    /// Returns the cgroups of a machine in each hierarchy.
    pub(super) fn cgroups_of(&self, machine: &str) -> Vec<PathBuf> {
        let named = |path: &Path| {
            path.file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with(&format!("millwright-host.{machine}.")))
        };
        let tops = leftovers::cgroups(&self.pool).into_iter().filter(|path| named(path));
        // With cgroup v2, the machine's processes are in a child cgroup.
        tops.flat_map(|top| [top.join("init"), top]).filter(|path| path.is_dir()).collect()
    }
}

/// Runs a program. Fails if its exit code is not 0.
pub(super) fn run(program: &str, arguments: &[&str]) -> anyhow::Result<()> {
    let ended = Command::new(program).args(arguments).output().with_context(|| format!("failed to run {program}"))?;
    ensure!(ended.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&ended.stderr).trim());
    Ok(())
}

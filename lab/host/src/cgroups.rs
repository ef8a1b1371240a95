//! The cgroups of a machine: its limits and its processes.
//!
//! A host has one hierarchy with all controllers (v2) or one for each controller (v1). With v2, a cgroup whose children
//! have controllers must not contain processes. So the processes of a machine first join its cgroup, which becomes the
//! root of its cgroup namespace, and then a child named `init`. The kubelet can then delegate the controllers. Before a
//! machine is started again, this is undone.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::processes::kill_in;
use crate::steps;
use lab_host_common::HostError;
use lab_host_common::budget::Resources;

/// Period of the CPU quota in microseconds.
const PERIOD: u64 = 100_000;
/// Controllers that a kubelet requires with v2.
const WANTED: [&str; 6] = ["cpu", "cpuset", "io", "memory", "hugetlb", "pids"];

/// The hierarchies of this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Hierarchies {
    /// Each with its mount options.
    V1(Vec<(PathBuf, String)>),
    V2(PathBuf),
}

/// The cgroups of one machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MachineCgroups {
    hierarchies: Hierarchies,
    name: String,
}

impl Hierarchies {
    /// Parses the mounts. A host with both versions has its controllers in version 1.
    pub(crate) fn of(mountinfo: &str) -> Option<Self> {
        let (mut first, mut second) = (Vec::new(), None);
        for line in mountinfo.lines() {
            let Some((mount, source)) = line.split_once(" - ") else { continue };
            let Some(point) = mount.split(' ').nth(4).map(PathBuf::from) else { continue };
            let mut words = source.split(' ');
            match (words.next(), words.nth(1)) {
                (Some("cgroup"), Some(options)) if !first.iter().any(|(_, known)| *known == mounted_by(options)) => {
                    first.push((point, mounted_by(options)));
                }
                (Some("cgroup2"), _) if second.is_none() => second = Some(point),
                _ => {}
            }
        }
        if first.is_empty() { second.map(Self::V2) } else { Some(Self::V1(first)) }
    }

    fn roots(&self) -> Vec<&Path> {
        match self {
            Self::V1(all) => all.iter().map(|(root, _)| root.as_path()).collect(),
            Self::V2(root) => vec![root],
        }
    }

    /// Returns the mounts of a machine: type, options and the last part of the path of each hierarchy.
    pub(crate) fn mounts(&self) -> Vec<String> {
        match self {
            Self::V2(_) => vec!["cgroup2||".to_owned()],
            Self::V1(all) => all
                .iter()
                .map(|(root, options)| {
                    let place = root.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
                    format!("cgroup|{options}|{place}")
                })
                .collect(),
        }
    }
}

/// Returns the mount options that identify the hierarchy.
fn mounted_by(options: &str) -> String {
    let named =
        options.split(',').filter(|option| !matches!(*option, "rw" | "ro" | "xattr" | "clone_children" | "noprefix"));
    let named: Vec<&str> = named.filter(|option| !option.starts_with("release_agent=")).collect();
    let text = named.join(",");
    // A hierarchy without a controller has only a name.
    if text.starts_with("name=") { format!("none,{text}") } else { text }
}

impl MachineCgroups {
    pub(crate) fn new(hierarchies: Hierarchies, name: String) -> Self {
        Self { hierarchies, name }
    }

    fn all(&self) -> Vec<PathBuf> {
        self.hierarchies.roots().into_iter().map(|root| root.join(&self.name)).collect()
    }

    pub(crate) fn hierarchies(&self) -> &Hierarchies {
        &self.hierarchies
    }

    /// Returns which of them exist.
    pub(crate) fn seen(&self) -> steps::Cgroups {
        let all = self.all();
        match all.iter().filter(|group| group.is_dir()).count() {
            0 => steps::Cgroups::Absent,
            some if some < all.len() => steps::Cgroups::Some,
            _ => steps::Cgroups::All,
        }
    }

    /// Returns the cgroups that a process joins, and then the child cgroups for the machine's own processes.
    pub(crate) fn joined_by(&self) -> (Vec<PathBuf>, Vec<PathBuf>) {
        let leaves = match self.hierarchies {
            Hierarchies::V1(_) => Vec::new(),
            Hierarchies::V2(_) => self.all().into_iter().map(|group| group.join("init")).collect(),
        };
        (self.all(), leaves)
    }

    /// Creates missing cgroups and sets the limits.
    pub(crate) fn make(&self, size: Resources) -> Result<(), HostError> {
        let quota = size.cpu_millis.saturating_mul(PERIOD / 1000);
        for (root, group) in self.hierarchies.roots().into_iter().zip(self.all()) {
            if let Hierarchies::V2(_) = self.hierarchies {
                delegate(root)?;
            }
            match fs::create_dir(&group) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(HostError::File { step: "create", path: group, source: error });
                }
                _ => {}
            }
            let settings = match self.hierarchies {
                Hierarchies::V2(_) => {
                    vec![("cpu.max", format!("{quota} {PERIOD}")), ("memory.max", size.memory.to_string())]
                }
                Hierarchies::V1(_) => vec![
                    ("cpu.cfs_quota_us", quota.to_string()),
                    ("memory.limit_in_bytes", size.memory.to_string()),
                    // A new cpuset is empty, and nothing can run in it.
                    ("cpuset.cpus", inherited(root, "cpuset.cpus")),
                    ("cpuset.mems", inherited(root, "cpuset.mems")),
                ],
            };
            for (file, value) in settings {
                let path = group.join(file);
                if path.exists() {
                    HostError::on(&path, "write", fs::write(&path, value))?;
                }
            }
        }
        Ok(())
    }

    /// Removes child cgroups of an earlier run, so that processes can join the cgroups.
    pub(crate) fn clear(&self) -> Result<(), HostError> {
        for top in self.all() {
            for group in below(&top).into_iter().filter(|group| *group != top) {
                HostError::on(&group, "remove", fs::remove_dir(&group))?;
            }
            let path = top.join("cgroup.subtree_control");
            for controller in fs::read_to_string(&path).unwrap_or_default().split_whitespace() {
                HostError::on(&path, "write", fs::write(&path, format!("-{controller}")))?;
            }
        }
        Ok(())
    }

    /// Returns all processes in them and their children.
    pub(crate) fn processes(&self) -> Vec<i32> {
        let mut pids: Vec<i32> =
            self.all().iter().flat_map(|group| below(group)).flat_map(|group| listed(&group)).collect();
        pids.sort_unstable();
        pids.dedup();
        pids
    }

    /// Kills all processes, even frozen ones. They may take a moment to exit, and new ones may appear.
    pub(crate) fn kill(&self, proc: &Path) -> Result<(), HostError> {
        for group in self.all().iter().flat_map(|group| below(group)) {
            // With v1 a frozen process cannot be killed.
            for (file, thawed) in [("freezer.state", "THAWED"), ("cgroup.freeze", "0")] {
                let path = group.join(file);
                if path.exists() {
                    let _ = fs::write(path, thawed);
                }
            }
        }
        for pid in self.processes() {
            let killed = kill_in(proc, pid, &self.name).map_err(io::Error::from);
            HostError::on(&proc.join(pid.to_string()), "kill", killed)?;
        }
        Ok(())
    }

    /// Removes the cgroups, children first. Returns `Busy` while the kernel still uses one of them.
    pub(crate) fn remove(&self) -> Result<Removal, HostError> {
        let mut removal = Removal::Done;
        for group in self.all().iter().flat_map(|group| below(group)) {
            match fs::remove_dir(&group) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) if error.raw_os_error() == Some(Errno::BUSY.raw_os_error()) => removal = Removal::Busy,
                Err(source) => return Err(HostError::File { step: "remove", path: group, source }),
            }
        }
        Ok(removal)
    }
}

/// Result of the removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Removal {
    Done,
    Busy,
}

/// Enables controllers for the children of a v2 cgroup: those that are available and required by a kubelet.
fn delegate(group: &Path) -> Result<(), HostError> {
    let available = fs::read_to_string(group.join("cgroup.controllers")).unwrap_or_default();
    let path = group.join("cgroup.subtree_control");
    for controller in available.split_whitespace().filter(|controller| WANTED.contains(controller)) {
        HostError::on(&path, "write", fs::write(&path, format!("+{controller}")))?;
    }
    Ok(())
}

fn inherited(root: &Path, file: &str) -> String {
    fs::read_to_string(root.join(file)).unwrap_or_default().trim().to_owned()
}

fn listed(group: &Path) -> Vec<i32> {
    let text = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|line| line.trim().parse().ok()).collect()
}

/// Returns a cgroup and its descendants, the innermost first.
fn below(group: &Path) -> Vec<PathBuf> {
    if !group.is_dir() {
        return Vec::new();
    }
    let entries = fs::read_dir(group).into_iter().flatten().flatten();
    let children = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path());
    let mut all: Vec<PathBuf> = children.flat_map(|child| below(&child)).collect();
    all.push(group.to_owned());
    all
}

#[cfg(test)]
mod tests;

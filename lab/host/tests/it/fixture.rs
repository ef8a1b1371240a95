//! A state directory, a root image, and observations of machines on the host.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use api::MachineClass;
use api::view::SecretData;
use cloud_fakes::one_host::OneHost;
use driver::Driver;
use lab_host::{HostDriver, PROVIDER, Settings};
use serde_json::{Value, json};

use crate::namespaces::{cgroups, prefix};

/// Records its environment.
pub(crate) const USER_DATA: &str = "#!/bin/sh\n\
    { cat /proc/sys/kernel/hostname; readlink /proc/1/root; } >/seen\n\
    cat /proc/self/mounts >/mounts\nsync\ntrap exit TERM\nsleep 1000000 & wait\n";

/// Shared by the tests of one process.
pub(crate) struct Fixture {
    folder: tempfile::TempDir,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        super::root_image::make(&folder.path().join("image"));
        Self { folder }
    }
}

impl OneHost for Fixture {
    fn driver() -> Arc<dyn Driver> {
        #[allow(clippy::disallowed_methods, reason = "a test is a program")]
        let path = std::env::var_os("PATH").unwrap_or_default();
        Arc::new(HostDriver::new(Settings { path }))
    }

    fn secret() -> SecretData {
        [("userData", USER_DATA.as_bytes().to_vec())].into_iter().collect()
    }

    fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    fn class(&self, cluster: &str) -> MachineClass {
        let mut class = MachineClass::default();
        class.metadata.name = "small".into();
        class.metadata.namespace = "default".into();
        class.provider = PROVIDER.into();
        class.provider_spec = json!({
            "cluster": cluster, "rootImage": self.folder.path().join("image"), "stateDirectory": self.state(),
            "cpu": "100m", "memory": "64Mi", "bridge": "br0",
            "addresses": "10.76.1.0/24", "prefixLength": 16, "gateway": "10.76.0.1",
        });
        class
    }

    /// Cgroups are not namespaced, so names have a prefix.
    fn machine(&self, name: &str) -> String {
        machine(name)
    }

    fn running(&self, machine: &str) -> usize {
        inits(machine).len()
    }

    fn largest(&self) -> Value {
        let size = json!({ "cpuMillis": u64::MAX, "memory": 0 });
        json!({ "uid": "", "address": "10.76.1.9", "size": size, "rootImage": "/", "bridge": "br0" })
    }

    fn traces(&self) -> BTreeSet<String> {
        traces(&self.state())
    }
}

/// Returns the init processes of machines with this name: the first processes of PID namespaces below the current one,
/// in a cgroup with that name.
pub(crate) fn inits(machine: &str) -> Vec<i32> {
    let processes = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().into_string().ok());
    processes
        .filter_map(|name| name.parse().ok())
        .filter(|pid| {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap_or_default();
            let numbers: Vec<_> = numbers.split_whitespace().collect();
            let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
            numbers.len() == 2 && numbers[1] == "1" && groups.contains(&format!("/millwright-host.{machine}."))
        })
        .collect()
}

/// Returns everything that a machine could leave behind: mounts, links, cgroups, processes, files.
fn traces(state: &Path) -> BTreeSet<String> {
    let mut traces = BTreeSet::new();
    let each = |text: String, what: &str| text.lines().map(|line| format!("{what}: {line}")).collect::<Vec<_>>();
    traces.extend(each(fs::read_to_string("/proc/self/mountinfo").unwrap(), "mount"));
    let links = Command::new("ip").args(["-oneline", "-brief", "link"]).output().unwrap();
    let links = String::from_utf8(links.stdout).unwrap();
    let names = links.lines().filter_map(|line| line.split_whitespace().next()).collect::<Vec<_>>().join("\n");
    traces.extend(each(names, "link"));
    traces.extend(cgroups(&prefix()).into_iter().map(|group| format!("cgroup: {}", group.display())));
    for entry in fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().into_string().ok()) {
        let line = fs::read(format!("/proc/{entry}/cmdline")).unwrap_or_default();
        if String::from_utf8_lossy(&line).contains("millwright-machine") {
            traces.insert(format!("process: {entry}"));
        }
    }
    let clusters = fs::read_dir(state.join("clusters")).into_iter().flatten().flatten();
    traces.extend(clusters.map(|entry| format!("file: {}", entry.path().display())));
    traces
}

/// Returns the name of a machine of this test.
pub(crate) fn machine(name: &str) -> String {
    format!("{}-{name}", prefix())
}

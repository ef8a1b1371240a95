//! A state directory, an image, and observations of machines on the host.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use api::MachineClass;
use api::view::SecretData;
use cloud_fakes::one_host::OneHost;
use driver::Driver;
use lab_qemu::{Boot, PROVIDER, QemuDriver, Settings};
use serde_json::{Value, json};

/// A separate state directory and image.
pub(crate) struct Fixture {
    folder: tempfile::TempDir,
}

impl Fixture {
    /// Returns `None` and prints a line if qemu is not installed.
    #[allow(clippy::print_stdout, reason = "a skipped test prints the reason")]
    pub(crate) fn new(test: &str) -> Option<Self> {
        for program in ["qemu-system-x86_64", "qemu-img"] {
            let tried = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
            if tried.is_err() {
                println!("skipped: {test}: {program} is not installed (Debian: qemu-system-x86, qemu-utils)");
                return None;
            }
        }
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("qemu-img");
        let made = command.args(["create", "-q", "-f", "qcow2"]).arg(folder.path().join("image")).arg("8M");
        assert!(made.status().unwrap().success());
        Some(Self { folder })
    }
}

impl OneHost for Fixture {
    fn driver() -> Arc<dyn Driver> {
        #[allow(clippy::disallowed_methods, reason = "a test is a program")]
        let path = std::env::var_os("PATH").unwrap_or_default();
        Arc::new(QemuDriver::new(Settings { path, boot: Boot::Paused }))
    }

    fn secret() -> SecretData {
        [("userData", b"#cloud-config\n".to_vec())].into_iter().collect()
    }

    fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    fn class(&self, cluster: &str) -> MachineClass {
        let provider_spec = json!({
            "cluster": cluster, "image": self.folder.path().join("image"), "stateDirectory": self.state(), "cpu": "100m",
            "memory": "32Mi", "accelerator": "tcg", "powerOffSeconds": 0, "hostBudget": { "cpu": "100", "memory": "100Gi" },
        });
        MachineClass { provider: PROVIDER.into(), provider_spec, ..MachineClass::default() }
    }

    fn running(&self, machine: &str) -> usize {
        processes(&self.home(machine)).len()
    }

    fn largest(&self) -> Value {
        json!({ "uid": "", "size": { "cpuMillis": u64::MAX, "memory": 0 }, "image": "/" })
    }

    /// Processes with files in the state directory, and directories of machines.
    fn traces(&self) -> BTreeSet<String> {
        let running = processes(&self.state()).into_iter().map(|pid| format!("process {pid}"));
        let clusters = fs::read_dir(self.state().join("clusters")).into_iter().flatten().flatten();
        running.chain(clusters.map(|entry| format!("file {}", entry.path().display()))).collect()
    }
}

impl Drop for Fixture {
    /// Kills the processes of a failed test.
    fn drop(&mut self) {
        for pid in processes(&self.state()) {
            let _ = Command::new("kill").args(["-KILL", &pid.to_string()]).status();
        }
    }
}

/// Returns the qemu processes with an open file below this folder.
pub(crate) fn processes(folder: &Path) -> Vec<i32> {
    let all = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    all.filter(|pid: &i32| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        name.starts_with("qemu-system")
            && files.into_iter().any(|file| fs::read_link(file.path()).is_ok_and(|path| path.starts_with(folder)))
    })
    .collect()
}

//! The machines of a pool on the host: their directories, and the init process of each.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::Value;

use super::faults::run;

/// Parent directory of the machines of a pool.
#[derive(Clone, Debug)]
pub(super) struct Homes(PathBuf);

impl Homes {
    pub(super) fn new(state: &Path, pool: &str) -> Self {
        Self(state.join("clusters").join(pool))
    }

    /// Returns the names of the machines.
    pub(super) fn list(&self) -> anyhow::Result<BTreeSet<String>> {
        match fs::read_dir(&self.0) {
            Ok(entries) => Ok(entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect()),
            // The directory is removed with the last machine.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(BTreeSet::new()),
            Err(error) => Err(error).context("failed to list the host's machines"),
        }
    }

    /// Returns the process id of a machine's init in the suite's namespace.
    pub(super) fn init_of(&self, machine: &str) -> anyhow::Result<i64> {
        let path = self.0.join(machine).join("init.json");
        let text = fs::read_to_string(&path).with_context(|| format!("failed to read {}", path.display()))?;
        let note: Value = serde_json::from_str(&text)?;
        note.get("pid").and_then(Value::as_i64).context("init.json contains no process id")
    }

    /// Runs a shell command in the mount namespace of a machine.
    pub(super) fn run_in(&self, machine: &str, line: &str, arguments: &[&str]) -> anyhow::Result<()> {
        let target = format!("--target={}", self.init_of(machine)?);
        let words = [&target, "--mount", "--root", "--wd", "--", "sh", "-c", line, "suite"];
        run("nsenter", &[&words[..], arguments].concat())
    }
}

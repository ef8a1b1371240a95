//! The state that `dev` keeps over restarts (`--data-dir`): the objects of its API server and the VMs of its cloud, in
//! one file.
//!
//! The file contains Secrets, so only its owner may read it. While the state changes, the file is written every few
//! seconds: a new file replaces the old one, so a process that is killed leaves the last complete file.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use driver_virtual::{KeptVm, VirtualCloud};
use fake_apiserver::Server;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Interval of checks for changes.
const INTERVAL: Duration = Duration::from_secs(2);
/// Version of the file format.
const FORMAT_VERSION: u32 = 1;

/// The directory, locked by this process.
pub(crate) struct DataDir {
    file: PathBuf,
    /// Excludes other processes while it is open.
    _lock: File,
}

/// The saved state.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct SavedState {
    #[serde(rename = "form")]
    version: u32,
    objects: Vec<Value>,
    vms: Vec<KeptVm>,
}

impl DataDir {
    /// Opens and locks a directory. Creates it if it does not exist.
    pub(crate) fn open(path: &Path) -> anyhow::Result<Self> {
        let failed = |what: &str| format!("failed to {what} {} (--data-dir)", path.display());
        fs::create_dir_all(path).with_context(|| failed("create"))?;
        let lock = File::create(path.join("lock")).with_context(|| failed("lock"))?;
        ensure!(lock.try_lock().is_ok(), "another `millwright dev` uses {} (--data-dir)", path.display());
        Ok(Self { file: path.join("state.json"), _lock: lock })
    }

    /// Returns the state of an earlier run, or `None` if there is none.
    pub(crate) fn read(&self) -> anyhow::Result<Option<SavedState>> {
        if !self.file.exists() {
            return Ok(None);
        }
        let unreadable = || format!("{} is not readable. Remove it to start without saved state", self.file.display());
        let text = fs::read(&self.file).with_context(unreadable)?;
        // Do not include the error of serde, because it could quote a Secret.
        let state: Option<SavedState> = serde_json::from_slice(&text).ok();
        state.filter(|state| state.version == FORMAT_VERSION).with_context(unreadable).map(Some)
    }

    fn write(&self, state: &SavedState) -> anyhow::Result<()> {
        let failed = || format!("failed to write {}", self.file.display());
        let temporary = self.file.with_extension("new");
        let mut file = OpenOptions::new();
        let mut file =
            file.create(true).write(true).truncate(true).mode(0o600).open(&temporary).with_context(failed)?;
        let text = serde_json::to_vec(state).with_context(failed)?;
        file.write_all(&text).and_then(|()| file.sync_all()).with_context(failed)?;
        fs::rename(&temporary, &self.file).with_context(failed)
    }

    /// Saves the state whenever it has changed, until the future is dropped.
    pub(crate) async fn save_periodically(&self, server: &Server, cloud: &VirtualCloud) -> anyhow::Result<()> {
        let mut written = 0;
        loop {
            let revision = server.revision();
            if revision != written {
                self.write(&SavedState::of(server, cloud))?;
                written = revision;
            }
            tokio::time::sleep(INTERVAL).await;
        }
    }

    /// Saves the state for the last time.
    pub(crate) fn finish(&self, server: &Server, cloud: &VirtualCloud) -> anyhow::Result<()> {
        self.write(&SavedState::of(server, cloud))
    }
}

impl SavedState {
    /// Returns the current state.
    pub(crate) fn of(server: &Server, cloud: &VirtualCloud) -> Self {
        let objects = server.everything().into_iter().filter(|object| is_saved(object));
        Self { version: FORMAT_VERSION, objects: objects.map(|object| (*object).clone()).collect(), vms: cloud.kept() }
    }

    /// Restores the state into a new server and a new cloud.
    pub(crate) fn restore(&self, server: &Server, cloud: &VirtualCloud) -> anyhow::Result<()> {
        for object in &self.objects {
            let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
            server
                .copy(object)
                .map_err(|_| anyhow::anyhow!("--data-dir contains an object of the unknown kind {kind:?}"))?;
        }
        for vm in &self.vms {
            cloud.put_back(vm).with_context(|| format!("failed to restore the VM {:?} from --data-dir", vm.id))?;
        }
        Ok(())
    }
}

/// Reports whether an object is saved. Events and Leases describe the past, and CRDs come with the program.
fn is_saved(object: &Value) -> bool {
    !matches!(object.get("kind").and_then(Value::as_str), Some("Event" | "Lease" | "CustomResourceDefinition"))
}

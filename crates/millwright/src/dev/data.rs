//! What `dev` keeps over restarts (`--data-dir`): the objects of its API server and the VMs of its cloud, in one file.
//!
//! The file holds Secrets, so only its owner may read it. It is written anew every few seconds in which something changed, beside the old one and then in its place, so
//! a process that is killed leaves the last whole one.

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

/// How often is looked whether there is something to write.
const EVERY: Duration = Duration::from_secs(2);
/// The form of the file.
const FORM: u32 = 1;

/// The folder, held by this process.
pub(crate) struct DataDir {
    file: PathBuf,
    /// Nobody else keeps anything here while it is open.
    _lock: File,
}

/// Everything that is kept.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Kept {
    form: u32,
    objects: Vec<Value>,
    vms: Vec<KeptVm>,
}

impl DataDir {
    /// Takes a folder, and makes it if it is not there.
    pub(crate) fn open(path: &Path) -> anyhow::Result<Self> {
        let failed = |what: &str| format!("failed to {what} {} (--data-dir)", path.display());
        fs::create_dir_all(path).with_context(|| failed("make"))?;
        let lock = File::create(path.join("lock")).with_context(|| failed("lock"))?;
        ensure!(lock.try_lock().is_ok(), "another `millwright dev` keeps its state in {} (--data-dir)", path.display());
        Ok(Self { file: path.join("state.json"), _lock: lock })
    }

    /// What an earlier run left; `None` if there was none.
    pub(crate) fn read(&self) -> anyhow::Result<Option<Kept>> {
        if !self.file.exists() {
            return Ok(None);
        }
        let unreadable = || format!("{} cannot be read; remove it to begin anew", self.file.display());
        let text = fs::read(&self.file).with_context(unreadable)?;
        // What serde says of it could quote a Secret.
        let kept: Option<Kept> = serde_json::from_slice(&text).ok();
        kept.filter(|kept| kept.form == FORM).with_context(unreadable).map(Some)
    }

    fn write(&self, kept: &Kept) -> anyhow::Result<()> {
        let failed = || format!("failed to write {}", self.file.display());
        let beside = self.file.with_extension("new");
        let mut file = OpenOptions::new();
        let mut file = file.create(true).write(true).truncate(true).mode(0o600).open(&beside).with_context(failed)?;
        let text = serde_json::to_vec(kept).with_context(failed)?;
        file.write_all(&text).and_then(|()| file.sync_all()).with_context(failed)?;
        fs::rename(&beside, &self.file).with_context(failed)
    }

    /// Keeps writing until it is dropped.
    pub(crate) async fn keep(&self, server: &Server, cloud: &VirtualCloud) -> anyhow::Result<()> {
        let mut written = 0;
        loop {
            let revision = server.revision();
            if revision != written {
                self.write(&Kept::of(server, cloud))?;
                written = revision;
            }
            tokio::time::sleep(EVERY).await;
        }
    }

    /// Writes for the last time.
    pub(crate) fn finish(&self, server: &Server, cloud: &VirtualCloud) -> anyhow::Result<()> {
        self.write(&Kept::of(server, cloud))
    }
}

impl Kept {
    /// As it is now.
    pub(crate) fn of(server: &Server, cloud: &VirtualCloud) -> Self {
        let objects = server.everything().into_iter().filter(|object| stays(object));
        Self { form: FORM, objects: objects.map(|object| (*object).clone()).collect(), vms: cloud.kept() }
    }

    /// Puts it into a server and a cloud that are new.
    pub(crate) fn put_back(&self, server: &Server, cloud: &VirtualCloud) -> anyhow::Result<()> {
        for object in &self.objects {
            let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
            server
                .copy(object)
                .map_err(|_| anyhow::anyhow!("an object of kind {kind:?} of --data-dir is of no kind that is known"))?;
        }
        for vm in &self.vms {
            cloud.put_back(vm).with_context(|| format!("the VM {:?} of --data-dir cannot be put back", vm.id))?;
        }
        Ok(())
    }
}

/// Events tell what was, Leases who was alive, and definitions come with the program.
fn stays(object: &Value) -> bool {
    !matches!(object.get("kind").and_then(Value::as_str), Some("Event" | "Lease" | "CustomResourceDefinition"))
}

//! Machines for the lab's servers.
//!
//! Nova calls its hypervisor's driver to create or delete a server. The lab's driver
//! (`hack/openstack/stack/millwright_lab.py`) writes the call to a folder and waits for the result there. So each
//! server can be a machine with a kernel, an init that runs the user data, and a kubelet.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// The folder with the calls of Nova.
#[derive(Clone, Debug)]
pub struct Machines {
    folder: PathBuf,
}

/// A call of Nova.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NovaCall {
    /// Create a machine for a new server.
    Create(Server),
    /// Delete the machine of the server with this id.
    Delete(String),
}

/// A server that is being created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its user data.
    pub user_data: String,
    /// Its addresses in Neutron.
    pub addresses: Vec<String>,
}

impl Machines {
    pub(crate) fn in_folder(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Returns the pending calls, deletions first.
    pub fn pending(&self) -> io::Result<Vec<NovaCall>> {
        let mut names: Vec<String> = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            names.extend(entry?.file_name().into_string());
        }
        let has = |name: &str| names.iter().any(|there| there == name);
        let ids = names.iter().filter_map(|name| name.strip_suffix(".json"));
        let (ending, others): (Vec<&str>, Vec<&str>) = ids.partition(|id| has(&format!("{id}.delete")));
        let mut calls: Vec<NovaCall> = ending.into_iter().map(|id| NovaCall::Delete(id.to_owned())).collect();
        for id in others.into_iter().filter(|id| !has(&format!("{id}.up")) && !has(&format!("{id}.failed"))) {
            calls.push(NovaCall::Create(read(id, &self.path(id, "json"))?));
        }
        Ok(calls)
    }

    /// Reports that the machine of a server runs.
    pub fn made(&self, id: &str) -> io::Result<()> {
        fs::write(self.path(id, "up"), "")
    }

    /// Reports that the machine of a server cannot be created; Nova shows the reason as the server's fault.
    pub fn failed(&self, id: &str, reason: &str) -> io::Result<()> {
        // Renamed when it is complete, because Nova may read it at any time.
        let part = self.path(id, "failed.part");
        fs::write(&part, reason)?;
        fs::rename(part, self.path(id, "failed"))
    }

    /// Reports that the machine of a server is deleted.
    pub fn deleted(&self, id: &str) -> io::Result<()> {
        // Nova waits for the removal of the last of these files.
        for kind in ["up", "failed", "delete", "json"] {
            match fs::remove_file(self.path(id, kind)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    fn path(&self, id: &str, kind: &str) -> PathBuf {
        self.folder.join(format!("{id}.{kind}"))
    }
}

fn read(id: &str, path: &Path) -> io::Result<Server> {
    let value: Value = serde_json::from_slice(&fs::read(path)?)?;
    let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let addresses = value.get("addresses").and_then(Value::as_array).into_iter().flatten();
    let addresses = addresses.filter_map(|address| address.as_str().map(str::to_owned)).collect();
    Ok(Server { id: id.to_owned(), name: text("name"), user_data: text("userData"), addresses })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(id: &str) -> (tempfile::TempDir, Machines) {
        let folder = tempfile::tempdir().unwrap();
        let call =
            r##"{"name": "n", "uuid": "u", "userData": "#!/bin/sh", "addresses": ["10.0.0.2"], "metadata": {}}"##;
        fs::write(folder.path().join(format!("{id}.json")), call).unwrap();
        let machines = Machines::in_folder(folder.path().to_owned());
        (folder, machines)
    }

    #[test]
    fn a_creation_is_pending_until_the_machine_runs() {
        let (_folder, machines) = asked("u");
        let server = Server {
            id: "u".to_owned(),
            name: "n".to_owned(),
            user_data: "#!/bin/sh".to_owned(),
            addresses: vec!["10.0.0.2".to_owned()],
        };
        assert_eq!(machines.pending().unwrap(), [NovaCall::Create(server)]);
        machines.made("u").unwrap();
        assert_eq!(machines.pending().unwrap(), []);
    }

    #[test]
    fn a_failed_creation_is_reported_and_not_pending() {
        let (folder, machines) = asked("u");
        machines.failed("u", "no room").unwrap();
        assert_eq!(machines.pending().unwrap(), []);
        assert_eq!(fs::read_to_string(folder.path().join("u.failed")).unwrap(), "no room");
    }

    #[test]
    fn a_deletion_is_pending_and_leaves_no_file() {
        let (folder, machines) = asked("u");
        fs::write(folder.path().join("u.delete"), "").unwrap();
        assert_eq!(machines.pending().unwrap(), [NovaCall::Delete("u".to_owned())]);
        machines.deleted("u").unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}

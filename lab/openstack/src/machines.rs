//! Machines for the lab's servers.
//!
//! Nova calls its hypervisor's driver when a server is to be made or to end. The lab's driver (`hack/openstack/stack/millwright_lab.py`) writes that into a folder and
//! waits for the answer there, so whoever has the folder is the hypervisor: each server can be a machine with a kernel, an init that runs the user data, and a kubelet.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// The folder in which Nova asks for machines.
#[derive(Clone, Debug)]
pub struct Machines {
    folder: PathBuf,
}

/// What Nova asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    /// A machine for a new server.
    Make(Server),
    /// No machine any more for the server of this id.
    Delete(String),
}

/// A server that is being made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// What its first boot runs.
    pub user_data: String,
    /// The addresses that Neutron gave it.
    pub addresses: Vec<String>,
}

impl Machines {
    pub(crate) fn in_folder(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// What Nova waits for now, deletions first. What was answered is not among it.
    pub fn wishes(&self) -> io::Result<Vec<Wish>> {
        let mut names: Vec<String> = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            names.extend(entry?.file_name().into_string());
        }
        let has = |name: &str| names.iter().any(|there| there == name);
        let ids = names.iter().filter_map(|name| name.strip_suffix(".json"));
        let (ending, others): (Vec<&str>, Vec<&str>) = ids.partition(|id| has(&format!("{id}.delete")));
        let mut wishes: Vec<Wish> = ending.into_iter().map(|id| Wish::Delete(id.to_owned())).collect();
        for id in others.into_iter().filter(|id| !has(&format!("{id}.up")) && !has(&format!("{id}.failed"))) {
            wishes.push(Wish::Make(read(id, &self.path(id, "json"))?));
        }
        Ok(wishes)
    }

    /// The machine of a server runs.
    pub fn made(&self, id: &str) -> io::Result<()> {
        fs::write(self.path(id, "up"), "")
    }

    /// The machine of a server cannot be made; Nova shows the reason as the server's fault.
    pub fn failed(&self, id: &str, reason: &str) -> io::Result<()> {
        // Renamed when it is whole: Nova looks at any moment.
        let part = self.path(id, "failed.part");
        fs::write(&part, reason)?;
        fs::rename(part, self.path(id, "failed"))
    }

    /// The machine of a server is gone.
    pub fn deleted(&self, id: &str) -> io::Result<()> {
        // Nova waits for the first of them to go, so it goes last.
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
        let wish =
            r##"{"name": "n", "uuid": "u", "userData": "#!/bin/sh", "addresses": ["10.0.0.2"], "metadata": {}}"##;
        fs::write(folder.path().join(format!("{id}.json")), wish).unwrap();
        let machines = Machines::in_folder(folder.path().to_owned());
        (folder, machines)
    }

    #[test]
    fn a_server_is_a_wish_until_its_machine_runs() {
        let (_folder, machines) = asked("u");
        let server = Server {
            id: "u".to_owned(),
            name: "n".to_owned(),
            user_data: "#!/bin/sh".to_owned(),
            addresses: vec!["10.0.0.2".to_owned()],
        };
        assert_eq!(machines.wishes().unwrap(), [Wish::Make(server)]);
        machines.made("u").unwrap();
        assert_eq!(machines.wishes().unwrap(), []);
    }

    #[test]
    fn a_machine_that_cannot_be_made_leaves_its_reason_and_is_no_wish_any_more() {
        let (folder, machines) = asked("u");
        machines.failed("u", "no room").unwrap();
        assert_eq!(machines.wishes().unwrap(), []);
        assert_eq!(fs::read_to_string(folder.path().join("u.failed")).unwrap(), "no room");
    }

    #[test]
    fn a_server_that_ends_is_a_wish_even_if_its_machine_never_ran_and_leaves_no_file() {
        let (folder, machines) = asked("u");
        fs::write(folder.path().join("u.delete"), "").unwrap();
        assert_eq!(machines.wishes().unwrap(), [Wish::Delete("u".to_owned())]);
        machines.deleted("u").unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}

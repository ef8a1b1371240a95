//! Removes everything that an `up` created, even if it failed or a process was killed.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use api::{Machine, MachineClass};
use driver::{Call, Driver, MachineRequest};
use serde_json::json;

use super::layout::Layout;
use super::{link, processes};

/// Removes everything. Returns whether there was anything to remove.
pub(super) async fn down(layout: &Layout) -> anyhow::Result<bool> {
    let found = layout.exists()? || processes::any_running(layout)?;
    processes::kill(layout).await?;
    if found {
        link::remove()?;
    }
    remove_machines(&layout.machines()).await?;
    match fs::remove_dir_all(layout.directory()) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("failed to remove {}", layout.directory().display()))
        }
        _ => Ok(found),
    }
}

/// Deletes the Machines with the driver, which knows all their resources. Their processes ended with their namespaces;
/// their cgroups did not.
async fn remove_machines(state: &Path) -> anyhow::Result<()> {
    let driver = crate::built_in::host_driver();
    for (cluster, machine) in machines(state) {
        let request = request(state, &cluster, &machine);
        let removed = driver.delete(&Call::default(), &request).await;
        removed.with_context(|| format!("failed to delete the machine {machine}"))?;
    }
    Ok(())
}

/// Returns the Machines that have a directory, with their cluster.
fn machines(state: &Path) -> Vec<(String, String)> {
    let entries = |folder: PathBuf| fs::read_dir(folder).into_iter().flatten().flatten();
    let name = |entry: &fs::DirEntry| entry.file_name().into_string().ok();
    entries(state.join("clusters"))
        .flat_map(|cluster| {
            let machines = entries(cluster.path()).filter_map(|machine| name(&machine)).collect::<Vec<_>>();
            name(&cluster)
                .into_iter()
                .flat_map(move |cluster| machines.clone().into_iter().map(move |machine| (cluster.clone(), machine)))
        })
        .collect()
}

/// Returns the request that deletes a Machine.
fn request(state: &Path, cluster: &str, machine: &str) -> MachineRequest {
    let provider_spec = json!({ "cluster": cluster, "stateDirectory": state });
    let class = MachineClass { provider: lab_host::PROVIDER.into(), provider_spec, ..MachineClass::default() };
    let mut object = Machine::default();
    object.metadata.name = machine.into();
    MachineRequest { machine: Arc::new(object), class: Arc::new(class), secret: Arc::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows HST-19.
    #[tokio::test]
    async fn down_without_an_up_succeeds() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!down(&Layout::at(&folder.path().join("up"))).await.unwrap());
    }

    /// Shows HST-19.
    #[test]
    fn machines_are_found_by_their_directories() {
        let folder = tempfile::tempdir().unwrap();
        for path in ["clusters/a/one", "clusters/b/two", "clusters/b/three"] {
            fs::create_dir_all(folder.path().join(path)).unwrap();
        }
        let mut found = machines(folder.path());
        found.sort();
        let pair = |cluster: &str, machine: &str| (cluster.to_owned(), machine.to_owned());
        assert_eq!(found, [pair("a", "one"), pair("b", "three"), pair("b", "two")]);
    }
}

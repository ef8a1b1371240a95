//! The temporary kubeconfig of `dev`.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use fake_apiserver::loopback::Running;
use tempfile::TempDir;

/// A kubeconfig that is removed when this value is dropped.
pub(super) struct Kubeconfig {
    path: PathBuf,
    /// Temporary directory of the kubeconfig, if the user named no file.
    _directory: Option<TempDir>,
}

impl Kubeconfig {
    /// Writes the kubeconfig to this file, or to a new directory. An existing file is neither overwritten nor removed.
    pub(super) fn write(running: &Running, wanted: Option<&Path>) -> anyhow::Result<Self> {
        let (path, directory) = match wanted {
            Some(path) if path.exists() => {
                bail!("{} already exists. --kubeconfig needs a new file, because it is removed at exit", path.display())
            }
            Some(path) => (path.to_owned(), None),
            None => {
                let directory = tempfile::Builder::new()
                    .prefix("millwright-")
                    .tempdir()
                    .context("failed to create a directory for the kubeconfig. Set --kubeconfig to use another one")?;
                (directory.path().join("kubeconfig"), Some(directory))
            }
        };
        let kubeconfig = Self { path, _directory: directory };
        running
            .write_kubeconfig(&kubeconfig.path)
            .with_context(|| format!("failed to write {}", kubeconfig.path.display()))?;
        Ok(kubeconfig)
    }

    /// Returns the path of the kubeconfig.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Kubeconfig {
    fn drop(&mut self) {
        let _ignored = std::fs::remove_file(&self.path);
    }
}

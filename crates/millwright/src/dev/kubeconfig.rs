//! The one file, and that it goes.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use fake_apiserver::loopback::Running;
use tempfile::TempDir;

/// A kubeconfig that exists as long as this does.
pub(super) struct Kubeconfig {
    path: PathBuf,
    /// Its directory, if that is ours too.
    _directory: Option<TempDir>,
}

impl Kubeconfig {
    /// Writes it there, or to a directory of its own. A file that is there already is not ours to overwrite, or to remove.
    pub(super) fn write(running: &Running, wanted: Option<&Path>) -> anyhow::Result<Self> {
        let (path, directory) = match wanted {
            Some(path) if path.exists() => {
                bail!("{} is there already; --kubeconfig needs a file that can be removed at the end", path.display())
            }
            Some(path) => (path.to_owned(), None),
            None => {
                let directory = tempfile::Builder::new()
                    .prefix("millwright-")
                    .tempdir()
                    .context("failed to make a directory for the kubeconfig; --kubeconfig says where else to put it")?;
                (directory.path().join("kubeconfig"), Some(directory))
            }
        };
        let kubeconfig = Self { path, _directory: directory };
        running
            .write_kubeconfig(&kubeconfig.path)
            .with_context(|| format!("failed to write {}", kubeconfig.path.display()))?;
        Ok(kubeconfig)
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Kubeconfig {
    fn drop(&mut self) {
        let _gone = std::fs::remove_file(&self.path);
    }
}

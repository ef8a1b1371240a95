//! The files of an `up`.

use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

/// The directory of an `up`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    directory: PathBuf,
}

impl Layout {
    pub(super) fn at(directory: &Path) -> Self {
        Self { directory: directory.to_owned() }
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the kubeconfig for the user.
    pub(super) fn kubeconfig(&self) -> PathBuf {
        self.directory.join("kubeconfig")
    }

    /// Returns the file in which the inner process reports its progress, line by line.
    pub(super) fn progress(&self) -> PathBuf {
        self.directory.join("progress")
    }

    /// Returns the log of the inner process and of the controllers.
    pub(super) fn log(&self) -> PathBuf {
        self.directory.join("log")
    }

    /// Returns the directory in which the host driver keeps its Machines. They also have cgroups.
    pub(super) fn machines(&self) -> PathBuf {
        self.directory.join("machines")
    }

    /// Returns the directory in which the qemu driver keeps its virtual machines. Their processes run in the
    /// namespaces.
    pub(super) fn virtual_machines(&self) -> PathBuf {
        self.directory.join("virtual-machines")
    }

    /// Creates the directory, for root only, because it contains keys.
    pub(super) fn create(&self) -> anyhow::Result<()> {
        let directory = &self.directory;
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(directory);
        let marked =
            made.and_then(|()| fs::write(self.marker(), "Created by `millwright up`, removed by `millwright down`.\n"));
        marked.with_context(|| format!("failed to create {}", directory.display()))
    }

    fn marker(&self) -> PathBuf {
        self.directory.join("made-by-millwright-up")
    }

    /// Reports whether the directory exists. A directory with files that `up` did not create is an error, because it
    /// must not be removed.
    pub(super) fn exists(&self) -> anyhow::Result<bool> {
        let directory = &self.directory;
        match fs::read_dir(directory) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error).with_context(|| format!("failed to read {}", directory.display())),
            Ok(mut entries) => {
                let removable = self.marker().exists() || entries.next().is_none();
                ensure!(
                    removable,
                    "{} was not created by `millwright up`. Set --directory to an empty or new directory",
                    directory.display()
                );
                Ok(true)
            }
        }
    }

    /// Returns the complete lines of the progress file.
    pub(super) fn progress_lines(&self) -> anyhow::Result<Vec<String>> {
        let path = self.progress();
        let text = fs::read_to_string(&path).with_context(|| format!("failed to read {}", path.display()))?;
        Ok(text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')).map(str::to_owned).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn directory_is_private_and_incomplete_lines_are_skipped() {
        let folder = tempfile::tempdir().unwrap();
        let layout = Layout::at(&folder.path().join("deep/up"));
        layout.create().unwrap();
        assert_eq!(fs::metadata(layout.directory()).unwrap().permissions().mode() & 0o777, 0o700);
        assert!(layout.exists().unwrap());
        fs::write(layout.progress(), "one\ntwo\nth").unwrap();
        assert_eq!(layout.progress_lines().unwrap(), ["one", "two"]);
    }

    /// Shows HST-19.
    #[test]
    fn directory_with_other_files_is_rejected() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Layout::at(folder.path()).exists().unwrap(), "an empty directory is accepted");
        assert!(!Layout::at(&folder.path().join("up")).exists().unwrap());
        fs::write(folder.path().join("letter"), "").unwrap();
        let error = Layout::at(folder.path()).exists().unwrap_err().to_string();
        assert!(
            error.ends_with("was not created by `millwright up`. Set --directory to an empty or new directory"),
            "{error}"
        );
    }
}

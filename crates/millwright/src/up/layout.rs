//! Where everything of one `up` lies.

use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

/// A directory that is ours as a whole.
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

    /// For the person who called.
    pub(super) fn kubeconfig(&self) -> PathBuf {
        self.directory.join("kubeconfig")
    }

    /// What the inner half tells the outer one, a line each.
    pub(super) fn progress(&self) -> PathBuf {
        self.directory.join("progress")
    }

    /// What goes wrong, and what the controllers log.
    pub(super) fn log(&self) -> PathBuf {
        self.directory.join("log")
    }

    /// Where the driver of this host keeps its machines. They have cgroups besides.
    pub(super) fn machines(&self) -> PathBuf {
        self.directory.join("machines")
    }

    /// Where the driver of virtual machines keeps them. Whatever of them runs is in the namespaces, and all the rest are these files.
    pub(super) fn virtual_machines(&self) -> PathBuf {
        self.directory.join("virtual-machines")
    }

    /// Makes it, for root alone: there are keys in it.
    pub(super) fn make(&self) -> anyhow::Result<()> {
        let directory = &self.directory;
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(directory);
        let marked = made
            .and_then(|()| fs::write(self.marker(), "Made by `millwright up`, and removed by `millwright down`.\n"));
        marked.with_context(|| format!("failed to make {}", directory.display()))
    }

    fn marker(&self) -> PathBuf {
        self.directory.join("made-by-millwright-up")
    }

    /// Whether it is there. One that holds anything and was not made by us must not be removed by us.
    pub(super) fn is_there(&self) -> anyhow::Result<bool> {
        let directory = &self.directory;
        match fs::read_dir(directory) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error).with_context(|| format!("failed to read {}", directory.display())),
            Ok(mut entries) => {
                let ours = self.marker().exists() || entries.next().is_none();
                ensure!(
                    ours,
                    "{} was not made by `millwright up`: --directory names one of its own",
                    directory.display()
                );
                Ok(true)
            }
        }
    }

    /// The lines that were told so far; one that is half written is not yet told.
    pub(super) fn told(&self) -> anyhow::Result<Vec<String>> {
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
    fn the_directory_is_for_its_owner_alone_and_half_a_line_is_not_told() {
        let folder = tempfile::tempdir().unwrap();
        let layout = Layout::at(&folder.path().join("deep/up"));
        layout.make().unwrap();
        assert_eq!(fs::metadata(layout.directory()).unwrap().permissions().mode() & 0o777, 0o700);
        assert!(layout.is_there().unwrap());
        fs::write(layout.progress(), "one\ntwo\nth").unwrap();
        assert_eq!(layout.told().unwrap(), ["one", "two"]);
    }

    /// Shows HST-19.
    #[test]
    fn a_directory_that_holds_somebody_else_s_files_is_not_ours_to_remove() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Layout::at(folder.path()).is_there().unwrap(), "an empty one is taken");
        assert!(!Layout::at(&folder.path().join("up")).is_there().unwrap());
        fs::write(folder.path().join("letter"), "").unwrap();
        let error = Layout::at(folder.path()).is_there().unwrap_err().to_string();
        assert!(error.ends_with("was not made by `millwright up`: --directory names one of its own"), "{error}");
    }
}

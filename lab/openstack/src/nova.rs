//! A newer Nova than the lab's, for the calls that it can show: PyPI's, as one process by the fixtures of its own functional tests (`hack/nova/serve.py`). Its API,
//! scheduler, conductor and compute service are real, with the fake hypervisor; of Keystone, Glance and Neutron there is what those fixtures have, and of Cinder nothing.

use std::fs;
use std::path::{Path, PathBuf};

use control_plane::Cache;
use control_plane::guard::{GuardError, Guarded, Sweeper, tail};
use control_plane::scripted::{Recipe, Scripted};
use tokio::time::{Instant, sleep};

use crate::installation::InstallError;
use crate::lab::{LAST_WORDS, LabError, PATIENCE, PAUSE, on};

/// What makes it, and all that reads. What serves it is no part of it.
const FILES: [&str; 2] = ["build.sh", "requirements.txt"];

/// A Nova that runs until it is stopped or dropped, or its process ends: see [`control_plane::guard`].
#[derive(Debug)]
pub struct Nova {
    home: PathBuf,
    server: Guarded,
    sweeper: Sweeper,
}

impl Nova {
    /// What is in the user's cache, or will be.
    pub fn installer() -> Result<Scripted, InstallError> {
        let recipe = Recipe {
            what: "a newer Nova",
            needs: "python3, 3.11 or newer, with its venv module, and PyPI",
            folder: folder(),
            files: &FILES,
        };
        Ok(Scripted::new(recipe, &Cache::of_this_user()?.beside("nova"))?)
    }

    /// Starts the one that was installed in this folder, and waits until a server can be made.
    pub async fn start(installed: &Path) -> Result<Self, LabError> {
        let parent = std::env::temp_dir();
        let made = on(&parent, "make a folder in", tempfile::Builder::new().prefix("millwright-nova-").tempdir())?;
        let sweeper = Sweeper::start(made.path())?;
        let home = made.keep();
        let (target, log) = (home.join("target.json"), home.join("log"));
        let arguments = [folder().join("serve.py"), target.clone()].map(|path| path.display().to_string());
        let mut server = Guarded::start(&installed.join("bin/python"), &arguments, &log)?;
        let deadline = Instant::now() + PATIENCE;
        while !target.exists() {
            if let Some(status) = server.ended() {
                return Err(LabError::Ended { status, last_words: tail(&log, LAST_WORDS) });
            }
            if Instant::now() >= deadline {
                return Err(LabError::NotReady { last_words: tail(&log, LAST_WORDS) });
            }
            sleep(PAUSE).await;
        }
        Ok(Self { home, server, sweeper })
    }

    /// A file that names all a driver's test has to know, as that of a [`Lab`](crate::Lab).
    pub fn target_path(&self) -> PathBuf {
        self.home.join("target.json")
    }

    /// Ends it, removes what it wrote, and waits until both is done.
    pub async fn stop(self) -> Result<(), GuardError> {
        self.server.end().await?;
        self.sweeper.sweep().await
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../hack/nova")
}

/// The release that is pinned.
pub fn release() -> Result<String, LabError> {
    let path = folder().join("requirements.txt");
    let text = on(&path, "read", fs::read_to_string(&path))?;
    let release = text.lines().find_map(|line| line.strip_prefix("nova=="));
    Ok(release.unwrap_or_default().trim_end_matches([' ', '\\']).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nova's fixtures turn warnings into exceptions, and a request that meets one is answered with HTTP 500.
    #[test]
    fn served_nova_installs_no_warning_filter_that_raises() {
        let script = fs::read_to_string(folder().join("serve.py")).unwrap();
        let at = |line: &str| script.find(line).unwrap_or_else(|| panic!("serve.py has no line {line:?}"));
        for filter in ["warnings.filterwarnings = without_errors(", "warnings.simplefilter = without_errors("] {
            assert!(at(filter) < at("\nimport nova"), "{filter} comes after the fixtures are imported");
        }
    }

    #[test]
    fn a_release_of_nova_is_pinned_and_every_package_has_its_checksum() {
        assert_eq!(release().unwrap(), "34.0.0");
        let text = fs::read_to_string(folder().join("requirements.txt")).unwrap();
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let is_pin = |line: &str| line.contains("==");
        let checked = |two: &&[&str]| is_pin(two[0]) && two[1].trim_start().starts_with("--hash=sha256:");
        let pinned = lines.iter().filter(|line| is_pin(line)).count();
        assert!(pinned > 100, "{pinned}");
        assert_eq!(lines.windows(2).filter(checked).count(), pinned);
    }
}

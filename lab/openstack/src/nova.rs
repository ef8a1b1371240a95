//! A newer Nova than the lab's, from PyPI, which runs as one process with the fixtures of its own functional tests
//! (`hack/nova/serve.py`). Its API, scheduler, conductor and compute service are real, with the fake hypervisor;
//! Keystone, Glance and Neutron are fixtures, and there is no Cinder.

use std::fs;
use std::path::{Path, PathBuf};

use control_plane::Cache;
use control_plane::guard::{GuardError, Guarded, Sweeper, tail};
use control_plane::scripted::{Recipe, Scripted};
use tokio::time::{Instant, sleep};

use crate::installation::InstallError;
use crate::lab::{ERROR_LINES, LabError, PAUSE, TIMEOUT, on};

/// The script that installs it, and its inputs. The script that runs it is not an input.
const FILES: [&str; 2] = ["build.sh", "requirements.txt"];

/// A Nova that runs until it is stopped or dropped, or its process ends: see [`control_plane::guard`].
#[derive(Debug)]
pub struct Nova {
    home: PathBuf,
    server: Guarded,
    sweeper: Sweeper,
}

impl Nova {
    /// Returns the scripted installation in the user's cache.
    pub fn installer() -> Result<Scripted, InstallError> {
        let recipe = Recipe {
            what: "a newer Nova",
            needs: "python3, 3.11 or newer, with its venv module, and PyPI",
            folder: folder(),
            files: &FILES,
        };
        Ok(Scripted::new(recipe, &Cache::of_this_user()?.beside("nova"))?)
    }

    /// Starts the Nova that is installed in this folder, and waits until a server can be created.
    pub async fn start(installed: &Path) -> Result<Self, LabError> {
        let parent = std::env::temp_dir();
        let made = on(&parent, "create a folder in", tempfile::Builder::new().prefix("millwright-nova-").tempdir())?;
        let sweeper = Sweeper::start(made.path())?;
        let home = made.keep();
        let (target, log) = (home.join("target.json"), home.join("log"));
        let arguments = [folder().join("serve.py"), target.clone()].map(|path| path.display().to_string());
        let mut server = Guarded::start(&installed.join("bin/python"), &arguments, &log)?;
        let deadline = Instant::now() + TIMEOUT;
        while !target.exists() {
            if let Some(status) = server.ended() {
                return Err(LabError::Ended { status, last_lines: tail(&log, ERROR_LINES) });
            }
            if Instant::now() >= deadline {
                return Err(LabError::NotReady { last_lines: tail(&log, ERROR_LINES) });
            }
            sleep(PAUSE).await;
        }
        Ok(Self { home, server, sweeper })
    }

    /// Returns the path of a file for tests of the driver, like that of a [`Lab`](crate::Lab).
    pub fn target_path(&self) -> PathBuf {
        self.home.join("target.json")
    }

    /// Stops it, removes its files, and waits until both is done.
    pub async fn stop(self) -> Result<(), GuardError> {
        self.server.end().await?;
        self.sweeper.sweep().await
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../hack/nova")
}

/// Returns the pinned release.
pub fn release() -> Result<String, LabError> {
    let path = folder().join("requirements.txt");
    let text = on(&path, "read", fs::read_to_string(&path))?;
    let release = text.lines().find_map(|line| line.strip_prefix("nova=="));
    Ok(release.unwrap_or_default().trim_end_matches([' ', '\\']).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nova's fixtures convert warnings to exceptions, which result in HTTP 500.
    #[test]
    fn nova_is_served_without_warnings_as_exceptions() {
        let script = fs::read_to_string(folder().join("serve.py")).unwrap();
        let at = |line: &str| script.find(line).unwrap_or_else(|| panic!("serve.py has no line {line:?}"));
        for filter in ["warnings.filterwarnings = without_errors(", "warnings.simplefilter = without_errors("] {
            assert!(at(filter) < at("\nimport nova"), "{filter} comes after the fixtures are imported");
        }
    }

    #[test]
    fn nova_is_pinned_and_every_package_has_a_checksum() {
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

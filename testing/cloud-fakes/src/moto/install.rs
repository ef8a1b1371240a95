//! Installs requirements from PyPI into a virtualenv, once per pin and user.
//!
//! It takes a minute or two and 300 MB. Progress is reported, concurrent installers share one installation, and an
//! interrupted installation leaves nothing that could be mistaken for a complete one.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use super::cache::{Cache, Installation};
use super::requirements::Requirements;

/// How many lines of what pip printed go into an error.
const LAST_WORDS: usize = 15;

/// How to install.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installer {
    /// The Python that makes the virtualenv; looked up on the PATH if it is a bare name.
    pub python: PathBuf,
}

impl Default for Installer {
    fn default() -> Self {
        Self { python: PathBuf::from("python3") }
    }
}

/// Progress of an installation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Another process installs the same requirements; its result is used.
    WaitingForAnother,
    /// The virtualenv is being made.
    MakingEnvironment,
    /// The packages are being fetched and unpacked.
    FetchingPackages,
}

/// Why there is no moto.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// There is no Python here.
    #[error(
        "failed to find Python ({python}): moto is a Python program. Install Python 3.10 or newer with its venv module, put it on \
         the PATH and try again; everything else in this repository works without it"
    )]
    PythonMissing {
        /// The command that was tried.
        python: String,
    },
    /// A command ended with an error.
    #[error("failed to {step}:\n{said}")]
    Failed {
        /// What was tried.
        step: &'static str,
        /// The last lines that were printed.
        said: String,
    },
    /// A command cannot be run at all.
    #[error("failed to run {program}")]
    Run {
        /// The command.
        program: String,
        /// The system error.
        #[source]
        source: io::Error,
    },
    /// A folder or file of the cache cannot be used.
    #[error("failed to {step} {path}")]
    Cache {
        /// What was tried.
        step: &'static str,
        /// With what.
        path: PathBuf,
        /// The system error.
        #[source]
        source: io::Error,
    },
}

impl Installer {
    /// moto by these requirements: the one in the cache, or a new one.
    pub async fn install(
        &self,
        requirements: &Requirements,
        cache: &Cache,
        mut tell: impl FnMut(Progress),
    ) -> Result<Installation, InstallError> {
        if let Ok(found) = Installation::find(cache, requirements) {
            return Ok(found);
        }
        try_to(cache.folder(), "make", |path| fs::create_dir_all(path))?;
        let _lock = lock(&cache.lock(requirements), &mut tell).await?;
        // The previous holder of the lock may have finished the installation.
        if let Ok(found) = Installation::find(cache, requirements) {
            return Ok(found);
        }
        let (unfinished, finished) = (cache.unfinished(requirements), cache.finished(requirements));
        if unfinished.exists() {
            try_to(&unfinished, "remove", |path| fs::remove_dir_all(path))?;
        }
        tell(Progress::MakingEnvironment);
        let mut venv = Command::new(&self.python);
        venv.args(["-m", "venv"]).arg(&unfinished);
        self.finish("make a virtualenv", venv).await?;
        tell(Progress::FetchingPackages);
        let mut pip = Command::new(unfinished.join("bin/python"));
        // Only what the file names, and no package that would have to run code to be built.
        pip.args(["-m", "pip", "install", "--no-deps", "--require-hashes", "--only-binary", ":all:"])
            .args(["--no-input", "--disable-pip-version-check", "--quiet", "--requirement"])
            .arg(requirements.path());
        self.finish("install moto from PyPI", pip).await?;
        try_to(&finished, "rename the finished virtualenv to", |path| fs::rename(&unfinished, path))?;
        Installation::find(cache, requirements).map_err(|_| InstallError::Cache {
            step: "find the finished virtualenv in",
            path: finished,
            source: io::ErrorKind::NotFound.into(),
        })
    }

    async fn finish(&self, step: &'static str, mut command: Command) -> Result<(), InstallError> {
        let program = command.as_std().get_program().to_string_lossy().into_owned();
        let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await;
        let output = output.map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => InstallError::PythonMissing { python: self.python.display().to_string() },
            _ => InstallError::Run { program, source },
        })?;
        if output.status.success() {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        let last = lines.get(lines.len().saturating_sub(LAST_WORDS)..).unwrap_or_default();
        Err(InstallError::Failed { step, said: last.join("\n") })
    }
}

/// Waits for the lock without holding a thread: the holder may need minutes.
async fn lock(path: &Path, tell: &mut impl FnMut(Progress)) -> Result<File, InstallError> {
    let file = try_to(path, "open", |path| File::create(path))?;
    let mut told = false;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(fs::TryLockError::WouldBlock) => {
                if !told {
                    tell(Progress::WaitingForAnother);
                    told = true;
                }
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
            Err(fs::TryLockError::Error(source)) => {
                return Err(InstallError::Cache { step: "lock", path: path.to_owned(), source });
            }
        }
    }
}

fn try_to<T>(path: &Path, step: &'static str, act: impl FnOnce(&Path) -> io::Result<T>) -> Result<T, InstallError> {
    act(path).map_err(|source| InstallError::Cache { step, path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// A folder with requirements, a cache, and a `python` that is a few lines of shell.
    struct Place {
        folder: tempfile::TempDir,
    }

    /// `-m venv <folder>` creates a folder whose Python is this script; `-m pip …` records its arguments.
    const GOOD: &str = "if [ \"$2\" = venv ]; then mkdir -p \"$3/bin\"; cp \"$0\" \"$3/bin/python\"; fi\n";

    impl Place {
        fn new(python: &str) -> Self {
            let folder = tempfile::tempdir().unwrap();
            fs::write(folder.path().join("requirements.txt"), "moto==5.2.5\n").unwrap();
            let path = folder.path().join("python");
            fs::write(&path, format!("#!/bin/sh\necho \"$@\" >>'{}/calls'\n{python}", folder.path().display()))
                .unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            Self { folder }
        }

        fn cache(&self) -> Cache {
            Cache::at(&self.folder.path().join("cache"))
        }

        fn requirements(&self) -> Requirements {
            Requirements::read(&self.folder.path().join("requirements.txt")).unwrap()
        }

        async fn install(&self) -> Result<Installation, InstallError> {
            let installer = Installer { python: self.folder.path().join("python") };
            installer.install(&self.requirements(), &self.cache(), |_| ()).await
        }

        fn calls(&self) -> Vec<String> {
            let calls = fs::read_to_string(self.folder.path().join("calls")).unwrap_or_default();
            calls.lines().map(str::to_owned).collect()
        }
    }

    #[tokio::test]
    async fn missing_python_is_one_clear_sentence() {
        let place = Place::new("");
        let installer = Installer { python: "/nowhere/python3".into() };
        let error = installer.install(&place.requirements(), &place.cache(), |_| ()).await.unwrap_err().to_string();
        assert!(error.starts_with("failed to find Python (/nowhere/python3)"), "{error}");
    }

    #[tokio::test]
    async fn moto_is_installed_once_by_concurrent_installers() {
        let place = Place::new(GOOD);
        let (first, second) = tokio::join!(place.install(), place.install());
        assert_eq!(first.unwrap(), second.unwrap());
        place.install().await.unwrap();
        assert_eq!(place.calls().len(), 2, "{:?}", place.calls());
    }

    #[tokio::test]
    async fn only_requirements_with_a_checksum_are_installed() {
        let place = Place::new(GOOD);
        place.install().await.unwrap();
        let pip = &place.calls()[1];
        for word in ["--no-deps", "--require-hashes", "--only-binary :all:"] {
            assert!(pip.contains(word), "{pip}");
        }
    }

    #[tokio::test]
    async fn an_installation_that_fails_says_why_and_leaves_no_result() {
        let place = Place::new(&format!("{GOOD}[ \"$2\" = pip ] && {{ echo 'no such host' >&2; exit 1; }}; exit 0"));
        let error = place.install().await.unwrap_err().to_string();
        assert_eq!(error, "failed to install moto from PyPI:\nno such host");
        assert!(Installation::find(&place.cache(), &place.requirements()).is_err());
        assert!(place.cache().unfinished(&place.requirements()).exists(), "the next one begins by removing it");
    }
}

//! Folders that a script of this repository creates once per user, such as root file systems that are downloaded,
//! unpacked and set up in minutes.
//!
//! The name of the folder is a digest of the script and its inputs, so another clone finds it. The script works in
//! another folder, which is renamed when it is complete, so that an interrupted run is not mistaken for a result. If
//! the caller is cancelled, the script and its child processes are killed.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader};

use crate::guard::{Guarded, tail};

const ERROR_LINES: usize = 10;

/// A folder that a script creates, and its cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scripted {
    recipe: Recipe,
    /// Additional arguments of the script, after the folder to create.
    arguments: Vec<PathBuf>,
    cache: PathBuf,
    digest: String,
}

/// A script and its inputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recipe {
    /// The result of the script, for errors: "the root image".
    pub what: &'static str,
    /// The requirements of the script, for errors.
    pub needs: &'static str,
    /// The folder with the script and its inputs.
    pub folder: PathBuf,
    /// The script and its inputs, relative to the folder. The first file is run with `sh` and the folder to create, and
    /// prints its progress to standard output.
    pub files: &'static [&'static str],
}

/// A failed run.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// A file or folder cannot be used.
    #[error("failed to {step} {path}")]
    File {
        /// The step.
        step: &'static str,
        /// The path.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The script failed.
    #[error("failed to create {what}, which needs {needs}:\n{said}")]
    Failed {
        /// The result of the script.
        what: &'static str,
        /// The requirements of the script.
        needs: &'static str,
        /// Its last lines.
        said: String,
    },
}

impl Scripted {
    /// Creates it from this recipe and cache.
    pub fn new(recipe: Recipe, cache: &Path) -> Result<Self, ScriptError> {
        let texts = recipe.files.iter().map(|name| {
            let path = recipe.folder.join(name);
            on(&path, "read", fs::read(&path))
        });
        let digest = digest(&texts.collect::<Result<Vec<_>, _>>()?);
        Ok(Self { recipe, arguments: Vec::new(), cache: cache.to_owned(), digest })
    }

    /// Adds arguments for the script. Only their paths are part of the digest, not their content.
    #[must_use]
    pub fn given(self, arguments: Vec<PathBuf>) -> Self {
        let before = std::iter::once(self.digest.into_bytes());
        let digest = digest(
            &before.chain(arguments.iter().map(|path| path.as_os_str().as_bytes().to_vec())).collect::<Vec<_>>(),
        );
        Self { arguments, digest, ..self }
    }

    /// Returns the digest, which is equal for equal inputs.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Returns the folder with the script.
    pub fn recipe(&self) -> &Path {
        &self.recipe.folder
    }

    /// Returns the path of the created folder.
    pub fn finished(&self) -> PathBuf {
        self.cache.join(&self.digest)
    }

    /// Returns the created folder, if it exists.
    pub fn find(&self) -> Option<PathBuf> {
        Some(self.finished()).filter(|folder| folder.is_dir())
    }

    /// Returns the folder from the cache, or creates it. `tell` receives the progress.
    pub async fn build(&self, mut tell: impl FnMut(&str)) -> Result<PathBuf, ScriptError> {
        if let Some(built) = self.find() {
            return Ok(built);
        }
        on(&self.cache, "create", fs::create_dir_all(&self.cache))?;
        let _lock = self.lock(&mut tell).await?;
        // The previous holder of the lock may have created the folder.
        if let Some(built) = self.find() {
            return Ok(built);
        }
        let (unfinished, finished) = (self.cache.join(format!("{}.unfinished", self.digest)), self.finished());
        if unfinished.exists() {
            on(&unfinished, "remove", fs::remove_dir_all(&unfinished))?;
        }
        self.run_script(&unfinished, &mut tell).await?;
        on(&finished, "rename the result to", fs::rename(&unfinished, &finished))?;
        Ok(finished)
    }

    async fn run_script(&self, into: &Path, tell: &mut impl FnMut(&str)) -> Result<(), ScriptError> {
        let Recipe { what, needs, folder, files } = &self.recipe;
        let script = folder.join(files.first().copied().unwrap_or_default());
        let failed = |source| ScriptError::File { step: "run", path: script.clone(), source };
        let log = self.cache.join(format!("{}.log", self.digest));
        let complaints = on(&log, "create", File::create(&log))?;
        let arguments: Vec<PathBuf> =
            [script.clone(), into.to_owned()].into_iter().chain(self.arguments.iter().cloned()).collect();
        let started = Guarded::start_piped(Path::new("sh"), &arguments, complaints);
        let (mut script, stdout) = started.map_err(|error| failed(io::Error::other(error)))?;
        if let Some(stdout) = stdout {
            let mut lines = BufReader::new(stdout).lines();
            while let Some(line) = lines.next_line().await.map_err(failed)? {
                tell(&line);
            }
        }
        let ended = script.until_ended().await.map_err(|error| failed(io::Error::other(error)))?;
        let said = tail(&log, ERROR_LINES);
        let _ = fs::remove_file(&log); // It is part of the error, or not needed.
        if ended.success() { Ok(()) } else { Err(ScriptError::Failed { what, needs, said }) }
    }

    /// Waits for the lock asynchronously, because the holder may need minutes.
    async fn lock(&self, tell: &mut impl FnMut(&str)) -> Result<File, ScriptError> {
        let path = self.cache.join(format!("{}.lock", self.digest));
        let file = on(&path, "open", File::create(&path))?;
        let mut told = false;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(fs::TryLockError::WouldBlock) => {
                    if !std::mem::replace(&mut told, true) {
                        tell("another process is creating the same; waiting");
                    }
                    tokio::time::sleep(Duration::from_millis(500)).await;
                }
                Err(fs::TryLockError::Error(source)) => return Err(ScriptError::File { step: "lock", path, source }),
            }
        }
    }
}

fn digest(parts: &[Vec<u8>]) -> String {
    let mut context = ring::digest::Context::new(&ring::digest::SHA256);
    for part in parts {
        // The length is included, so that a line that moves from one file to another changes the digest.
        context.update(&(part.len() as u64).to_be_bytes());
        context.update(part);
    }
    // 128 bits are sufficient to distinguish recipes, and short enough for a path.
    context.finish().as_ref().iter().take(16).fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}"); // writing to a String cannot fail
        text
    })
}

fn on<T>(path: &Path, step: &'static str, outcome: io::Result<T>) -> Result<T, ScriptError> {
    outcome.map_err(|source| ScriptError::File { step, path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scripted(folder: &tempfile::TempDir, script: &str) -> Scripted {
        fs::write(folder.path().join("build.sh"), script).unwrap();
        fs::write(folder.path().join("packages.txt"), "").unwrap();
        let recipe = Recipe {
            what: "the root image",
            needs: "curl",
            folder: folder.path().to_owned(),
            files: &["build.sh", "packages.txt"],
        };
        Scripted::new(recipe, &folder.path().join("cache")).unwrap()
    }

    /// Shows HST-13.
    #[tokio::test]
    async fn a_folder_is_created_once_by_concurrent_callers() {
        let folder = tempfile::tempdir().unwrap();
        let scripted = scripted(&folder, "mkdir -p \"$1/root\"; echo working; echo made >>\"$1/../made\"\n");
        assert_eq!(scripted.find(), None);
        let mut told = Vec::new();
        let (one, two) = tokio::join!(scripted.build(|line| told.push(line.to_owned())), scripted.build(|_| ()));
        assert_eq!(one.unwrap(), two.unwrap());
        assert_eq!(told, ["working"]);
        assert!(scripted.find().unwrap().join("root").is_dir());
        assert_eq!(fs::read_to_string(folder.path().join("cache/made")).unwrap(), "made\n");
    }

    /// Shows HST-13.
    #[tokio::test]
    async fn a_failed_script_returns_its_error_and_no_result() {
        let folder = tempfile::tempdir().unwrap();
        let scripted = scripted(&folder, "mkdir -p \"$1/root\"; echo 'curl: no such host' >&2; exit 6\n");
        let error = scripted.build(|_| ()).await.unwrap_err().to_string();
        assert_eq!(error, "failed to create the root image, which needs curl:\ncurl: no such host");
        assert_eq!(scripted.find(), None);
    }

    #[tokio::test]
    async fn a_script_is_killed_with_its_children_on_cancellation() {
        let folder = tempfile::tempdir().unwrap();
        // The script waits for a child process that runs in a loop.
        let script =
            "mkdir -p \"$1\"; (while :; do echo on >>\"$1/../on\"; echo begun; sleep 0.05; done) | cat; true\n";
        let scripted = scripted(&folder, script);
        let (begun, mut told) = tokio::sync::oneshot::channel();
        let mut begun = Some(begun);
        let building = scripted.build(|_| {
            let _ = begun.take().map(|begun| begun.send(()));
        });
        tokio::select! {
            built = building => panic!("{built:?}"),
            _ = &mut told => {}
        }
        let on = folder.path().join("cache/on");
        let lines = || fs::read_to_string(&on).unwrap().lines().count();
        let silent = async {
            let mut before = usize::MAX;
            while lines() != before {
                before = lines();
                tokio::time::sleep(Duration::from_millis(300)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), silent).await.unwrap();
    }

    #[tokio::test]
    async fn an_argument_is_passed_and_changes_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let script = "mkdir -p \"$1\"; echo \"$2\" >\"$1/argument\"\n";
        let given = |argument: &str| scripted(&folder, script).given(vec![argument.into()]);
        assert_ne!(given("/a").digest(), given("/b").digest());
        assert_ne!(given("/a").digest(), scripted(&folder, script).digest());
        let made = given("/a").build(|_| ()).await.unwrap();
        assert_eq!(fs::read_to_string(made.join("argument")).unwrap(), "/a\n");
    }

    /// Shows HST-13.
    #[test]
    fn a_changed_input_changes_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let before = scripted(&folder, "true\n");
        assert_eq!(scripted(&folder, "true\n"), before);
        fs::write(folder.path().join("packages.txt"), "#").unwrap();
        assert_ne!(Scripted::new(before.recipe.clone(), folder.path()).unwrap().digest(), before.digest());
    }
}

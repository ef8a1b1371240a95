//! What a script of this repository makes once for each user: roots of file systems that are fetched, unpacked and set up in minutes.
//!
//! A digest of the script and of what it reads names the folder, so a fresh clone finds what another one made. The script works in another
//! folder beside it, which is renamed when all is there, so what was interrupted is not taken for a result. It ends with whoever waits for it, and with it all that it began.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader};

use crate::guard::{Guarded, tail};

const LAST_WORDS: usize = 10;

/// What is made, by which script, and where it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scripted {
    recipe: Recipe,
    /// What the script is given besides the folder to make.
    arguments: Vec<PathBuf>,
    cache: PathBuf,
    digest: String,
}

/// A script, and what has to be known of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recipe {
    /// What it makes, for errors: "the root image".
    pub what: &'static str,
    /// What it needs, for errors.
    pub needs: &'static str,
    /// The folder with the script and all it reads.
    pub folder: PathBuf,
    /// The script and all it reads, below the folder. The first one is run with `sh`, is given the folder to make, and says on standard output what it is doing.
    pub files: &'static [&'static str],
}

/// Why it was not made.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// A file or folder cannot be used.
    #[error("failed to {step} {path}")]
    File {
        /// What was tried.
        step: &'static str,
        /// With what.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The script ended with an error.
    #[error("failed to make {what}: it needs {needs}. It said:\n{said}")]
    Failed {
        /// What was to be made.
        what: &'static str,
        /// What the script needs.
        needs: &'static str,
        /// Its last lines.
        said: String,
    },
}

impl Scripted {
    /// By this recipe, kept in `cache`.
    pub fn new(recipe: Recipe, cache: &Path) -> Result<Self, ScriptError> {
        let texts = recipe.files.iter().map(|name| {
            let path = recipe.folder.join(name);
            on(&path, "read", fs::read(&path))
        });
        let digest = digest(&texts.collect::<Result<Vec<_>, _>>()?);
        Ok(Self { recipe, arguments: Vec::new(), cache: cache.to_owned(), digest })
    }

    /// The script is given these too. They name what they lead to, as a path in the cache does: what has the same arguments is the same.
    #[must_use]
    pub fn given(self, arguments: Vec<PathBuf>) -> Self {
        let before = std::iter::once(self.digest.into_bytes());
        let digest = digest(
            &before.chain(arguments.iter().map(|path| path.as_os_str().as_bytes().to_vec())).collect::<Vec<_>>(),
        );
        Self { arguments, digest, ..self }
    }

    /// Names what is made: equal for equal files.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// The folder with the script.
    pub fn recipe(&self) -> &Path {
        &self.recipe.folder
    }

    /// Where it is once it is made.
    pub fn finished(&self) -> PathBuf {
        self.cache.join(&self.digest)
    }

    /// The folder that was made, if somebody made it.
    pub fn find(&self) -> Option<PathBuf> {
        Some(self.finished()).filter(|folder| folder.is_dir())
    }

    /// The folder in the cache, or a new one. `tell` hears what is being done.
    pub async fn build(&self, mut tell: impl FnMut(&str)) -> Result<PathBuf, ScriptError> {
        if let Some(built) = self.find() {
            return Ok(built);
        }
        on(&self.cache, "make", fs::create_dir_all(&self.cache))?;
        let _lock = self.lock(&mut tell).await?;
        // Whoever held the lock before us may have done the work.
        if let Some(built) = self.find() {
            return Ok(built);
        }
        let (unfinished, finished) = (self.cache.join(format!("{}.unfinished", self.digest)), self.finished());
        if unfinished.exists() {
            on(&unfinished, "remove", fs::remove_dir_all(&unfinished))?;
        }
        self.run_script(&unfinished, &mut tell).await?;
        on(&finished, "rename what was made to", fs::rename(&unfinished, &finished))?;
        Ok(finished)
    }

    async fn run_script(&self, into: &Path, tell: &mut impl FnMut(&str)) -> Result<(), ScriptError> {
        let Recipe { what, needs, folder, files } = &self.recipe;
        let script = folder.join(files.first().copied().unwrap_or_default());
        let failed = |source| ScriptError::File { step: "run", path: script.clone(), source };
        let log = self.cache.join(format!("{}.log", self.digest));
        let complaints = on(&log, "make", File::create(&log))?;
        let arguments: Vec<PathBuf> =
            [script.clone(), into.to_owned()].into_iter().chain(self.arguments.iter().cloned()).collect();
        let started = Guarded::heard(Path::new("sh"), &arguments, complaints);
        let (mut script, stdout) = started.map_err(|error| failed(io::Error::other(error)))?;
        if let Some(stdout) = stdout {
            let mut lines = BufReader::new(stdout).lines();
            while let Some(line) = lines.next_line().await.map_err(failed)? {
                tell(&line);
            }
        }
        let ended = script.until_ended().await.map_err(|error| failed(io::Error::other(error)))?;
        let said = tail(&log, LAST_WORDS);
        let _ = fs::remove_file(&log); // it is in the error, or of no interest
        if ended.success() { Ok(()) } else { Err(ScriptError::Failed { what, needs, said }) }
    }

    /// Waits for the lock without holding a thread: the holder may need minutes.
    async fn lock(&self, tell: &mut impl FnMut(&str)) -> Result<File, ScriptError> {
        let path = self.cache.join(format!("{}.lock", self.digest));
        let file = on(&path, "open", File::create(&path))?;
        let mut told = false;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(fs::TryLockError::WouldBlock) => {
                    if !std::mem::replace(&mut told, true) {
                        tell("somebody else is making the same; waiting for theirs");
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
        // The length keeps a line that moves from one file to the other from going unnoticed.
        context.update(&(part.len() as u64).to_be_bytes());
        context.update(part);
    }
    // 128 bits are plenty to tell recipes apart, and short enough to read in a path.
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
    async fn a_folder_is_made_once_by_two_who_want_it_and_then_found() {
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
    async fn a_folder_that_cannot_be_made_says_why_and_leaves_no_result() {
        let folder = tempfile::tempdir().unwrap();
        let scripted = scripted(&folder, "mkdir -p \"$1/root\"; echo 'curl: no such host' >&2; exit 6\n");
        let error = scripted.build(|_| ()).await.unwrap_err().to_string();
        assert_eq!(error, "failed to make the root image: it needs curl. It said:\ncurl: no such host");
        assert_eq!(scripted.find(), None);
    }

    #[tokio::test]
    async fn a_script_whose_caller_gives_up_is_ended_with_all_that_it_began() {
        let folder = tempfile::tempdir().unwrap();
        // The program that it begins is in the middle of something, and the script waits for it.
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
    async fn another_argument_is_another_folder_and_the_script_is_given_it() {
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
    fn another_file_is_another_folder() {
        let folder = tempfile::tempdir().unwrap();
        let before = scripted(&folder, "true\n");
        assert_eq!(scripted(&folder, "true\n"), before);
        fs::write(folder.path().join("packages.txt"), "#").unwrap();
        assert_ne!(Scripted::new(before.recipe.clone(), folder.path()).unwrap().digest(), before.digest());
    }
}

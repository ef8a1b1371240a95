//! The root image of machines that are real: containerd, runc, CNI plug-ins and busybox from Debian's packages, and images for their pods.
//!
//! `hack/node-image` names the packages by checksum and has the script that unpacks them. `cargo xtask node-image build` runs it once for each
//! pin and user: a digest of both files names the folder, so a fresh clone finds what another one made, and what was interrupted is not taken
//! for a result.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use control_plane::cache::CacheError;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

/// What is made, and where it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeImage {
    recipe: PathBuf,
    cache: PathBuf,
    digest: String,
}

/// An image that is complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Built {
    folder: PathBuf,
}

/// Why there is no image.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The user has no cache.
    #[error(transparent)]
    Cache(#[from] CacheError),
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
    #[error(
        "failed to make the root image: it needs root, curl, dpkg-deb, tar and a mirror of Debian. It said:\n{said}"
    )]
    Failed {
        /// Its last lines.
        said: String,
    },
}

impl NodeImage {
    /// That of the repository this crate was compiled in, in the cache of the user who runs this process.
    pub fn of_this_repository() -> Result<Self, ImageError> {
        let beside = control_plane::Cache::of_this_user()?;
        let cache = beside.folder().parent().ok_or(CacheError::NoHome)?.join("node-image");
        Self::new(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../hack/node-image"), &cache)
    }

    /// By the files in `recipe`, kept in `cache`.
    pub fn new(recipe: &Path, cache: &Path) -> Result<Self, ImageError> {
        let mut context = ring::digest::Context::new(&ring::digest::SHA256);
        for name in ["build.sh", "packages.txt"] {
            let path = recipe.join(name);
            let text = on(&path, "read", fs::read(&path))?;
            // The length keeps a line that moves from one file to the other from going unnoticed.
            context.update(&(text.len() as u64).to_be_bytes());
            context.update(&text);
        }
        // 128 bits are plenty to tell recipes apart, and short enough to read in a path.
        let digest = context.finish().as_ref().iter().take(16).fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}"); // writing to a String cannot fail
            text
        });
        Ok(Self { recipe: recipe.to_owned(), cache: cache.to_owned(), digest })
    }

    /// The image, if somebody made it.
    pub fn find(&self) -> Option<Built> {
        let folder = self.cache.join(&self.digest);
        folder.is_dir().then_some(Built { folder })
    }

    /// The image in the cache, or a new one. `tell` hears what is being done.
    pub async fn build(&self, mut tell: impl FnMut(&str)) -> Result<Built, ImageError> {
        if let Some(built) = self.find() {
            return Ok(built);
        }
        on(&self.cache, "make", fs::create_dir_all(&self.cache))?;
        let _lock = self.lock(&mut tell).await?;
        // Whoever held the lock before us may have done the work.
        if let Some(built) = self.find() {
            return Ok(built);
        }
        let (unfinished, finished) =
            (self.cache.join(format!("{}.unfinished", self.digest)), self.cache.join(&self.digest));
        if unfinished.exists() {
            on(&unfinished, "remove", fs::remove_dir_all(&unfinished))?;
        }
        self.run_script(&unfinished, &mut tell).await?;
        on(&finished, "rename the finished image to", fs::rename(&unfinished, &finished))?;
        Ok(Built { folder: finished })
    }

    async fn run_script(&self, into: &Path, tell: &mut impl FnMut(&str)) -> Result<(), ImageError> {
        let script = self.recipe.join("build.sh");
        let failed = |source| ImageError::File { step: "run", path: script.clone(), source };
        let log = self.cache.join(format!("{}.log", self.digest));
        let complaints = on(&log, "make", File::create(&log))?;
        let mut child = Command::new("sh")
            .arg(&script)
            .arg(into)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(complaints)
            .kill_on_drop(true)
            .spawn()
            .map_err(failed)?;
        if let Some(stdout) = child.stdout.take() {
            let mut lines = BufReader::new(stdout).lines();
            while let Some(line) = lines.next_line().await.map_err(failed)? {
                tell(&line);
            }
        }
        let ended = child.wait().await.map_err(failed)?;
        let said = control_plane::guard::tail(&log, 10);
        let _ = fs::remove_file(&log); // it is in the error, or empty
        if ended.success() { Ok(()) } else { Err(ImageError::Failed { said }) }
    }

    /// Waits for the lock without holding a thread: the holder may need minutes.
    async fn lock(&self, tell: &mut impl FnMut(&str)) -> Result<File, ImageError> {
        let path = self.cache.join(format!("{}.lock", self.digest));
        let file = on(&path, "open", File::create(&path))?;
        let mut told = false;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(fs::TryLockError::WouldBlock) => {
                    if !std::mem::replace(&mut told, true) {
                        tell("somebody else is making the same image; waiting for theirs");
                    }
                    tokio::time::sleep(Duration::from_millis(500)).await;
                }
                Err(fs::TryLockError::Error(source)) => return Err(ImageError::File { step: "lock", path, source }),
            }
        }
    }
}

impl Built {
    /// The folder with all of it.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The root file system of machines.
    pub fn root(&self) -> PathBuf {
        self.folder.join("root")
    }

    /// Archives of images for pods.
    pub fn images(&self) -> PathBuf {
        self.folder.join("images")
    }
}

fn on<T>(path: &Path, step: &'static str, outcome: io::Result<T>) -> Result<T, ImageError> {
    outcome.map_err(|source| ImageError::File { step, path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(folder: &tempfile::TempDir, script: &str) -> NodeImage {
        fs::write(folder.path().join("build.sh"), script).unwrap();
        fs::write(folder.path().join("packages.txt"), "").unwrap();
        NodeImage::new(folder.path(), &folder.path().join("cache")).unwrap()
    }

    #[tokio::test]
    async fn an_image_is_made_once_by_two_who_want_it_and_then_found() {
        let folder = tempfile::tempdir().unwrap();
        let image = image(&folder, "mkdir -p \"$1/root\"; echo working; echo made >>\"$1/../made\"\n");
        assert_eq!(image.find(), None);
        let mut told = Vec::new();
        let (one, two) = tokio::join!(image.build(|line| told.push(line.to_owned())), image.build(|_| ()));
        assert_eq!(one.unwrap(), two.unwrap());
        assert_eq!(told, ["working"]);
        assert!(image.find().unwrap().root().is_dir());
        assert_eq!(fs::read_to_string(folder.path().join("cache/made")).unwrap(), "made\n");
    }

    #[tokio::test]
    async fn an_image_that_cannot_be_made_says_why_and_leaves_no_result() {
        let folder = tempfile::tempdir().unwrap();
        let image = image(&folder, "mkdir -p \"$1/root\"; echo 'curl: no such host' >&2; exit 6\n");
        let error = image.build(|_| ()).await.unwrap_err().to_string();
        assert!(error.ends_with("It said:\ncurl: no such host"), "{error}");
        assert_eq!(image.find(), None);
    }

    #[test]
    fn another_pin_is_another_image_and_every_package_has_a_checksum() {
        let image = NodeImage::of_this_repository().unwrap();
        let text = fs::read_to_string(image.recipe.join("packages.txt")).unwrap();
        let packages: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert!(packages.len() > 5);
        for line in packages {
            let (sum, url) = line.split_once(' ').unwrap();
            assert!(sum.len() == 64 && sum.bytes().all(|byte| byte.is_ascii_hexdigit()), "{line}");
            assert!(url.starts_with("http") && url.ends_with("_amd64.deb"), "{line}");
        }
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("build.sh"), fs::read(image.recipe.join("build.sh")).unwrap()).unwrap();
        fs::write(folder.path().join("packages.txt"), format!("{text}#\n")).unwrap();
        assert_ne!(NodeImage::new(folder.path(), folder.path()).unwrap().digest, image.digest);
    }
}

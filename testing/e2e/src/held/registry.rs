//! What runs under which name.
//!
//! The one who holds a control plane, say, locks a file that bears its name, so that a name is taken exactly as long as its holder
//! lives, however that ends. A link of the same name leads to its folder, and in there is the socket on which
//! the holder takes orders; no process id is ever written down, so none can be mistaken for a stranger's.

use std::fmt;
use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

/// The holder's socket, in the folder of what it holds.
pub(crate) const SOCKET: &str = "holder.sock";

/// A name: lower-case letters, digits and dashes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name(String);

impl FromStr for Name {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if text.is_empty() || text.len() > 40 || !text.chars().all(fits) {
            return Err("a name is 1 to 40 lower-case letters, digits and dashes".to_owned());
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The folder of names.
#[derive(Clone, Debug)]
pub(crate) struct Registry {
    /// What bears the names, for errors: "a control plane".
    what: &'static str,
    folder: PathBuf,
}

/// A name that is ours until this value is dropped or the process ends.
#[derive(Debug)]
pub(crate) struct NameReservation {
    link: PathBuf,
    path: PathBuf,
    _lock: File,
}

impl Registry {
    /// The names of one kind of things, in the cache of this user for them.
    pub(crate) fn open(what: &'static str, cache: &Path) -> anyhow::Result<Self> {
        let folder = cache.join("instances");
        fs::create_dir_all(&folder).with_context(|| format!("failed to make {}", folder.display()))?;
        Ok(Self { what, folder })
    }

    /// Takes a name, unless somebody has it.
    pub(crate) fn reserve(&self, name: &Name) -> anyhow::Result<NameReservation> {
        match self.try_reserve(name)? {
            Some(reservation) => Ok(reservation),
            None => bail!("{} named {name} runs already, or is just starting", self.what),
        }
    }

    fn try_reserve(&self, name: &Name) -> anyhow::Result<Option<NameReservation>> {
        let path = self.folder.join(format!("{name}.lock"));
        loop {
            let lock = File::create(&path).with_context(|| format!("failed to open {}", path.display()))?;
            match lock.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => {
                    return Err(error).with_context(|| format!("failed to lock {}", path.display()));
                }
            }
            // Who had the name before us may have removed the file between our two calls; then our lock locks nobody out.
            let ours = lock.metadata().with_context(|| format!("failed to look at {}", path.display()))?.ino();
            if fs::metadata(&path).is_ok_and(|there| there.ino() == ours) {
                let reservation = NameReservation { link: self.link(name), path, _lock: lock };
                remove(&reservation.link)?; // left by a holder that was killed
                return Ok(Some(reservation));
            }
        }
    }

    /// Forgets what a killed holder left. False if the name is taken: somebody is just starting under it.
    pub(crate) fn forget(&self, name: &Name) -> anyhow::Result<bool> {
        self.try_reserve(name)?.map(NameReservation::release).transpose().map(|released| released.is_some())
    }

    /// All names that lead somewhere, or did until their holder was killed.
    pub(crate) fn names(&self) -> anyhow::Result<Vec<Name>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.folder).with_context(|| format!("failed to read {}", self.folder.display()))? {
            // A lock file's name holds a dot, so it is not a Name.
            names.extend(entry?.file_name().to_str().and_then(|name| Name::from_str(name).ok()));
        }
        names.sort_unstable();
        Ok(names)
    }

    /// The folder of what bears this name.
    pub(crate) fn home(&self, name: &Name) -> Option<PathBuf> {
        fs::read_link(self.link(name)).ok()
    }

    /// Says a word to the holder and gives back its answer; nothing if nobody holds this name.
    pub(crate) async fn ask(&self, name: &Name, word: &str) -> anyhow::Result<Option<String>> {
        let Some(home) = self.home(name) else { return Ok(None) };
        let socket = home.join(SOCKET);
        let mut stream = match UnixStream::connect(&socket).await {
            Ok(stream) => stream,
            // The holder was killed; its guards have cleaned up, or are about to.
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => {
                return Ok(None);
            }
            Err(error) => return Err(error).with_context(|| format!("failed to reach {}", socket.display())),
        };
        let mut answer = String::new();
        let exchange = async {
            stream.write_all(format!("{word}\n").as_bytes()).await?;
            stream.read_to_string(&mut answer).await
        };
        exchange.await.with_context(|| format!("failed to talk to the holder of {name}"))?;
        if answer.is_empty() {
            bail!("the holder of {name} gave no answer to `{word}`");
        }
        Ok(Some(answer))
    }

    fn link(&self, name: &Name) -> PathBuf {
        self.folder.join(&name.0)
    }
}

impl NameReservation {
    /// Makes the name lead to `home`.
    pub(crate) fn lead_to(&self, home: &Path) -> anyhow::Result<()> {
        symlink(home, &self.link).with_context(|| format!("failed to make {}", self.link.display()))
    }

    /// Gives the name back, and tells if that failed.
    pub(crate) fn release(self) -> anyhow::Result<()> {
        self.clear()
    }

    fn clear(&self) -> anyhow::Result<()> {
        remove(&self.link)?;
        remove(&self.path)
    }
}

impl Drop for NameReservation {
    /// For a start that failed. What stays when this fails too, the next reservation of the name removes.
    fn drop(&mut self) {
        let _ = self.clear();
    }
}

fn remove(path: &Path) -> anyhow::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("failed to remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        text.parse().unwrap()
    }

    fn registry() -> (tempfile::TempDir, Registry) {
        let folder = tempfile::tempdir().unwrap();
        let registry = Registry::open("a control plane", folder.path()).unwrap();
        (folder, registry)
    }

    #[test]
    fn a_name_cannot_lead_out_of_its_folder() {
        for bad in ["", "..", "a/b", "A", "a b", &"a".repeat(41)] {
            assert!(Name::from_str(bad).is_err(), "{bad}");
        }
    }

    /// Shows PLN-4.
    #[test]
    fn a_name_is_taken_until_its_holder_is_gone() {
        let (_folder, registry) = registry();
        let first = registry.reserve(&name("a")).unwrap();
        let error = registry.reserve(&name("a")).unwrap_err().to_string();
        assert_eq!(error, "a control plane named a runs already, or is just starting");
        assert!(registry.reserve(&name("b")).is_ok(), "another name is free");
        drop(first);
        assert!(registry.reserve(&name("a")).is_ok());
        assert_eq!(fs::read_dir(&registry.folder).unwrap().count(), 0, "a reservation that ended leaves no file");
    }

    #[tokio::test]
    async fn a_link_that_a_killed_holder_left_leads_nowhere_and_is_replaced() {
        let (folder, registry) = registry();
        symlink(folder.path().join("gone"), registry.link(&name("a"))).unwrap();
        assert_eq!(registry.names().unwrap(), [name("a")]);
        assert_eq!(registry.ask(&name("a"), "status").await.unwrap(), None);
        let reservation = registry.reserve(&name("a")).unwrap();
        reservation.lead_to(folder.path()).unwrap();
        assert_eq!(registry.home(&name("a")).as_deref(), Some(folder.path()));
        reservation.release().unwrap();
        assert_eq!(fs::read_dir(&registry.folder).unwrap().count(), 0);
    }

    #[test]
    fn what_a_killed_holder_left_can_be_forgotten_but_not_what_a_living_one_holds() {
        let (folder, registry) = registry();
        let living = registry.reserve(&name("a")).unwrap();
        living.lead_to(folder.path()).unwrap();
        assert!(!registry.forget(&name("a")).unwrap());
        assert!(registry.home(&name("a")).is_some());
        drop(living);
        symlink(folder.path().join("gone"), registry.link(&name("a"))).unwrap();
        assert!(registry.forget(&name("a")).unwrap());
        assert_eq!(fs::read_dir(&registry.folder).unwrap().count(), 0);
    }
}

//! Registry of running instances by name.
//!
//! The holder locks a file with the name of the instance, so a name is taken exactly as long as the holder runs. A
//! symbolic link with the name leads to the folder of the instance, which contains the socket of the holder. Process
//! ids are not stored, so a reused id cannot be mistaken for the holder.

use std::fmt;
use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

/// Socket of the holder, in the folder of the instance.
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

/// Folder of names.
#[derive(Clone, Debug)]
pub(crate) struct Registry {
    /// Kind of the instances, for errors: "a control plane".
    what: &'static str,
    folder: PathBuf,
}

/// A name that is reserved until this value is dropped or the process ends.
#[derive(Debug)]
pub(crate) struct NameReservation {
    link: PathBuf,
    path: PathBuf,
    _lock: File,
}

impl Registry {
    /// Opens the names of one kind of instances in the user's cache.
    pub(crate) fn open(what: &'static str, cache: &Path) -> anyhow::Result<Self> {
        let folder = cache.join("instances");
        fs::create_dir_all(&folder).with_context(|| format!("failed to create {}", folder.display()))?;
        Ok(Self { what, folder })
    }

    /// Reserves a name. Fails if it is taken.
    pub(crate) fn reserve(&self, name: &Name) -> anyhow::Result<NameReservation> {
        match self.try_reserve(name)? {
            Some(reservation) => Ok(reservation),
            None => bail!("{} named {name} is already running or starting", self.what),
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
            // The previous holder may have removed the file between the two calls. Then this lock has no effect.
            let ours = lock.metadata().with_context(|| format!("failed to get metadata of {}", path.display()))?.ino();
            if fs::metadata(&path).is_ok_and(|there| there.ino() == ours) {
                let reservation = NameReservation { link: self.link(name), path, _lock: lock };
                remove(&reservation.link)?; // left by a holder that was killed
                return Ok(Some(reservation));
            }
        }
    }

    /// Removes the files of a killed holder. Returns false if an instance with this name is starting.
    pub(crate) fn forget(&self, name: &Name) -> anyhow::Result<bool> {
        self.try_reserve(name)?.map(NameReservation::release).transpose().map(|released| released.is_some())
    }

    /// Returns all names, including those of killed holders.
    pub(crate) fn names(&self) -> anyhow::Result<Vec<Name>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.folder).with_context(|| format!("failed to read {}", self.folder.display()))? {
            // The name of a lock file contains a dot and is therefore not a Name.
            names.extend(entry?.file_name().to_str().and_then(|name| Name::from_str(name).ok()));
        }
        names.sort_unstable();
        Ok(names)
    }

    /// Returns the folder of the instance.
    pub(crate) fn home(&self, name: &Name) -> Option<PathBuf> {
        fs::read_link(self.link(name)).ok()
    }

    /// Sends a command to the holder and returns its response; `None` if there is no holder.
    pub(crate) async fn ask(&self, name: &Name, word: &str) -> anyhow::Result<Option<String>> {
        let Some(home) = self.home(name) else { return Ok(None) };
        let socket = home.join(SOCKET);
        let mut stream = match UnixStream::connect(&socket).await {
            Ok(stream) => stream,
            // The holder was killed; its guards clean up.
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => {
                return Ok(None);
            }
            Err(error) => return Err(error).with_context(|| format!("failed to connect to {}", socket.display())),
        };
        let mut answer = String::new();
        let exchange = async {
            stream.write_all(format!("{word}\n").as_bytes()).await?;
            stream.read_to_string(&mut answer).await
        };
        exchange.await.with_context(|| format!("failed to exchange messages with the holder of {name}"))?;
        if answer.is_empty() {
            bail!("the holder of {name} did not respond to `{word}`");
        }
        Ok(Some(answer))
    }

    fn link(&self, name: &Name) -> PathBuf {
        self.folder.join(&name.0)
    }
}

impl NameReservation {
    /// Links the name to `home`.
    pub(crate) fn lead_to(&self, home: &Path) -> anyhow::Result<()> {
        symlink(home, &self.link).with_context(|| format!("failed to create {}", self.link.display()))
    }

    /// Releases the name, and returns an error if that fails.
    pub(crate) fn release(self) -> anyhow::Result<()> {
        self.clear()
    }

    fn clear(&self) -> anyhow::Result<()> {
        remove(&self.link)?;
        remove(&self.path)
    }
}

impl Drop for NameReservation {
    /// For a failed start. If this fails too, the next reservation of the name removes the files.
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
    fn a_name_cannot_be_a_path_outside_its_folder() {
        for bad in ["", "..", "a/b", "A", "a b", &"a".repeat(41)] {
            assert!(Name::from_str(bad).is_err(), "{bad}");
        }
    }

    /// Shows PLN-4.
    #[test]
    fn a_name_is_reserved_until_its_reservation_is_dropped() {
        let (_folder, registry) = registry();
        let first = registry.reserve(&name("a")).unwrap();
        let error = registry.reserve(&name("a")).unwrap_err().to_string();
        assert_eq!(error, "a control plane named a is already running or starting");
        assert!(registry.reserve(&name("b")).is_ok(), "another name is free");
        drop(first);
        assert!(registry.reserve(&name("a")).is_ok());
        assert_eq!(fs::read_dir(&registry.folder).unwrap().count(), 0, "a reservation that ended leaves no file");
    }

    #[tokio::test]
    async fn a_dangling_link_of_a_killed_holder_is_replaced() {
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
    fn only_files_of_killed_holders_can_be_removed() {
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

//! Files that are read again when they change.
//!
//! A service account's token is replaced about every hour, a kubeconfig's token file in Gardener about every ten, a CA
//! whenever somebody rotates it. A controller that read them once works until the old ones expire and then fails all at once.
//!
//! Looking at a file's stamp costs a microsecond, so it is done at each use rather than on a timer: what the kubelet has put
//! there is what the next request carries. If the new content cannot be read or makes no sense, the old one stays in use;
//! it may still be valid, and half a rotation is common (certificate written, key not yet).

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::Mutex;

/// A file that could not be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It could not be read.
    #[error("failed to read {path}")]
    Read {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// It was read, and is not what it should be. What is wrong is said without quoting the content.
    #[error("failed to use {path}: {what}")]
    Content {
        /// Which file.
        path: PathBuf,
        /// What it should have been.
        what: String,
    },
}

/// What a file's content is made into.
type Form<T> = Box<dyn Fn(&[Vec<u8>]) -> Result<T, String> + Send + Sync>;

/// Something made from one or more files.
pub(crate) struct Reread<T> {
    paths: Vec<PathBuf>,
    form: Form<T>,
    kept: Mutex<Kept<T>>,
}

struct Kept<T> {
    made: Arc<T>,
    stamps: Option<Vec<Stamp>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    modified: Option<SystemTime>,
    length: u64,
}

impl<T> Reread<T> {
    /// Reads the files for the first time. `form` turns their contents, in the order of the paths, into what is wanted.
    pub(crate) fn open(
        paths: Vec<PathBuf>,
        form: impl Fn(&[Vec<u8>]) -> Result<T, String> + Send + Sync + 'static,
    ) -> Result<Self, FileError> {
        // The stamp is older than the content: a change in between is seen at the next look.
        let stamps = stamps(&paths);
        let made = Arc::new(read(&paths, &form)?);
        Ok(Self { paths, form: Box::new(form), kept: Mutex::new(Kept { made, stamps }) })
    }

    /// What the files say now, or said when they last made sense.
    pub(crate) fn current(&self) -> Arc<T> {
        let mut kept = self.kept.lock();
        let now = stamps(&self.paths);
        if now.is_none() || now == kept.stamps {
            return kept.made.clone();
        }
        match read(&self.paths, &self.form) {
            Ok(made) => kept.made = Arc::new(made),
            Err(error) => tracing::warn!(%error, "a file changed and cannot be used; what it said before stays in use"),
        }
        kept.stamps = now;
        kept.made.clone()
    }

    /// Reads the files again at the next use, changed or not. For when a server says that what they held is not accepted.
    pub(crate) fn distrust(&self) {
        self.kept.lock().stamps = None;
    }

    pub(crate) fn paths(&self) -> &[PathBuf] {
        &self.paths
    }
}

fn read<T>(paths: &[PathBuf], form: impl Fn(&[Vec<u8>]) -> Result<T, String>) -> Result<T, FileError> {
    let contents = paths.iter().map(|path| read_file(path)).collect::<Result<Vec<_>, _>>()?;
    form(&contents).map_err(|what| FileError::Content { path: paths.first().cloned().unwrap_or_default(), what })
}

pub(crate) fn read_file(path: &Path) -> Result<Vec<u8>, FileError> {
    std::fs::read(path).map_err(|source| FileError::Read { path: path.to_owned(), source })
}

fn stamps(paths: &[PathBuf]) -> Option<Vec<Stamp>> {
    let stamp = |path: &PathBuf| {
        let metadata = std::fs::metadata(path).ok()?;
        Some(Stamp { modified: metadata.modified().ok(), length: metadata.len() })
    };
    paths.iter().map(stamp).collect()
}

// What was made of the files is left out: it is a token or a key.
impl<T> fmt::Debug for Reread<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reread").field("paths", &self.paths).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(contents: &[Vec<u8>]) -> Result<String, String> {
        let text = contents.concat();
        if text.is_empty() { Err("it is empty".to_owned()) } else { Ok(String::from_utf8(text).unwrap()) }
    }

    fn write(path: &Path, content: &str) {
        std::fs::write(path, content).unwrap();
    }

    #[test]
    fn a_changed_file_is_read_again_and_a_broken_one_is_not_believed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        write(&path, "one");
        let file = Reread::open(vec![path.clone()], text).unwrap();
        assert_eq!(*file.current(), "one");
        write(&path, "second");
        assert_eq!(*file.current(), "second");
        write(&path, "");
        assert_eq!(*file.current(), "second");
        std::fs::remove_file(&path).unwrap();
        assert_eq!(*file.current(), "second");
        write(&path, "third");
        assert_eq!(*file.current(), "third");
    }

    #[test]
    fn a_distrusted_file_is_read_again_even_if_it_looks_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        write(&path, "one");
        let stamp = std::fs::metadata(&path).unwrap().modified().unwrap();
        let file = Reread::open(vec![path.clone()], text).unwrap();
        write(&path, "two");
        std::fs::File::options().write(true).open(&path).unwrap().set_modified(stamp).unwrap();
        assert_eq!(*file.current(), "one");
        file.distrust();
        assert_eq!(*file.current(), "two");
    }

    #[test]
    fn nothing_of_the_content_is_printed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        write(&path, "hunter2");
        let file = Reread::open(vec![path], text).unwrap();
        assert!(!format!("{file:?}").contains("hunter2"));
    }
}

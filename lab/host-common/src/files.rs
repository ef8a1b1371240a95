//! Files that are written atomically: each is written under another name and renamed.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use serde::{Deserialize, Serialize};

/// Writes a file atomically, readable only by its owner.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    let mut file = tempfile::Builder::new().prefix(".").tempfile_in(folder)?;
    file.write_all(bytes)?;
    file.as_file().sync_data()?;
    file.persist(path).map(drop).map_err(|error| error.error)
}

/// Writes a value as JSON.
pub fn write_json(path: &Path, value: &impl Serialize) -> io::Result<()> {
    write(path, &serde_json::to_vec(value)?)
}

/// Reads a value; `None` if the file does not exist.
pub fn read_json<T: for<'a> Deserialize<'a>>(path: &Path) -> io::Result<Option<T>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_file_can_be_read_back_and_only_by_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("machine.json");
        assert_eq!(read_json::<Vec<u8>>(&path).unwrap(), None);
        let record = vec![1_u8, 2];
        write_json(&path, &record).unwrap();
        write_json(&path, &record).unwrap();
        assert_eq!(read_json(&path).unwrap(), Some(record));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "temporary files must be removed");
    }
}

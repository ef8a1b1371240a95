//! A root image with a few programs of this host and their libraries, which is sufficient for an init and a small
//! script.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const PROGRAMS: [&str; 8] = ["sh", "mount", "umount", "rmdir", "sleep", "cat", "readlink", "sync"];

/// Creates the image in `folder`.
pub(crate) fn make(folder: &Path) {
    let mut libraries = BTreeSet::new();
    for program in PROGRAMS {
        let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).output().unwrap();
        let path = PathBuf::from(String::from_utf8(found.stdout).unwrap().trim());
        copy(&path, &folder.join("bin").join(program));
        let linked = Command::new("ldd").arg(&path).output().unwrap();
        let text = String::from_utf8_lossy(&linked.stdout).into_owned();
        libraries.extend(text.split_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from));
    }
    for library in libraries {
        copy(&library, &folder.join(library.strip_prefix("/").unwrap()));
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    fs::copy(from, to).unwrap();
}

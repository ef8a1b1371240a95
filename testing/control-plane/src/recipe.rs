//! The recipe of a build: a folder with `go.mod` and `go.sum`.
//!
//! The two files contain every version and checksum of the programs, so a digest of them identifies the programs:
//! another clone finds compiled programs, and changed versions are compiled again.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::program::Program;

/// The pinned versions of a control plane or of another program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recipe {
    folder: PathBuf,
    digest: String,
    go: String,
    version: String,
    programs: &'static [Program],
}

/// An invalid recipe.
#[derive(Debug, thiserror::Error)]
pub enum RecipeError {
    /// One of the two files cannot be read.
    #[error("failed to read {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// `go.mod` lacks a line that the build needs.
    #[error("failed to find {what} in {path}")]
    Incomplete {
        /// Description of the missing line.
        what: String,
        /// The file.
        path: PathBuf,
    },
}

impl Recipe {
    /// Returns the recipe of the control plane in this repository.
    pub fn of_this_repository() -> Result<Self, RecipeError> {
        Self::read(&hack().join("control-plane"), &Program::ALL)
    }

    /// Returns the recipe of the kubelet of the same release.
    pub fn of_the_kubelet() -> Result<Self, RecipeError> {
        Self::read(&hack().join("kubelet"), &[Program::Kubelet])
    }

    /// Returns the recipe of helm.
    pub fn of_helm() -> Result<Self, RecipeError> {
        Self::read(&hack().join("helm"), &[Program::Helm])
    }

    /// Reads the recipe in `folder` for these programs of one release.
    pub fn read(folder: &Path, programs: &'static [Program]) -> Result<Self, RecipeError> {
        let read = |name: &str| {
            let path = folder.join(name);
            fs::read_to_string(&path).map_err(|source| RecipeError::Read { path, source })
        };
        let (go_mod, go_sum) = (read("go.mod")?, read("go.sum")?);
        let missing = |what: String| RecipeError::Incomplete { what, path: folder.join("go.mod") };
        let module = programs.first().map_or("k8s.io/kubernetes", |program| program.module());
        Ok(Self {
            folder: folder.to_owned(),
            digest: digest(&go_mod, &go_sum),
            go: word_after(&go_mod, "go").ok_or_else(|| missing("a `go` line".to_owned()))?,
            version: word_after(&go_mod, module).ok_or_else(|| missing(format!("the version of {module}")))?,
            programs,
        })
    }

    /// Returns the working directory for `go`.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the programs to compile, in this order.
    pub fn programs(&self) -> &'static [Program] {
        self.programs
    }

    /// Returns the digest, which is equal for equal `go.mod` and `go.sum`.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Returns the minimum version of Go, such as `1.26.0`.
    pub fn go(&self) -> &str {
        &self.go
    }

    /// Returns the version that the programs report, such as `v1.36.3`.
    pub fn version(&self) -> &str {
        &self.version
    }
}

fn hack() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../hack")
}

/// Returns a digest of 128 bits, which is sufficient to distinguish recipes, and short enough for a path.
fn digest(go_mod: &str, go_sum: &str) -> String {
    let mut context = ring::digest::Context::new(&ring::digest::SHA256);
    for part in [go_mod, go_sum] {
        // The length is included, so that a line that moves from one file to the other changes the digest.
        context.update(&(part.len() as u64).to_be_bytes());
        context.update(part.as_bytes());
    }
    context.finish().as_ref().iter().take(16).fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}"); // writing to a String cannot fail
        text
    })
}

/// Returns the word after `first` in the line that begins with it, inside or outside of a `require (…)` block.
fn word_after(text: &str, first: &str) -> Option<String> {
    text.lines()
        .map(|line| line.trim_start().trim_start_matches("require "))
        .map(str::split_whitespace)
        .find_map(|mut words| if words.next() == Some(first) { words.next().map(str::to_owned) } else { None })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GO_MOD: &str = "module x\n\ngo 1.26.0\n\ntool (\n\tk8s.io/kubernetes/cmd/kubectl\n)\n\nrequire (\n\tk8s.io/kubernetes v1.36.3 // indirect\n)\n";

    fn folder(go_mod: &str, go_sum: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("go.mod"), go_mod).unwrap();
        fs::write(folder.path().join("go.sum"), go_sum).unwrap();
        folder
    }

    #[test]
    fn the_versions_are_those_of_go_mod() {
        let recipe = Recipe::read(folder(GO_MOD, "").path(), &Program::ALL).unwrap();
        assert_eq!((recipe.go(), recipe.version()), ("1.26.0", "v1.36.3"));
    }

    /// Shows PLN-1.
    #[test]
    fn a_change_of_either_file_changes_the_digest() {
        let digest = |m: &str, s: &str| Recipe::read(folder(m, s).path(), &Program::ALL).unwrap().digest().to_owned();
        let first = digest(GO_MOD, "a\n");
        assert_eq!(first, digest(GO_MOD, "a\n"));
        assert_ne!(first, digest(GO_MOD, "b\n"));
        assert_ne!(first, digest(&format!("{GO_MOD}\n"), "a\n"));
        assert_ne!(digest(&format!("{GO_MOD}a\n"), ""), first, "a line that moved between the files");
    }

    #[test]
    fn a_recipe_without_a_version_is_rejected() {
        let error = Recipe::read(folder("go 1.26.0\n", "").path(), &Program::ALL).unwrap_err();
        assert!(error.to_string().starts_with("failed to find the version of k8s.io/kubernetes in "), "{error}");
    }

    /// Shows HST-13.
    #[test]
    fn recipes_name_every_program_and_are_of_one_release() {
        let recipes =
            [Recipe::of_this_repository().unwrap(), Recipe::of_the_kubelet().unwrap(), Recipe::of_helm().unwrap()];
        for recipe in &recipes {
            let go_mod = fs::read_to_string(recipe.folder().join("go.mod")).unwrap();
            let named = |package: &str| go_mod.lines().any(|line| line.trim().trim_start_matches("tool ") == package);
            for program in recipe.programs() {
                assert!(named(program.package()), "{program} is not a tool of go.mod");
            }
        }
        assert_eq!(recipes[0].version(), recipes[1].version());
    }
}

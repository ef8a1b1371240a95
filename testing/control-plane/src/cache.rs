//! Where compiled programs are kept between runs: `millwright/control-plane/<digest>` under the user's cache directory.
//!
//! A folder that bears a digest is complete. The compiler works in another one beside it and renames it when all
//! programs are there, so there is nothing to check and nothing half done to trip over.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::program::Program;
use crate::recipe::Recipe;

/// The folder that holds the programs of all recipes ever compiled by this user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    folder: PathBuf,
}

/// Why the programs cannot be had.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum CacheError {
    /// Neither variable that could name a cache directory is set.
    #[error("failed to find a cache directory: set XDG_CACHE_HOME or HOME")]
    NoHome,
    /// Nobody compiled this recipe yet.
    #[error("failed to find the control plane's programs in {folder}: run `cargo xtask control-plane build` first")]
    NotBuilt {
        /// Where they would be.
        folder: PathBuf,
    },
}

impl Cache {
    /// The cache of the user who runs this process.
    #[allow(
        clippy::disallowed_methods,
        reason = "a tool for tests; this is the one place that asks whose cache it uses"
    )]
    pub fn of_this_user() -> Result<Self, CacheError> {
        Self::under(std::env::var_os("XDG_CACHE_HOME"), std::env::var_os("HOME"))
    }

    /// The cache that these values of `XDG_CACHE_HOME` and `HOME` name. A relative `XDG_CACHE_HOME` is ignored, as its
    /// specification asks.
    pub fn under(xdg: Option<OsString>, home: Option<OsString>) -> Result<Self, CacheError> {
        let given = |value: Option<OsString>| value.map(PathBuf::from).filter(|path| path.is_absolute());
        let root = given(xdg).or_else(|| given(home).map(|home| home.join(".cache"))).ok_or(CacheError::NoHome)?;
        Ok(Self::at(&root.join("millwright/control-plane")))
    }

    /// The folder beside it that holds something else of the same user.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.folder.with_file_name(name)
    }

    /// A cache in exactly this folder; for tests.
    pub fn at(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    /// The folder itself.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where the programs of `recipe` are once they are complete.
    pub fn finished(&self, recipe: &Recipe) -> PathBuf {
        self.folder.join(recipe.digest())
    }

    /// Where they are while they are being compiled.
    pub(crate) fn unfinished(&self, recipe: &Recipe) -> PathBuf {
        self.folder.join(format!("{}.unfinished", recipe.digest()))
    }

    /// Locked by whoever compiles `recipe`.
    pub(crate) fn lock(&self, recipe: &Recipe) -> PathBuf {
        self.folder.join(format!("{}.lock", recipe.digest()))
    }
}

/// A complete set of programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binaries {
    folder: PathBuf,
}

impl Binaries {
    /// The programs of `recipe`, if somebody compiled them.
    pub fn find(cache: &Cache, recipe: &Recipe) -> Result<Self, CacheError> {
        let folder = cache.finished(recipe);
        if folder.is_dir() { Ok(Self { folder }) } else { Err(CacheError::NotBuilt { folder }) }
    }

    /// The folder they are in.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// One of them.
    pub fn path(&self, program: Program) -> PathBuf {
        self.folder.join(program.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case::named(Some("/c"), Some("/h"), Some("/c/millwright/control-plane"))]
    #[case::by_default(None, Some("/h"), Some("/h/.cache/millwright/control-plane"))]
    #[case::relative_is_ignored(Some("c"), Some("/h"), Some("/h/.cache/millwright/control-plane"))]
    #[case::empty_is_ignored(Some(""), Some("/h"), Some("/h/.cache/millwright/control-plane"))]
    #[case::nothing(None, None, None)]
    fn the_cache_is_where_the_user_keeps_caches(
        #[case] xdg: Option<&str>,
        #[case] home: Option<&str>,
        #[case] expected: Option<&str>,
    ) {
        let found = Cache::under(xdg.map(Into::into), home.map(Into::into));
        assert_eq!(found.ok().map(|cache| cache.folder), expected.map(PathBuf::from));
    }

    #[test]
    fn what_else_is_cached_is_beside_it() {
        assert_eq!(Cache::at(Path::new("/c/control-plane")).beside("openstack"), Path::new("/c/openstack"));
    }

    #[test]
    fn programs_that_nobody_compiled_are_missed_with_the_command_that_makes_them() {
        let nowhere = tempfile::tempdir().unwrap();
        let error = Binaries::find(&Cache::at(nowhere.path()), &Recipe::of_this_repository().unwrap()).unwrap_err();
        assert!(error.to_string().ends_with("run `cargo xtask control-plane build` first"), "{error}");
    }
}

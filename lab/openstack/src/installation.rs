//! What is started: a root of Debian's packages, and a layer on it with databases, users and a catalogue. Each is made once by a script of `hack/openstack`.
//!
//! They are made one by one because the packages take minutes to unpack and hardly ever change: who edits what runs in them waits for the layer alone.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use control_plane::Cache;
use control_plane::cache::CacheError;
use control_plane::scripted::{Recipe, ScriptError, Scripted};
use serde_json::Value;

/// What unpacks the packages, and all it reads.
const PACKAGES: [&str; 2] = ["packages.sh", "packages.txt"];

/// What makes the layer, and all it reads.
const LAYER: [&str; 12] = [
    "build.sh",
    "stack/agent.py",
    "stack/conf.sh",
    "stack/make.sh",
    "stack/millwright_lab.py",
    "stack/millwright_volumes.py",
    "stack/ready.py",
    "stack/seed.py",
    "stack/service.sh",
    "stack/start.sh",
    "stack/wait.sh",
    "stack/with.sh",
];

/// Makes an OpenStack, or finds the one that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installer {
    packages: Scripted,
    /// Given where the packages are, or will be.
    layer: Scripted,
}

/// An OpenStack that can be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installation {
    packages: PathBuf,
    folder: PathBuf,
}

/// Why there is none.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// The user has no cache.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The script cannot be run, or failed.
    #[error(transparent)]
    Script(#[from] ScriptError),
    /// What was made for the tenant cannot be read.
    #[error("failed to read {path}")]
    Tenant {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

impl Installer {
    /// That of the repository this crate was compiled in, in the cache of the user who runs this process.
    pub fn of_this_repository() -> Result<Self, InstallError> {
        let cache = Cache::of_this_user()?.beside("openstack");
        let packages = Recipe {
            what: "the packages of the OpenStack of tests",
            needs: "root, namespaces, wget, and apt-get with Debian 12 among its sources",
            folder: Path::new(env!("CARGO_MANIFEST_DIR")).join("../../hack/openstack"),
            files: &PACKAGES,
        };
        let layer = Recipe {
            what: "the OpenStack of tests",
            needs: "root, namespaces and an overlay file system",
            folder: packages.folder.clone(),
            files: &LAYER,
        };
        let packages = Scripted::new(packages, &cache)?;
        let layer = Scripted::new(layer, &cache)?.given(vec![packages.finished()]);
        Ok(Self { packages, layer })
    }

    /// The installation, if somebody made it.
    pub fn find(&self) -> Option<Installation> {
        Some(Installation { packages: self.packages.find()?, folder: self.layer.find()? })
    }

    /// The installation in the cache, or a new one. `tell` hears what is being done.
    pub async fn build(&self, mut tell: impl FnMut(&str)) -> Result<Installation, InstallError> {
        let packages = self.packages.build(&mut tell).await?;
        Ok(Installation { packages, folder: self.layer.build(tell).await? })
    }
}

impl Installation {
    /// The folder with what was made for it; the packages are beside it.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The ids of what was made for the tenant.
    pub(crate) fn tenant(&self) -> Result<Value, InstallError> {
        let path = self.folder.join("layer/stack/tenant.json");
        let read = fs::read(&path).and_then(|text| Ok(serde_json::from_slice(&text)?));
        read.map_err(|source| InstallError::Tenant { path, source })
    }

    /// The layers of the root file system, as the option `lowerdir` of an overlay names them.
    pub(crate) fn layers(&self) -> String {
        format!("{}:{}", self.folder.join("layer").display(), self.packages.join("root").display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_file_that_is_built_from_names_the_installation() {
        let recipe = Installer::of_this_repository().unwrap().layer.recipe().to_owned();
        let below = |folder: &str| {
            let entries = fs::read_dir(recipe.join(folder)).unwrap().flatten();
            entries.filter(|entry| entry.path().is_file()).map(|entry| entry.path()).collect::<Vec<_>>()
        };
        let there: BTreeSet<PathBuf> = below(".").into_iter().chain(below("stack")).collect();
        let named: BTreeSet<PathBuf> = PACKAGES
            .iter()
            .chain(&LAYER)
            .map(|file| if file.contains('/') { recipe.join(file) } else { recipe.join(".").join(file) })
            .collect();
        assert_eq!(there, named);
    }

    #[test]
    fn an_edit_of_what_runs_leaves_the_packages_as_they_are() {
        let named = |file: &str| PACKAGES.contains(&file);
        assert!(LAYER.iter().all(|file| !named(file)));
        let script = fs::read_to_string(Installer::of_this_repository().unwrap().packages.recipe().join("packages.sh"));
        assert!(!script.unwrap().contains("stack/"), "the packages are unpacked without any other file of ours");
    }

    #[test]
    fn every_service_is_pinned_to_a_release() {
        let recipe = Installer::of_this_repository().unwrap().packages.recipe().to_owned();
        let text = fs::read_to_string(recipe.join("packages.txt")).unwrap();
        for service in
            ["keystone=2:22.", "nova-api=2:26.", "neutron-server=2:21.", "glance-api=2:25.", "cinder-api=2:21."]
        {
            assert!(text.lines().any(|line| line.starts_with(service)), "{service}");
        }
    }
}

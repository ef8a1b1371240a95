//! What is started: a root of Debian's packages with databases, users and a catalogue in it, made once by `hack/openstack/build.sh`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use control_plane::Cache;
use control_plane::cache::CacheError;
use control_plane::scripted::{Recipe, ScriptError, Scripted};
use serde_json::Value;

/// The script, and all it reads.
const FILES: [&str; 13] = [
    "build.sh",
    "packages.txt",
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
pub struct Installer(Scripted);

/// An OpenStack that can be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installation {
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
        let recipe = Recipe {
            what: "the OpenStack of tests",
            needs: "root, namespaces, wget, and apt-get with Debian 12 among its sources",
            folder: Path::new(env!("CARGO_MANIFEST_DIR")).join("../../hack/openstack"),
            files: &FILES,
        };
        Ok(Self(Scripted::new(recipe, &Cache::of_this_user()?.beside("openstack"))?))
    }

    /// The installation, if somebody made it.
    pub fn find(&self) -> Option<Installation> {
        self.0.find().map(|folder| Installation { folder })
    }

    /// The installation in the cache, or a new one. `tell` hears what is being done.
    pub async fn build(&self, tell: impl FnMut(&str)) -> Result<Installation, InstallError> {
        Ok(Installation { folder: self.0.build(tell).await? })
    }
}

impl Installation {
    /// The folder with all of it.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The ids of what was made for the tenant.
    pub(crate) fn tenant(&self) -> Result<Value, InstallError> {
        let path = self.root().join("stack/tenant.json");
        let read = fs::read(&path).and_then(|text| Ok(serde_json::from_slice(&text)?));
        read.map_err(|source| InstallError::Tenant { path, source })
    }

    /// The root file system.
    pub(crate) fn root(&self) -> PathBuf {
        self.folder.join("root")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_file_that_is_built_from_names_the_installation() {
        let recipe = Installer::of_this_repository().unwrap().0.recipe().to_owned();
        let below = |folder: &str| {
            let entries = fs::read_dir(recipe.join(folder)).unwrap().flatten();
            entries.filter(|entry| entry.path().is_file()).map(|entry| entry.path()).collect::<Vec<_>>()
        };
        let there: BTreeSet<PathBuf> = below(".").into_iter().chain(below("stack")).collect();
        let named: BTreeSet<PathBuf> = FILES
            .iter()
            .map(|file| if file.contains('/') { recipe.join(file) } else { recipe.join(".").join(file) })
            .collect();
        assert_eq!(there, named);
    }

    #[test]
    fn every_service_is_pinned_to_a_release() {
        let text =
            fs::read_to_string(Installer::of_this_repository().unwrap().0.recipe().join("packages.txt")).unwrap();
        for service in
            ["keystone=2:22.", "nova-api=2:26.", "neutron-server=2:21.", "glance-api=2:25.", "cinder-api=2:21."]
        {
            assert!(text.lines().any(|line| line.starts_with(service)), "{service}");
        }
    }
}

//! The installation of OpenStack: a root of Debian's packages, and a layer with databases, users and a catalog. Each is
//! created once by a script of `hack/openstack`.
//!
//! They are separate, because the packages take minutes to unpack and rarely change; an edit of the services only
//! requires a new layer.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use control_plane::Cache;
use control_plane::cache::CacheError;
use control_plane::scripted::{Recipe, ScriptError, Scripted};
use serde_json::Value;

/// The script that unpacks the packages, and its inputs.
const PACKAGES: [&str; 2] = ["packages.sh", "packages.txt"];

/// The script that creates the layer, and its inputs.
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

/// Installs OpenStack, or finds an installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installer {
    packages: Scripted,
    /// Its argument is the folder of the packages.
    layer: Scripted,
}

/// An OpenStack that can be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installation {
    packages: PathBuf,
    folder: PathBuf,
}

/// A failed installation.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// The user has no cache.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The script cannot be run, or failed.
    #[error(transparent)]
    Script(#[from] ScriptError),
    /// The file with the tenant's resources cannot be read.
    #[error("failed to read {path}")]
    Tenant {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
}

impl Installer {
    /// Returns the installer of this repository, with the cache of the user of this process.
    pub fn of_this_repository() -> Result<Self, InstallError> {
        let cache = Cache::of_this_user()?.beside("openstack");
        let packages = Recipe {
            what: "the packages of OpenStack",
            needs: "root, namespaces, wget, and apt-get with Debian 12 among its sources",
            folder: Path::new(env!("CARGO_MANIFEST_DIR")).join("../../hack/openstack"),
            files: &PACKAGES,
        };
        let layer = Recipe {
            what: "the OpenStack installation",
            needs: "root, namespaces and an overlay file system",
            folder: packages.folder.clone(),
            files: &LAYER,
        };
        let packages = Scripted::new(packages, &cache)?;
        let layer = Scripted::new(layer, &cache)?.given(vec![packages.finished()]);
        Ok(Self { packages, layer })
    }

    /// Returns the installation, if it exists.
    pub fn find(&self) -> Option<Installation> {
        Some(Installation { packages: self.packages.find()?, folder: self.layer.find()? })
    }

    /// Returns the installation from the cache, or creates it. `tell` receives the progress.
    pub async fn build(&self, mut tell: impl FnMut(&str)) -> Result<Installation, InstallError> {
        let packages = self.packages.build(&mut tell).await?;
        Ok(Installation { packages, folder: self.layer.build(tell).await? })
    }
}

impl Installation {
    /// Returns the folder of the layer; the packages are in another one.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the ids of the tenant's resources.
    pub(crate) fn tenant(&self) -> Result<Value, InstallError> {
        let path = self.folder.join("layer/stack/tenant.json");
        let read = fs::read(&path).and_then(|text| Ok(serde_json::from_slice(&text)?));
        read.map_err(|source| InstallError::Tenant { path, source })
    }

    /// Returns the layers of the root file system, for the option `lowerdir` of an overlay.
    pub(crate) fn layers(&self) -> String {
        format!("{}:{}", self.folder.join("layer").display(), self.packages.join("root").display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_input_file_is_part_of_a_recipe() {
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
    fn an_edit_of_the_layer_does_not_change_the_packages() {
        let named = |file: &str| PACKAGES.contains(&file);
        assert!(LAYER.iter().all(|file| !named(file)));
        let script = fs::read_to_string(Installer::of_this_repository().unwrap().packages.recipe().join("packages.sh"));
        assert!(!script.unwrap().contains("stack/"), "the packages must not depend on files of the layer");
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

//! The root image of machines that are real: containerd, runc, CNI plug-ins and busybox from Debian's packages, and images for their pods.
//!
//! `hack/node-image` names the packages by checksum and has the script that unpacks them. `cargo xtask node-image build` runs it once for each
//! pin and user ([`control_plane::scripted`]).

use std::path::{Path, PathBuf};

use control_plane::cache::CacheError;
use control_plane::scripted::{Recipe, ScriptError, Scripted};

/// What is made, and where it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeImage(Scripted);

/// An image that is complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Built {
    folder: PathBuf,
}

/// Why there is no image.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The user has no cache.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The script cannot be run, or failed.
    #[error(transparent)]
    Script(#[from] ScriptError),
}

impl NodeImage {
    /// That of the repository this crate was compiled in, in the cache of the user who runs this process.
    pub fn of_this_repository() -> Result<Self, ImageError> {
        let recipe = Recipe {
            what: "the root image",
            needs: "root, curl, dpkg-deb, tar and a mirror of Debian",
            folder: Path::new(env!("CARGO_MANIFEST_DIR")).join("../../hack/node-image"),
            files: &["build.sh", "packages.txt"],
        };
        Ok(Self(Scripted::new(recipe, &control_plane::Cache::of_this_user()?.beside("node-image"))?))
    }

    /// The image, if somebody made it.
    pub fn find(&self) -> Option<Built> {
        self.0.find().map(|folder| Built { folder })
    }

    /// The image in the cache, or a new one. `tell` hears what is being done.
    pub async fn build(&self, tell: impl FnMut(&str)) -> Result<Built, ImageError> {
        Ok(Built { folder: self.0.build(tell).await? })
    }
}

impl Built {
    /// The folder with all of it.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The root file system of machines.
    pub fn root(&self) -> PathBuf {
        self.folder.join("root")
    }

    /// Archives of images for pods.
    pub fn images(&self) -> PathBuf {
        self.folder.join("images")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_package_has_a_checksum() {
        let image = NodeImage::of_this_repository().unwrap();
        let text = std::fs::read_to_string(image.0.recipe().join("packages.txt")).unwrap();
        let packages: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert!(packages.len() > 5);
        for line in packages {
            let (sum, url) = line.split_once(' ').unwrap();
            assert!(sum.len() == 64 && sum.bytes().all(|byte| byte.is_ascii_hexdigit()), "{line}");
            assert!(url.starts_with("http") && url.ends_with("_amd64.deb"), "{line}");
        }
    }
}

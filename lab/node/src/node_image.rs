//! The node image: a root image with containerd, runc, CNI plug-ins and busybox from Debian's packages, with images for
//! pods, and for virtual machines a kernel and a disk with these.
//!
//! `hack/node-image` contains the checksums of the packages and the scripts that unpack them. `cargo xtask node-image
//! build` runs each script once per version and user ([`control_plane::scripted`]).

use std::path::{Path, PathBuf};

use control_plane::cache::CacheError;
use control_plane::scripted::{Recipe, ScriptError, Scripted};

/// The scripted creation of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeImage(Scripted);

/// A complete image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Built {
    folder: PathBuf,
}

/// A failure to create an image.
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
    /// Returns the image of this repository in the cache of the user of this process.
    pub fn of_this_repository() -> Result<Self, ImageError> {
        let recipe = Recipe {
            what: "the root image",
            needs: "root, curl, dpkg-deb, tar and a mirror of Debian",
            folder: folder(),
            files: &["build.sh", "packages.txt"],
        };
        Ok(Self(Scripted::new(recipe, &control_plane::Cache::of_this_user()?.beside("node-image"))?))
    }

    /// Returns the image of virtual machines: the same root with this kubelet, and a kernel.
    pub fn of_virtual_machines(root: &Built, kubelet: &Path) -> Result<Self, ImageError> {
        let recipe = Recipe {
            what: "the disk of virtual machines",
            needs: "root, curl, dpkg-deb, mkfs.ext4 and a mirror of Debian",
            folder: folder(),
            files: &["vm.sh", "vm-packages.txt", "vm-init.sh", "vm-initrd.sh"],
        };
        let scripted = Scripted::new(recipe, &control_plane::Cache::of_this_user()?.beside("node-image"))?;
        Ok(Self(scripted.given(vec![root.root(), root.images(), kubelet.to_owned()])))
    }

    /// Returns the image, if it exists.
    pub fn find(&self) -> Option<Built> {
        self.0.find().map(|folder| Built { folder })
    }

    /// Returns the image from the cache, or creates it. `tell` receives the progress.
    pub async fn build(&self, tell: impl FnMut(&str)) -> Result<Built, ImageError> {
        Ok(Built { folder: self.0.build(tell).await? })
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../hack/node-image")
}

impl Built {
    /// Returns the folder of the image.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the root file system of machines.
    pub fn root(&self) -> PathBuf {
        self.folder.join("root")
    }

    /// Returns the kernel of a virtual machine.
    pub fn kernel(&self) -> PathBuf {
        self.folder.join("kernel")
    }

    /// Returns the initial RAM disk of the kernel.
    pub fn initrd(&self) -> PathBuf {
        self.folder.join("initrd")
    }

    /// Returns the disk: the root image with the kubelet and the images for pods.
    pub fn disk(&self) -> PathBuf {
        self.folder.join("disk.img")
    }

    /// Returns the folder with the image archives for pods.
    pub fn images(&self) -> PathBuf {
        self.folder.join("images")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    /// Shows HST-13.
    #[rstest]
    #[case("packages.txt", 6)]
    #[case("vm-packages.txt", 1)]
    fn every_package_has_a_checksum(#[case] file: &str, #[case] least: usize) {
        let text = std::fs::read_to_string(folder().join(file)).unwrap();
        let packages: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert!(packages.len() >= least);
        for line in packages {
            let (sum, url) = line.split_once(' ').unwrap();
            assert!(sum.len() == 64 && sum.bytes().all(|byte| byte.is_ascii_hexdigit()), "{line}");
            assert!(url.starts_with("http") && url.ends_with("_amd64.deb"), "{line}");
        }
    }
}

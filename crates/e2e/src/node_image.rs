//! What machines of provider `host` boot from: the root image and the kubelet, made once and kept in the user's cache.

use std::path::PathBuf;

use control_plane::{Binaries, Cache, Program, Recipe};
use driver_testing::node_image::{Built, NodeImage};

use crate::control_plane::{Build, compiled_by};

/// Where everything is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Boot {
    /// The root file system.
    pub root: PathBuf,
    /// The kubelet, of the control plane's release.
    pub kubelet: PathBuf,
    /// Archives of images for pods.
    pub images: PathBuf,
}

impl Boot {
    fn of(image: &Built, kubelet: &Binaries) -> Self {
        Self { root: image.root(), kubelet: kubelet.path(Program::Kubelet), images: image.images() }
    }
}

/// What is in the cache, if all of it is.
pub fn found() -> anyhow::Result<Option<Boot>> {
    let kubelet = Binaries::find(&Cache::of_this_user()?, &Recipe::of_the_kubelet()?).ok();
    let image = NodeImage::of_this_repository()?.find();
    Ok(image.zip(kubelet).map(|(image, kubelet)| Boot::of(&image, &kubelet)))
}

/// The same, made if need be, with progress for the person who waits.
#[allow(clippy::print_stderr, reason = "a chore talks to the person who called it")]
pub async fn built() -> anyhow::Result<Boot> {
    let image = NodeImage::of_this_repository()?.build(|line| eprintln!("node-image: {line}")).await?;
    let kubelet = compiled_by(&Recipe::of_the_kubelet()?, &Build::by_default()).await?;
    Ok(Boot::of(&image, &kubelet))
}

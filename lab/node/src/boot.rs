//! The images of machines: the root image and the kubelet, created once and kept in the user's cache.

use std::path::PathBuf;

use control_plane::cache::CacheError;
use control_plane::compile::{CompileError, Compiler};
use control_plane::recipe::RecipeError;
use control_plane::{Binaries, Cache, Program, Recipe};

use crate::node_image::{Built, ImageError, NodeImage};

/// The images of machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Boot {
    /// The root file system.
    pub root: PathBuf,
    /// The kubelet, of the control plane's release.
    pub kubelet: PathBuf,
    /// Archives of images for pods.
    pub images: PathBuf,
}

/// The images of virtual machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VmBoot {
    /// The kernel.
    pub kernel: PathBuf,
    /// The initial RAM disk of the kernel.
    pub initrd: PathBuf,
    /// A raw disk with the root file system, the kubelet and images for pods.
    pub disk: PathBuf,
}

/// A failure to create the images.
#[derive(Debug, thiserror::Error)]
pub enum BootError {
    /// The user has no cache.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The kubelet's recipe cannot be read.
    #[error(transparent)]
    Recipe(#[from] RecipeError),
    /// The kubelet cannot be compiled.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// The root image cannot be created.
    #[error(transparent)]
    Image(#[from] ImageError),
}

impl Boot {
    fn of(image: &Built, kubelet: &Binaries) -> Self {
        Self { root: image.root(), kubelet: kubelet.path(Program::Kubelet), images: image.images() }
    }

    /// Returns the images from the cache, if they are complete.
    pub fn find() -> Result<Option<Self>, BootError> {
        Ok(found()?.map(|(image, kubelet)| Self::of(&image, &kubelet)))
    }

    /// Returns the images from the cache, or creates them. `tell` receives the progress.
    pub async fn build(mut tell: impl FnMut(&str)) -> Result<Self, BootError> {
        let (image, kubelet) = built(&mut tell).await?;
        Ok(Self::of(&image, &kubelet))
    }
}

impl VmBoot {
    fn of(image: &Built) -> Self {
        Self { kernel: image.kernel(), initrd: image.initrd(), disk: image.disk() }
    }

    /// Returns the images from the cache, if they are complete.
    pub fn find() -> Result<Option<Self>, BootError> {
        let Some((image, kubelet)) = found()? else { return Ok(None) };
        let image = NodeImage::of_virtual_machines(&image, &kubelet.path(Program::Kubelet))?.find();
        Ok(image.map(|image| Self::of(&image)))
    }

    /// Returns the images from the cache, or creates them. `tell` receives the progress.
    pub async fn build(mut tell: impl FnMut(&str)) -> Result<Self, BootError> {
        let (image, kubelet) = built(&mut tell).await?;
        let image = NodeImage::of_virtual_machines(&image, &kubelet.path(Program::Kubelet))?;
        Ok(Self::of(&image.build(|line| tell(&format!("virtual machine: {line}"))).await?))
    }
}

fn found() -> Result<Option<(Built, Binaries)>, BootError> {
    let kubelet = Binaries::find(&Cache::of_this_user()?, &Recipe::of_the_kubelet()?).ok();
    Ok(NodeImage::of_this_repository()?.find().zip(kubelet))
}

async fn built(tell: &mut impl FnMut(&str)) -> Result<(Built, Binaries), BootError> {
    let image = NodeImage::of_this_repository()?.build(|line| tell(&format!("root image: {line}"))).await?;
    let recipe = Recipe::of_the_kubelet()?;
    let progress = |progress: control_plane::compile::Progress| tell(&progress.sentence(recipe.programs().len()));
    let kubelet = Compiler::default().compile(&recipe, &Cache::of_this_user()?, progress).await?;
    Ok((image, kubelet))
}

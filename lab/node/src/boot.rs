//! What machines boot from: the root image and the kubelet, made once and kept in the user's cache.

use std::path::PathBuf;

use control_plane::cache::CacheError;
use control_plane::compile::{CompileError, Compiler};
use control_plane::recipe::RecipeError;
use control_plane::{Binaries, Cache, Program, Recipe};

use crate::node_image::{Built, ImageError, NodeImage};

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

/// What virtual machines boot from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VmBoot {
    /// The kernel.
    pub kernel: PathBuf,
    /// What the kernel begins with.
    pub initrd: PathBuf,
    /// A raw disk with the root file system, the kubelet and images for pods.
    pub disk: PathBuf,
}

/// Why there is nothing to boot from.
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
    /// The root image cannot be made.
    #[error(transparent)]
    Image(#[from] ImageError),
}

impl Boot {
    fn of(image: &Built, kubelet: &Binaries) -> Self {
        Self { root: image.root(), kubelet: kubelet.path(Program::Kubelet), images: image.images() }
    }

    /// What is in the cache, if all of it is.
    pub fn find() -> Result<Option<Self>, BootError> {
        Ok(found()?.map(|(image, kubelet)| Self::of(&image, &kubelet)))
    }

    /// The same, made if need be. `tell` hears what is being done.
    pub async fn build(mut tell: impl FnMut(&str)) -> Result<Self, BootError> {
        let (image, kubelet) = built(&mut tell).await?;
        Ok(Self::of(&image, &kubelet))
    }
}

impl VmBoot {
    fn of(image: &Built) -> Self {
        Self { kernel: image.kernel(), initrd: image.initrd(), disk: image.disk() }
    }

    /// What is in the cache, if all of it is.
    pub fn find() -> Result<Option<Self>, BootError> {
        let Some((image, kubelet)) = found()? else { return Ok(None) };
        let image = NodeImage::of_virtual_machines(&image, &kubelet.path(Program::Kubelet))?.find();
        Ok(image.map(|image| Self::of(&image)))
    }

    /// The same, made if need be. `tell` hears what is being done.
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

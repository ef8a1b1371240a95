//! `cargo xtask node-image build`: what machines of provider `host` boot from, in the user's cache.

use anyhow::Context;
use clap::Subcommand;
use real_nodes::boot::Boot;

/// What to do with the image.
#[derive(Subcommand)]
pub(crate) enum Chore {
    /// Unpack the root image and compile the kubelet, unless somebody did; half a minute and 165 MB, and some minutes for the kubelet.
    Build,
}

/// Does it.
#[allow(clippy::print_stdout, clippy::print_stderr, reason = "a chore talks to the person who called it")]
pub(crate) fn run(chore: &Chore) -> anyhow::Result<()> {
    let Chore::Build = chore;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("failed to start tokio")?;
    let image = runtime.block_on(Boot::build(|line| eprintln!("node-image: {line}")))?;
    println!("rootImage: {}", image.root.display());
    println!("kubelet: {}", image.kubelet.display());
    println!("images for pods: {}", image.images.display());
    Ok(())
}

//! `cargo xtask node-image build`: what machines with real kubelets boot from, in the user's cache.

use anyhow::Context;
use clap::Subcommand;
use lab_node::boot::{Boot, VmBoot};

/// What to do with the image.
#[derive(Subcommand)]
pub(crate) enum Chore {
    /// Unpack the root image and compile the kubelet, unless somebody did; half a minute and 165 MB, and some minutes for the kubelet.
    Build,
    /// The same as a kernel and a disk for machines of provider `qemu`; 420 MB more, and needs mkfs.ext4.
    BuildVm,
}

/// Does it.
#[allow(clippy::print_stdout, clippy::print_stderr, reason = "a chore talks to the person who called it")]
pub(crate) fn run(chore: &Chore) -> anyhow::Result<()> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("failed to start tokio")?;
    let tell = |line: &str| eprintln!("node-image: {line}");
    if let Chore::BuildVm = chore {
        let image = runtime.block_on(VmBoot::build(tell))?;
        println!("image (raw): {}", image.disk.display());
        println!("kernel: {}", image.kernel.display());
        println!("initrd: {}", image.initrd.display());
        return Ok(());
    }
    let image = runtime.block_on(Boot::build(tell))?;
    println!("rootImage: {}", image.root.display());
    println!("kubelet: {}", image.kubelet.display());
    println!("images for pods: {}", image.images.display());
    Ok(())
}

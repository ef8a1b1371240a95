//! `cargo xtask moto build|start`: an EC2 and STS on this machine, for the tests of drivers and for hands that want to try something.

use anyhow::Context;
use clap::Subcommand;
use cloud_fakes::moto::Moto;
use e2e::moto::installed;

/// What to do with moto.
#[derive(Subcommand)]
pub(crate) enum Chore {
    /// Install moto into the user's cache, unless somebody did; a minute or two and 300 MB.
    Build,
    /// Start moto, print where it is, and stay until Ctrl-C.
    Start,
}

/// Does it.
#[allow(clippy::print_stdout, reason = "a chore talks to the person who called it")]
pub(crate) fn run(chore: &Chore) -> anyhow::Result<()> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("failed to start tokio")?;
    runtime.block_on(async {
        let installation = installed().await?;
        match chore {
            Chore::Build => println!("{}", installation.folder().display()),
            Chore::Start => {
                let mut moto = Moto::start(&installation).await?;
                println!("{}", moto.endpoint());
                tokio::select! {
                    ended = moto.until_ended() => anyhow::bail!("moto ended with {}", ended?),
                    asked = tokio::signal::ctrl_c() => asked.context("failed to wait for Ctrl-C")?,
                }
                moto.stop().await?;
            }
        }
        Ok(())
    })
}

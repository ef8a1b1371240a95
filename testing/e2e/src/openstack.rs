//! `cargo xtask openstack build|start|stop|status`: an OpenStack on this machine, for suites and manual tests. The
//! crate `lab_openstack` does the work; this module contains the commands.

use std::path::Path;

use ::control_plane::Cache;
use anyhow::Context;
use clap::{Args, Subcommand};
use lab_openstack::{ADMIN, Endpoint, Installation, Installer, Lab, TENANT};

use crate::held::{self, Held, Name, Registry};

/// Command for an OpenStack.
#[derive(Subcommand)]
pub enum Chore {
    /// Install OpenStack, unless it is in the cache. Needs root, several minutes and 1.5 GB.
    Build,
    /// Start an OpenStack in the background.
    Start(Start),
    /// Stop an OpenStack and remove its files.
    Stop {
        /// Name of the OpenStack.
        #[arg(long, default_value = "default")]
        name: Name,
    },
    /// Show the running OpenStacks.
    Status,
}

/// Options of a start.
#[derive(Args)]
pub struct Start {
    /// Name of the OpenStack. OpenStacks with different names can run at the same time.
    #[arg(long, default_value = "default")]
    name: Name,
    /// Run in the foreground, and stop OpenStack when this command ends.
    #[arg(long)]
    foreground: bool,
}

/// Runs the command.
#[allow(clippy::print_stdout, reason = "a chore talks to the person who called it")]
pub fn run(chore: &Chore) -> anyhow::Result<()> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("failed to start tokio")?;
    runtime.block_on(async {
        match chore {
            Chore::Build => println!("{}", installed().await?.folder().display()),
            Chore::Start(start) => self::start(start).await?,
            Chore::Stop { name } => held::stop(&registry()?, name).await?,
            Chore::Status => held::status(&registry()?, "no OpenStack is running").await?,
        }
        Ok(())
    })
}

/// Returns the installation from the user's cache or a new one, and prints the progress.
#[allow(clippy::print_stderr, reason = "a chore talks to the person who called it")]
pub(crate) async fn installed() -> anyhow::Result<Installation> {
    Ok(Installer::of_this_repository()?.build(|line| eprintln!("openstack: {line}")).await?)
}

#[allow(clippy::print_stderr, reason = "a chore talks to the person who called it")]
async fn start(start: &Start) -> anyhow::Result<()> {
    let installation = installed().await?;
    if start.foreground {
        let reservation = registry()?.reserve(&start.name)?;
        return held::hold(reservation, Lab::start(&installation, |line| eprintln!("openstack: {line}")).await?).await;
    }
    let arguments = ["openstack", "start", "--foreground", "--name", &start.name.to_string()].map(str::to_owned);
    held::start_detached(&arguments).context("failed to start OpenStack")
}

fn registry() -> anyhow::Result<Registry> {
    Registry::open("an OpenStack", &Cache::of_this_user()?.beside("openstack"))
}

impl Held for Lab {
    fn home(&self) -> &Path {
        Lab::home(self)
    }

    fn announcement(&self) -> String {
        self.target_path().display().to_string()
    }

    fn describe(&mut self) -> String {
        let state = if self.runs() { "running" } else { "exited" };
        let users = [TENANT, ADMIN]
            .map(|user| format!("user {} with password {} in project {}", user.name, user.password, user.project));
        let ports = Endpoint::ALL.map(|endpoint| format!("{} on port {}", endpoint.name(), self.port(endpoint)));
        format!(
            "{}\n{state}; Keystone is at {}\n{}\n{}\n",
            self.announcement(),
            self.auth_url(),
            users.join("\n"),
            ports.join("\n")
        )
    }

    async fn stop(self) -> anyhow::Result<()> {
        Ok(Lab::stop(self).await?)
    }
}

//! `cargo xtask openstack build|start|stop|status`: a real OpenStack on this machine, for suites and for hands that want to try something. The work is done by the
//! crate `openstack_lab`; here are the commands.

use std::path::Path;

use ::control_plane::Cache;
use anyhow::Context;
use clap::{Args, Subcommand};
use lab_openstack::{ADMIN, Endpoint, Installation, Installer, Lab, TENANT};

use crate::held::{self, Held, Name, Registry};

/// What to do with an OpenStack.
#[derive(Subcommand)]
pub enum Chore {
    /// Install it, unless somebody did; minutes, and one and a half gigabytes. As root.
    Build,
    /// Start one and leave it running.
    Start(Start),
    /// Stop one and remove all it wrote.
    Stop {
        /// Which one.
        #[arg(long, default_value = "default")]
        name: Name,
    },
    /// Show what runs.
    Status,
}

/// What to start.
#[derive(Args)]
pub struct Start {
    /// Several may run side by side under different names.
    #[arg(long, default_value = "default")]
    name: Name,
    /// Stay, and stop it when this command ends in whatever way.
    #[arg(long)]
    foreground: bool,
}

/// Does it.
#[allow(clippy::print_stdout, reason = "a chore talks to the person who called it")]
pub fn run(chore: &Chore) -> anyhow::Result<()> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("failed to start tokio")?;
    runtime.block_on(async {
        match chore {
            Chore::Build => println!("{}", installed().await?.folder().display()),
            Chore::Start(start) => self::start(start).await?,
            Chore::Stop { name } => held::stop(&registry()?, name).await?,
            Chore::Status => held::status(&registry()?, "no OpenStack runs").await?,
        }
        Ok(())
    })
}

/// The installation in the user's cache, or a new one, with progress for the person who waits.
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
        let state = if self.runs() { "runs" } else { "has ended" };
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

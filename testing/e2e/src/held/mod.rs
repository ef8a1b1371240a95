//! What a person starts and leaves running: `cargo xtask control-plane start`, `cargo xtask openstack start`. A process holds it, and others find it by its name.

mod hold;
mod registry;

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

pub(crate) use hold::{Held, hold};
pub use registry::Name;
pub(crate) use registry::Registry;

/// Starts this program again with these arguments, in a process group of its own so that Ctrl-C passes it by, and waits until it
/// says that all is ready.
#[allow(clippy::print_stdout, reason = "a chore talks to the person who called it")]
pub(crate) fn start_detached(arguments: &[String]) -> anyhow::Result<()> {
    let mut holder = Command::new(std::env::current_exe().context("failed to find this program")?)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .context("failed to start the process that holds it")?;
    let mut said = String::new();
    if let Some(stdout) = holder.stdout.take() {
        BufReader::new(stdout).read_line(&mut said).context("failed to listen to the holder")?;
    }
    if said.is_empty() {
        let mut complaint = String::new();
        if let Some(mut stderr) = holder.stderr.take() {
            stderr.read_to_string(&mut complaint).context("failed to listen to the holder")?;
        }
        bail!("{}", complaint.trim_start_matches("error: ").trim_end());
    }
    print!("{said}");
    Ok(())
}

/// Stops what bears a name.
#[allow(clippy::print_stdout, reason = "a chore talks to the person who called it")]
pub(crate) async fn stop(registry: &Registry, name: &Name) -> anyhow::Result<()> {
    if registry.ask(name, "stop").await?.is_some() {
        println!("{name} is stopped, and nothing of it is left");
    } else if registry.forget(name)? {
        println!("{name} does not run");
    } else {
        bail!("{name} is just starting; try again when it is ready");
    }
    Ok(())
}

/// Shows all that run, or says this.
#[allow(clippy::print_stdout, reason = "a chore talks to the person who called it")]
pub(crate) async fn status(registry: &Registry, none: &str) -> anyhow::Result<()> {
    let mut any = false;
    for name in registry.names()? {
        if let Some(answer) = registry.ask(&name, "status").await? {
            any = true;
            println!("{name}\n  {}", answer.trim_end().replace('\n', "\n  "));
        }
    }
    if !any {
        println!("{none}");
    }
    Ok(())
}

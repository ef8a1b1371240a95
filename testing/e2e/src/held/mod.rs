//! Instances that run in the background: `cargo xtask control-plane start`, `cargo xtask openstack start`. A process
//! holds each of them, and other processes find it by name.

mod hold;
mod registry;

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

pub(crate) use hold::{Held, hold};
pub use registry::Name;
pub(crate) use registry::Registry;

/// Starts this program again with these arguments and waits until it reports that it is ready. The process group is
/// separate, so that Ctrl-C does not reach it.
#[allow(clippy::print_stdout, reason = "a chore talks to the person who called it")]
pub(crate) fn start_detached(arguments: &[String]) -> anyhow::Result<()> {
    let mut holder = Command::new(std::env::current_exe().context("failed to find this program")?)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .context("failed to start the holder")?;
    let mut said = String::new();
    if let Some(stdout) = holder.stdout.take() {
        BufReader::new(stdout).read_line(&mut said).context("failed to read from the holder")?;
    }
    if said.is_empty() {
        let mut complaint = String::new();
        if let Some(mut stderr) = holder.stderr.take() {
            stderr.read_to_string(&mut complaint).context("failed to read from the holder")?;
        }
        bail!("{}", complaint.trim_start_matches("error: ").trim_end());
    }
    print!("{said}");
    Ok(())
}

/// Stops the instance with this name.
#[allow(clippy::print_stdout, reason = "a chore talks to the person who called it")]
pub(crate) async fn stop(registry: &Registry, name: &Name) -> anyhow::Result<()> {
    if registry.ask(name, "stop").await?.is_some() {
        println!("{name} stopped");
    } else if registry.forget(name)? {
        println!("{name} is not running");
    } else {
        bail!("{name} is starting. Retry when it is ready");
    }
    Ok(())
}

/// Prints the running instances, or `none`.
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

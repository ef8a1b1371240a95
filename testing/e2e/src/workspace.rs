//! The root of the repository, and calls of cargo in it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, bail};

/// Returns the root of the repository. It is known at compile time, because xtask is never installed elsewhere.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}

/// Runs cargo with its output.
pub fn cargo(arguments: &[&str]) -> anyhow::Result<()> {
    cargo_with(arguments, &[])
}

/// The same with these environment variables.
pub fn cargo_with(arguments: &[&str], variables: &[(&str, &OsStr)]) -> anyhow::Result<()> {
    let mut command = command(arguments);
    command.envs(variables.iter().copied());
    let status = command.status().with_context(|| format!("failed to start cargo {}", arguments.join(" ")))?;
    if !status.success() {
        bail!("cargo {} failed with {status}", arguments.join(" "));
    }
    Ok(())
}

/// Runs cargo and returns its output.
pub fn cargo_output(arguments: &[&str]) -> anyhow::Result<String> {
    let Output { status, stdout, stderr } =
        command(arguments).output().with_context(|| format!("failed to start cargo {}", arguments.join(" ")))?;
    if !status.success() {
        bail!("cargo {} failed with {status}:\n{}", arguments.join(" "), String::from_utf8_lossy(&stderr));
    }
    String::from_utf8(stdout).context("cargo printed invalid UTF-8")
}

fn command(arguments: &[&str]) -> Command {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(arguments).current_dir(root());
    cargo
}

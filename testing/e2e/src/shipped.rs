//! The shipped program, compiled by the same script as in the image's Dockerfile.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

use crate::workspace::root;

/// Features of the shipped `millwright`.
pub const FEATURES: &str = "otel,aws";

/// Returns the target of the image, which is linked statically.
pub fn target() -> String {
    format!("{}-unknown-linux-musl", std::env::consts::ARCH)
}

/// Returns whether the toolchain has the target installed.
pub fn has_target(target: &str) -> bool {
    let printed = Command::new("rustc").args(["--print", "target-libdir", "--target", target]).output();
    let printed = printed.ok().filter(|ended| ended.status.success());
    printed.is_some_and(|ended| Path::new(String::from_utf8_lossy(&ended.stdout).trim()).is_dir())
}

/// Runs a stage of the Dockerfile on this machine: fills `folder` with the content of the image. Returns the path of
/// the program.
pub fn assemble(folder: &Path, target: &str, program: &str, features: &str) -> anyhow::Result<PathBuf> {
    let mut script = Command::new("sh");
    script.arg("deploy/image/assemble.sh").arg(folder).arg(target).current_dir(root());
    script.env("PROGRAM", program).env("FEATURES", features);
    if has_program("musl-gcc") {
        script.env(format!("CC_{}", target.replace('-', "_")), "musl-gcc");
    }
    let ended = script.status().context("failed to start sh")?;
    ensure!(
        ended.success(),
        "failed to compile the program for {target}. Run `rustup target add {target}` and install a C compiler (Debian: musl-tools)"
    );
    Ok(folder.join(program))
}

/// Returns whether a program with this name is installed.
pub fn has_program(name: &str) -> bool {
    Command::new("sh").args(["-c", "command -v \"$0\" >/dev/null", name]).status().is_ok_and(|found| found.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_features_are_those_of_the_recipe() {
        let recipe = std::fs::read_to_string(root().join("deploy/image/Dockerfile")).unwrap();
        assert!(recipe.lines().any(|line| line == format!("ARG FEATURES={FEATURES}")), "{FEATURES}");
    }

    #[test]
    fn an_unknown_target_is_not_installed() {
        assert!(!has_target("pdp11-unknown-linux-musl"));
        assert!(has_program("sh") && !has_program("no-such-program-anywhere"));
    }
}

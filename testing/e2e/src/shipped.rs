//! The program as it is shipped: what the image's recipe compiles, compiled by the same script.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

use crate::workspace::root;

/// What `millwright` has compiled in where it is shipped.
pub const FEATURES: &str = "otel,aws";

/// The target of the image, which links statically.
pub fn target() -> String {
    format!("{}-unknown-linux-musl", std::env::consts::ARCH)
}

/// Whether the compiler has the target; it is an extra of every toolchain.
pub fn has_target(target: &str) -> bool {
    let printed = Command::new("rustc").args(["--print", "target-libdir", "--target", target]).output();
    let printed = printed.ok().filter(|ended| ended.status.success());
    printed.is_some_and(|ended| Path::new(String::from_utf8_lossy(&ended.stdout).trim()).is_dir())
}

/// What a stage of the recipe does, on this machine: fills `folder` with what the image holds. The program in it.
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
        "nothing to put into the image: {target} needs `rustup target add {target}` and a C compiler (Debian: musl-tools)"
    );
    Ok(folder.join(program))
}

/// Whether a program of this name is installed.
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
    fn a_target_that_no_compiler_has_is_not_there() {
        assert!(!has_target("pdp11-unknown-linux-musl"));
        assert!(has_program("sh") && !has_program("no-such-program-anywhere"));
    }
}

//! `cargo-mutants` itself: which version, where it is kept, how it is run.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, bail};
use control_plane::cache::Cache;

use super::{PACKAGE, TEST_PATIENCE};
use e2e::workspace::{cargo, root};

/// Pinned, because every version knows other mutants, and `docs/contributing/mutants.md` names those of this one.
const VERSION: &str = "27.1.0";
/// After it was asked to end it removes its copy of the sources; this long it may take.
const LAST_WORDS: Duration = Duration::from_secs(30);

/// The tool, ready to run.
pub(super) struct Tool {
    program: PathBuf,
}

/// Compiles the tool into the user's cache directory if it is not there.
#[allow(clippy::print_stdout, reason = "a chore talks to the person who called it")]
pub(super) fn installed() -> anyhow::Result<Tool> {
    let cache = Cache::of_this_user()?;
    let cache = cache.folder().parent().context("the cache directory has no parent")?;
    let folder = cache.join(format!("tools/cargo-mutants-{VERSION}"));
    let program = folder.join("bin/cargo-mutants");
    if !program.is_file() {
        println!("compiling cargo-mutants {VERSION} into {}", folder.display());
        let folder = folder.to_string_lossy();
        cargo(&["install", "cargo-mutants", "--version", VERSION, "--locked", "--quiet", "--root", &folder])?;
    }
    Ok(Tool { program })
}

impl Tool {
    /// The names of all mutants of the crate.
    pub(super) fn list(&self) -> anyhow::Result<Vec<String>> {
        let output = Command::new(&self.program)
            .args(["mutants", "--list", "--package", PACKAGE, "--colors", "never"])
            .current_dir(root())
            .output()
            .context("failed to start cargo-mutants")?;
        if !output.status.success() {
            bail!("cargo mutants --list failed: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
    }

    /// Tries the mutants that the filters leave, in a copy of the sources, and leaves `mutants.out` in the folder. Dependencies are
    /// compiled once, into the same folder.
    pub(super) fn run(&self, filters: &[String], folder: &Path, within: Duration) -> anyhow::Result<()> {
        let out = folder.join("mutants.out");
        if out.exists() {
            std::fs::remove_dir_all(&out).with_context(|| format!("failed to remove {}", out.display()))?;
        }
        let seconds = |duration: Duration| duration.as_secs().to_string();
        let status = Command::new("timeout")
            .args(["--signal=INT", &format!("--kill-after={}", LAST_WORDS.as_secs()), &seconds(within)])
            .arg(&self.program)
            .args(["mutants", "--package", PACKAGE, "--cargo-arg=--lib", "--colors", "never"])
            .args(["--timeout", &seconds(TEST_PATIENCE), "--output"])
            .arg(folder)
            .args(filters)
            .env("CARGO_TARGET_DIR", folder.join("build"))
            .env("RUST_BACKTRACE", "0") // it would show how it ended when we asked it to
            .current_dir(root())
            .status()
            .context("failed to start cargo-mutants")?;
        match status.code() {
            // All caught; some missed; some that never ended; and ended by us.
            Some(0 | 2 | 3 | 124 | 130 | 137) => Ok(()),
            _ => bail!("cargo mutants failed with {status}; {} says more", out.join("log").display()),
        }
    }
}

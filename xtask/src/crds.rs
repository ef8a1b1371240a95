//! The CustomResourceDefinitions under `deploy/crds` are written by the program that reads them, so they cannot drift apart.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use e2e::workspace::{cargo, root};

/// What to do about a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Bring the files up to date.
    Write,
    /// Fail.
    Check,
}

impl Mode {
    /// By the flag `--check`.
    pub(crate) fn of(check: bool) -> Self {
        if check { Self::Check } else { Self::Write }
    }
}

/// Writes, or checks, `deploy/crds`.
#[allow(clippy::print_stdout, reason = "a chore talks to the person who called it")]
pub(crate) fn write(mode: Mode) -> anyhow::Result<()> {
    let committed = root().join("deploy/crds");
    let target = match mode {
        Mode::Write => committed.clone(),
        Mode::Check => root().join("target/crds"),
    };
    fs::create_dir_all(&target).with_context(|| format!("failed to make {}", target.display()))?;
    let target_text = target.to_string_lossy().into_owned();
    cargo(&["run", "--quiet", "--package", "millwright", "--", "crds", "--dir", &target_text])?;
    if mode == Mode::Check {
        let (fresh, stored) = (files(&target)?, files(&committed)?);
        if fresh != stored {
            bail!("deploy/crds is out of date; run `cargo xtask crds` and commit the result");
        }
        println!("crds: {} files up to date", stored.len());
    }
    Ok(())
}

fn files(folder: &Path) -> anyhow::Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("failed to read {}", folder.display()))? {
        let path: PathBuf = entry?.path();
        if path.extension().is_some_and(|ending| ending == "yaml") {
            let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
            found
                .push((name, fs::read_to_string(&path).with_context(|| format!("failed to read {}", path.display()))?));
        }
    }
    found.sort_unstable();
    Ok(found)
}

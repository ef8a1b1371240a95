//! Prometheus' own judge of rules. Debian has it in the package `prometheus`, which is not installed for it: nothing of it has to run as a
//! service. Its file is unpacked once into the user's cache directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use control_plane::Cache;

/// Where it lies in the package.
const IN_PACKAGE: &str = "usr/bin/promtool";

/// The installed one, or the one in the cache; the error says why there is none.
pub(crate) fn found() -> anyhow::Result<PathBuf> {
    if starts(Path::new("promtool")) {
        return Ok(PathBuf::from("promtool"));
    }
    let programs = Cache::of_this_user()?.folder().parent().map(|cache| cache.join("promtool"));
    let programs = programs.context("the cache has no folder around it")?;
    let promtool = programs.join(IN_PACKAGE);
    if !starts(&promtool) {
        fetch(&programs)?;
        ensure!(starts(&promtool), "{} does not run", promtool.display());
    }
    Ok(promtool)
}

fn starts(promtool: &Path) -> bool {
    Command::new(promtool).arg("--version").output().is_ok_and(|ended| ended.status.success())
}

/// Unpacks the package beside its place and moves it there, so that whoever looks finds all of it or nothing.
fn fetch(programs: &Path) -> anyhow::Result<()> {
    let around = programs.parent().context("the cache has no folder around it")?;
    fs::create_dir_all(around).with_context(|| format!("failed to make {}", around.display()))?;
    let folder = tempfile::tempdir_in(around).context("failed to make a folder")?;
    run(Command::new("apt-get").args(["download", "prometheus"]).current_dir(&folder))?;
    let packages = fs::read_dir(&folder)?.filter_map(Result::ok).map(|entry| entry.path());
    let package = packages.into_iter().find(|path| path.extension().is_some_and(|ending| ending == "deb"));
    let unpacked = folder.path().join("unpacked");
    run(Command::new("dpkg").arg("-x").arg(package.context("apt-get left no package")?).arg(&unpacked))?;
    let _ = fs::remove_dir_all(programs); // what is there does not run
    fs::rename(&unpacked, programs).with_context(|| format!("failed to make {}", programs.display()))
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let ended = command.output().with_context(|| format!("failed to start {name}"))?;
    ensure!(ended.status.success(), "{name} failed: {}", String::from_utf8_lossy(&ended.stderr).trim());
    Ok(())
}

//! The container image, built and run without a registry, a daemon or a kubelet: `cargo xtask image`.
//!
//! The recipe (`deploy/image/Dockerfile`) has two stages. The first cannot run where no base image can be pulled, so all it does is in a
//! script that runs here as well, with a musl target of the compiler. The second is built from the recipe's own text by buildah, if there
//! is one, into an archive; what is in the archive is run in an empty, read-only root, as the user that the recipe names, by what the
//! Deployments say. Needs root, because roots are changed; by hand only, because a release build takes minutes.

mod archive;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};
use clap::Args;

use archive::Image;
use e2e::control_plane::{Build, compiled};
use e2e::suites::{Cell, Images, run_image};
use e2e::workspace::root;

/// What is compiled into the image that is shipped, and into the one that brings the virtual cloud along.
const PRODUCTION: &str = "otel";
const DEV: &str = "otel,dev";

/// How to build it.
#[derive(Args)]
pub(crate) struct ChoreArgs {
    /// Only build.
    #[arg(long)]
    without_run: bool,
    /// The target to compile for; it must link statically.
    #[arg(long, default_value_t = format!("{}-unknown-linux-musl", std::env::consts::ARCH))]
    target: String,
}

/// Builds the image, says what is in it, and runs it.
#[allow(clippy::print_stdout, reason = "a chore talks to the person who called it")]
pub(crate) fn run(args: &ChoreArgs) -> anyhow::Result<()> {
    let home = root().join("target/image");
    let files = home.join("context/image");
    fs::create_dir_all(&files).with_context(|| format!("failed to make {}", files.display()))?;
    assemble(&files, &args.target, PRODUCTION)?;
    let recipe = fs::read_to_string(root().join("deploy/image/Dockerfile")).context("failed to read the recipe")?;
    fs::write(home.join("Dockerfile"), last_stage(&recipe)?)?;
    let archive = build(&home)?;
    println!("{}: {} bytes", archive.display(), fs::metadata(&archive)?.len());
    let image = Image::unpack(&archive, &home.join("unpacked"))?;
    println!("runs {:?} in {:?} as {}", image.entrypoint, image.folder, image.user);
    ensure!(image.entrypoint == ["/millwright"] && image.folder == "/", "{image:?} is not what the recipe says");
    if args.without_run {
        return Ok(());
    }
    // The side-car of the example. It is run from its files: what buildah makes of them is shown by the other.
    let dev = Cell { root: home.join("dev"), user: image.user.clone() };
    assemble(&dev.root, &args.target, DEV)?;
    let images = Images { production: Cell { root: image.root, user: image.user }, dev };
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("failed to start tokio")?;
    let report = runtime.block_on(async {
        let binaries = compiled(&Build::by_default()).await?;
        run_image(binaries, images).await
    })?;
    ensure!(report.conclude()?.failed == 0, "the image does not do what it must");
    Ok(())
}

/// The first stage, on this machine.
fn assemble(folder: &Path, target: &str, features: &str) -> anyhow::Result<()> {
    let mut script = Command::new("sh");
    script.arg("deploy/image/assemble.sh").arg(folder).arg(target).env("FEATURES", features).current_dir(root());
    if which("musl-gcc") {
        script.env(format!("CC_{}", target.replace('-', "_")), "musl-gcc");
    }
    let ended = script.status().context("failed to start sh")?;
    ensure!(
        ended.success(),
        "nothing to put into the image: {target} needs `rustup target add {target}` and a C compiler (Debian: musl-tools)"
    );
    Ok(())
}

/// The text of the last stage, which takes its files from a folder instead of from the first stage.
fn last_stage(recipe: &str) -> anyhow::Result<String> {
    let begin = recipe.find("\nFROM scratch\n").context("the recipe has no stage from scratch")?;
    let stage = recipe.get(begin..).unwrap_or_default().trim_start();
    let (from_before, from_here) = ("COPY --from=build /image/ /", "COPY image/ /");
    ensure!(stage.matches(from_before).count() == 1, "the last stage takes other files than those of /image");
    let stage = stage.replace(from_before, from_here);
    ensure!(!stage.contains("--from=") && !stage.contains("RUN "), "the last stage needs more than its files");
    Ok(stage)
}

fn which(program: &str) -> bool {
    Command::new("sh").args(["-c", "command -v \"$0\" >/dev/null", program]).status().is_ok_and(|found| found.success())
}

/// The last stage, as an archive.
fn build(home: &Path) -> anyhow::Result<PathBuf> {
    ensure!(which("buildah"), "the image is built by buildah, which needs no daemon (Debian: apt-get install buildah)");
    let archive = home.join("millwright.tar");
    let _ = fs::remove_file(&archive);
    // Everything of its own: neither the user's images nor a daemon are touched, and nothing is left behind.
    let store = tempfile::tempdir().context("failed to make a folder")?;
    let place = |name: &str| store.path().join(name).display().to_string();
    let buildah = |arguments: &[&str]| -> anyhow::Result<()> {
        let mut command = Command::new("buildah");
        command.args(["--root", &place("root"), "--runroot", &place("run"), "--storage-driver", "vfs"]).args(arguments);
        let ended = command.output().context("failed to start buildah")?;
        if !ended.status.success() {
            bail!("buildah {} failed: {}", arguments.join(" "), String::from_utf8_lossy(&ended.stderr).trim());
        }
        Ok(())
    };
    let (recipe, context) = (home.join("Dockerfile").display().to_string(), home.join("context").display().to_string());
    let format = ["--format", "oci"];
    let name = concat!("millwright:v", env!("CARGO_PKG_VERSION"));
    let tag = format!("localhost/{name}");
    let build = ["build", "--isolation", "chroot", "--file", &recipe, "--tag", &tag, &context];
    buildah(&[&build[..1], &format[..], &build[1..]].concat())?;
    let destination = format!("oci-archive:{}:{name}", archive.display());
    buildah(&["push", &tag, &destination])?;
    Ok(archive)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_stage_of_the_recipe_stands_alone_and_is_what_our_manifests_count_on() {
        let recipe = fs::read_to_string(root().join("deploy/image/Dockerfile")).unwrap();
        let stage = last_stage(&recipe).unwrap();
        let lines: Vec<&str> = stage.lines().filter(|line| !line.starts_with('#')).collect();
        let manifest = fs::read_to_string(root().join("deploy/one-process/deployment.yaml")).unwrap();
        assert_eq!(
            lines,
            [
                "FROM scratch",
                "COPY image/ /",
                "ENV MIMALLOC_PURGE_DELAY=0 MIMALLOC_ALLOW_THP=0",
                "WORKDIR /",
                "USER 65532:65532",
                "ENTRYPOINT [\"/millwright\"]",
            ]
        );
        assert!(manifest.contains("runAsUser: 65532") && manifest.contains("runAsGroup: 65532"));
        assert!(last_stage("FROM scratch\nCOPY a b\n").is_err());
    }

    #[test]
    fn the_recipe_compiles_with_the_version_that_the_workspace_asks_for() {
        let recipe = fs::read_to_string(root().join("deploy/image/Dockerfile")).unwrap();
        let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
        let version = manifest.lines().find_map(|line| line.strip_prefix("rust-version = ")).unwrap().trim_matches('"');
        assert!(recipe.contains(&format!("FROM rust:{version}-alpine AS build")), "{version}");
    }
}

//! The container image, built and run without a registry, a daemon or a kubelet: `cargo xtask image`.
//!
//! The recipe (`deploy/image/Dockerfile`) compiles in stages that cannot run where no base image can be pulled, so all they do is in a
//! script that runs here as well, with a musl target of the compiler. Each stage from scratch is built from the recipe's own text by buildah, if there
//! is one, into an archive; what is in the archives is run in an empty, read-only root, as the user that the recipe names, by what the
//! Deployments say. Needs root, because roots are changed; by hand only, because a release build takes minutes.

mod archive;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};
use clap::Args;

use archive::Image;
use e2e::control_plane::{Build, compiled};
use e2e::shipped::{self, FEATURES, assemble, has_program};
use e2e::suites::{Cell, Images, run_image};
use e2e::workspace::root;

/// An image that the recipe builds.
struct Recipe {
    program: &'static str,
    /// What is compiled in; a driver has nothing to choose.
    features: &'static str,
    /// The line with which its stage begins.
    stage: &'static str,
    /// Where the stage takes its files from.
    files: &'static str,
}

/// What is shipped.
const PRODUCTION: Recipe =
    Recipe { program: "millwright", features: FEATURES, stage: "FROM scratch", files: "COPY --from=build /image/ /" };

/// The driver of AWS in a container of its own.
const DRIVER_AWS: Recipe = Recipe {
    program: "millwright-driver-aws",
    features: "",
    stage: "FROM scratch AS driver-aws",
    files: "COPY --from=build-driver-aws /image/ /",
};

/// The driver of OpenStack in a container of its own. CI builds that of AWS, which is made in the same way.
#[cfg(test)]
const DRIVER_OPENSTACK: Recipe = Recipe {
    program: "millwright-driver-openstack",
    features: "",
    stage: "FROM scratch AS driver-openstack",
    files: "COPY --from=build-driver-openstack /image/ /",
};

/// What the image with the virtual cloud has compiled in.
const DEV: &str = "otel,dev";

/// How to build it.
#[derive(Args)]
pub(crate) struct ChoreArgs {
    /// Only build.
    #[arg(long)]
    without_run: bool,
    /// The target to compile for; it must link statically.
    #[arg(long, default_value_t = shipped::target())]
    target: String,
}

/// Builds the image, says what is in it, and runs it.
#[allow(clippy::print_stdout, reason = "a chore talks to the person who called it")]
pub(crate) fn run(args: &ChoreArgs) -> anyhow::Result<()> {
    let home = root().join("target/image");
    let image = built(&PRODUCTION, &home, &args.target)?;
    let driver_aws = built(&DRIVER_AWS, &home.join("driver-aws"), &args.target)?;
    if args.without_run {
        return Ok(());
    }
    // The side-car of the example. It is run from its files: what buildah makes of them is shown by the other.
    let dev = Cell { root: home.join("dev"), user: image.user.clone() };
    assemble(&dev.root, &args.target, PRODUCTION.program, DEV)?;
    let driver_aws = Cell { root: driver_aws.root, user: driver_aws.user };
    let images = Images { production: Cell { root: image.root, user: image.user }, driver_aws, dev };
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("failed to start tokio")?;
    let report = runtime.block_on(async {
        let binaries = compiled(&Build::by_default()).await?;
        run_image(binaries, images).await
    })?;
    ensure!(report.conclude()?.failed == 0, "the image does not do what it must");
    Ok(())
}

/// One image: its program compiled here, its stage built by buildah, unpacked again.
#[allow(clippy::print_stdout, reason = "a chore talks to the person who called it")]
fn built(recipe: &Recipe, home: &Path, target: &str) -> anyhow::Result<Image> {
    let files = home.join("context/image");
    fs::create_dir_all(&files).with_context(|| format!("failed to make {}", files.display()))?;
    assemble(&files, target, recipe.program, recipe.features)?;
    let text = fs::read_to_string(root().join("deploy/image/Dockerfile")).context("failed to read the recipe")?;
    fs::write(home.join("Dockerfile"), stage(&text, recipe)?)?;
    let archive = build(home, recipe.program)?;
    println!("{}: {} bytes", archive.display(), fs::metadata(&archive)?.len());
    let image = Image::unpack(&archive, &home.join("unpacked"))?;
    println!("runs {:?} in {:?} as {}", image.entrypoint, image.folder, image.user);
    let entrypoint = [format!("/{}", recipe.program)];
    ensure!(image.entrypoint == entrypoint && image.folder == "/", "{image:?} is not what the recipe says");
    Ok(image)
}

/// The text of an image's own stage, which takes its files from a folder instead of from the stage that compiles.
fn stage(text: &str, recipe: &Recipe) -> anyhow::Result<String> {
    let lines = text.lines().skip_while(|line| *line != recipe.stage);
    let mut lines: Vec<&str> = lines
        .enumerate()
        .take_while(|(at, line)| *at == 0 || !line.starts_with("FROM "))
        .map(|(_, line)| line)
        .collect();
    let first = lines.first_mut().with_context(|| format!("the recipe has no stage {:?}", recipe.stage))?;
    *first = "FROM scratch";
    let copies = lines.iter().filter(|line| **line == recipe.files).count();
    ensure!(copies == 1, "the stage of {} takes other files than those that were compiled for it", recipe.program);
    let stage = lines.join("\n").replace(recipe.files, "COPY image/ /");
    ensure!(!stage.contains("--from=") && !stage.contains("RUN "), "the stage needs more than its files");
    Ok(stage)
}

/// A stage, as an archive.
fn build(home: &Path, program: &str) -> anyhow::Result<PathBuf> {
    ensure!(
        has_program("buildah"),
        "the image is built by buildah, which needs no daemon (Debian: apt-get install buildah)"
    );
    let archive = home.join(format!("{program}.tar"));
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
    let name = format!("{program}:v{}", env!("CARGO_PKG_VERSION"));
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

    fn recipe() -> String {
        fs::read_to_string(root().join("deploy/image/Dockerfile")).unwrap()
    }

    /// Shows DEP-6.
    #[test]
    fn each_image_of_the_recipe_stands_alone_and_is_what_our_manifests_count_on() {
        let manifest = fs::read_to_string(root().join("deploy/one-process/deployment.yaml")).unwrap();
        for image in [PRODUCTION, DRIVER_AWS, DRIVER_OPENSTACK] {
            let text = stage(&recipe(), &image).unwrap();
            let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).collect();
            let entrypoint = format!("ENTRYPOINT [\"/{}\"]", image.program);
            assert_eq!(
                lines,
                [
                    "FROM scratch",
                    "COPY image/ /",
                    "ENV MIMALLOC_PURGE_DELAY=0 MIMALLOC_ALLOW_THP=0",
                    "WORKDIR /",
                    "USER 65532:65532",
                    &entrypoint,
                ]
            );
            assert!(stage("FROM scratch\nCOPY a b\n", &image).is_err());
        }
        assert!(manifest.contains("runAsUser: 65532") && manifest.contains("runAsGroup: 65532"));
    }

    #[test]
    fn the_features_of_the_image_are_the_same_wherever_it_is_built() {
        let features = PRODUCTION.features;
        let script = fs::read_to_string(root().join("deploy/image/assemble.sh")).unwrap();
        let release = fs::read_to_string(root().join(".github/workflows/release.yml")).unwrap();
        assert!(recipe().contains(&format!("\nARG FEATURES={features}\n")));
        assert!(script.contains(&format!("${{FEATURES:-{features}}}")));
        assert!(release.contains(&format!("--no-default-features --features {features} --target")));
    }

    /// Shows DEP-6.
    #[test]
    fn the_recipe_compiles_with_the_version_that_the_workspace_asks_for() {
        let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
        let version = manifest.lines().find_map(|line| line.strip_prefix("rust-version = ")).unwrap().trim_matches('"');
        assert!(recipe().contains(&format!("FROM rust:{version}-alpine AS source")), "{version}");
    }
}

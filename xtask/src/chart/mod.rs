//! The Helm chart is held to `deploy/`: `cargo xtask chart`.
//!
//! What is the same in both (roles, policies, alerts, dashboards, the kinds) is copied into the chart. What differs by values, the processes, is a template; so
//! helm renders each combination of [`combinations`], kustomize the overlay that says the same, and every object has to be equal.

mod combinations;
mod objects;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};
use control_plane::Program;
use e2e::control_plane::{Build, compiled};
use e2e::helm::helm;
use e2e::workspace::root;
use serde_json::Value;

use crate::crds::Mode;
use combinations::{COMBINATIONS, Combination, REFUSED};
use objects::Objects;

/// Folders and files of `deploy/` that the chart holds as they are.
const COPIED: [&str; 9] = [
    "admission",
    "alerts/rules.yaml",
    "base/network.yaml",
    "base/services.yaml",
    "dashboards",
    "flowcontrol/flow-control.yaml",
    "monitoring/service-monitor.yaml",
    "rbac",
    "virtual-cloud/kubelets.yaml",
];

/// Writes, or checks, the copies; then compares what helm and kustomize make.
#[allow(clippy::print_stdout, reason = "a chore talks to the person who called it")]
pub(crate) fn write(mode: Mode) -> anyhow::Result<()> {
    let chart = root().join("charts/millwright");
    copy(&root().join("deploy/crds"), &chart.join("crds"), mode)?;
    for path in COPIED {
        copy(&root().join("deploy").join(path), &chart.join("files").join(path), mode)?;
    }
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("failed to start tokio")?;
    let (helm, kubectl) = match runtime.block_on(programs()) {
        Ok(found) => found,
        Err(error) => {
            println!("skipped: the chart was not rendered, because helm or kubectl cannot be had here: {error:#}");
            return Ok(());
        }
    };
    let chart = chart.display().to_string();
    output(Command::new(&helm).args(["lint", "--strict", "--set=driver.kind=aws", &chart]))?;
    let mut compared = 0;
    for combination in COMBINATIONS {
        let by_helm = Objects::parse(&rendered(&helm, &chart, combination.values)?)?;
        let by_kustomize = Objects::parse(&overlay(&kubectl, combination)?)?;
        let different = by_helm.differences(&by_kustomize);
        ensure!(different.is_empty(), "the chart with {}: {}", combination.values.join(" "), different.join("; "));
        compared += by_kustomize.len();
    }
    for (values, says) in REFUSED {
        let error = rendered(&helm, &chart, values).err().map(|error| error.to_string()).unwrap_or_default();
        ensure!(error.contains(says), "the chart with {} should be refused with {says:?}: {error}", values.join(" "));
    }
    println!(
        "chart: {} combinations of values, {compared} objects as in deploy/; {} mistakes refused",
        COMBINATIONS.len(),
        REFUSED.len()
    );
    Ok(())
}

/// helm and kubectl, compiled if need be.
async fn programs() -> anyhow::Result<(PathBuf, PathBuf)> {
    Ok((helm().await?, compiled(&Build::by_default()).await?.path(Program::Kubectl)))
}

/// Copies a file, or what is in a folder, or sees whether the copy is as it should be.
fn copy(from: &Path, to: &Path, mode: Mode) -> anyhow::Result<()> {
    if from.is_dir() {
        let entries = fs::read_dir(from).with_context(|| format!("failed to read {}", from.display()))?;
        for entry in entries {
            let name = entry.with_context(|| format!("failed to read {}", from.display()))?.file_name();
            // How kustomize puts the files together is no business of a chart.
            if name != "kustomization.yaml" {
                copy(&from.join(&name), &to.join(&name), mode)?;
            }
        }
        return Ok(());
    }
    let wanted = fs::read(from).with_context(|| format!("failed to read {}", from.display()))?;
    match mode {
        Mode::Write => {
            let folder = to.parent().context("a copy has no folder")?;
            fs::create_dir_all(folder).with_context(|| format!("failed to make {}", folder.display()))?;
            fs::write(to, wanted).with_context(|| format!("failed to write {}", to.display()))
        }
        Mode::Check if fs::read(to).is_ok_and(|found| found == wanted) => Ok(()),
        Mode::Check => bail!("{} is out of date; run `cargo xtask chart` and commit the result", to.display()),
    }
}

fn rendered(helm: &Path, chart: &str, values: &[&str]) -> anyhow::Result<String> {
    let mut command = Command::new(helm);
    command.args(["template", "millwright", chart, "--namespace=millwright-system", "--kube-version=1.36.0"]);
    for value in values {
        command.arg(if value.contains("=[") { "--set-json" } else { "--set" }).arg(value);
    }
    output(&mut command)
}

/// An overlay in `deploy/`, where kustomize finds what it names, and gone when it was rendered.
fn overlay(kubectl: &Path, combination: &Combination) -> anyhow::Result<String> {
    let folder = tempfile::Builder::new()
        .prefix(".chart-")
        .tempdir_in(root().join("deploy"))
        .context("failed to make a folder in deploy/")?;
    let list = |paths: &[&str]| paths.iter().map(|path| format!("../{path}")).collect::<Vec<_>>();
    let mut overlay = serde_json::json!({
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": list(combination.resources),
        "components": list(combination.components),
    });
    let more: Option<serde_json::Map<String, Value>> =
        serde_saphyr::from_str(combination.more).context("an overlay is no YAML")?;
    if let Some(fields) = overlay.as_object_mut() {
        fields.extend(more.unwrap_or_default());
    }
    fs::write(folder.path().join("kustomization.yaml"), overlay.to_string()).context("failed to write an overlay")?;
    output(Command::new(kubectl).arg("kustomize").arg(folder.path()))
}

fn output(command: &mut Command) -> anyhow::Result<String> {
    let ended = command.output().with_context(|| format!("failed to start {}", command.get_program().display()))?;
    let (said, complained) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    ensure!(ended.status.success(), "{}{}", said.trim(), complained.trim());
    Ok(said.into_owned())
}

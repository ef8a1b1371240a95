//! Checks the Helm chart against `deploy/`: `cargo xtask chart`.
//!
//! Files that both use (roles, policies, alerts, dashboards, CRDs) exist once, in `deploy/`; the chart contains symbolic links, which helm
//! follows. The processes depend on values and are templates: helm renders each combination of [`combinations`], kustomize renders the
//! overlay with the same settings, and all objects must be equal.

mod combinations;
mod objects;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use control_plane::Program;
use e2e::control_plane::{Build, compiled};
use e2e::helm::helm;
use e2e::workspace::root;
use serde_json::Value;

use combinations::{COMBINATIONS, Combination, REFUSED};
use objects::Objects;

/// Renders the chart and the overlays and compares them.
#[allow(clippy::print_stdout, reason = "the report is the output of the chore")]
pub(crate) fn check() -> anyhow::Result<()> {
    let chart = root().join("charts/millwright");
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("failed to start tokio")?;
    let (helm, kubectl) = match runtime.block_on(programs()) {
        Ok(found) => found,
        Err(error) => {
            println!("skipped: the chart was not rendered, because helm or kubectl is not available: {error:#}");
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
        ensure!(error.contains(says), "the chart with {} must be rejected with {says:?}: {error}", values.join(" "));
    }
    println!(
        "chart: {} combinations of values, {compared} objects equal to those of deploy/; {} invalid combinations rejected",
        COMBINATIONS.len(),
        REFUSED.len()
    );
    Ok(())
}

/// Returns helm and kubectl; compiles them if they are missing.
async fn programs() -> anyhow::Result<(PathBuf, PathBuf)> {
    Ok((helm().await?, compiled(&Build::by_default()).await?.path(Program::Kubectl)))
}

fn rendered(helm: &Path, chart: &str, values: &[&str]) -> anyhow::Result<String> {
    let mut command = Command::new(helm);
    command.args(["template", "millwright", chart, "--namespace=millwright-system", "--kube-version=1.36.0"]);
    for value in values {
        command.arg(if value.contains("=[") { "--set-json" } else { "--set" }).arg(value);
    }
    output(&mut command)
}

/// Renders a temporary overlay in `deploy/`, where its relative paths resolve.
fn overlay(kubectl: &Path, combination: &Combination) -> anyhow::Result<String> {
    let folder = tempfile::Builder::new()
        .prefix(".chart-")
        .tempdir_in(root().join("deploy"))
        .context("failed to create a folder in deploy/")?;
    let list = |paths: &[&str]| paths.iter().map(|path| format!("../{path}")).collect::<Vec<_>>();
    let mut overlay = serde_json::json!({
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": list(combination.resources),
        "components": list(combination.components),
    });
    let more: Option<serde_json::Map<String, Value>> =
        serde_saphyr::from_str(combination.more).context("the overlay is not valid YAML")?;
    if let Some(fields) = overlay.as_object_mut() {
        fields.extend(more.unwrap_or_default());
    }
    fs::write(folder.path().join("kustomization.yaml"), overlay.to_string()).context("failed to write an overlay")?;
    output(Command::new(kubectl).arg("kustomize").arg(folder.path()))
}

fn output(command: &mut Command) -> anyhow::Result<String> {
    let ended = command.output().with_context(|| format!("failed to start {}", command.get_program().display()))?;
    let (stdout, stderr) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    ensure!(ended.status.success(), "{}{}", stdout.trim(), stderr.trim());
    Ok(stdout.into_owned())
}

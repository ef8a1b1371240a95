//! Installs the Helm chart on kube-apiserver, runs a pool with it, upgrades it and uninstalls it.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};
use control_plane::ControlPlane;

use super::pool::{self, Form};
use super::{NAMESPACE, kubectl};
use crate::workspace::root;

const RELEASE: &str = "millwright";

/// Installs the chart in this form, runs a pool, upgrades and uninstalls it.
pub(super) async fn install_and_uninstall(plane: &ControlPlane, helm: &Path, form: Form) -> anyhow::Result<()> {
    let chart = Chart { plane, helm };
    let before = chart.objects()?;
    let form_value = match form {
        Form::OneProcess => "form=one-process",
        Form::TwoProcesses => "form=two-processes",
    };
    let values = ["--set", form_value, "--set", "driver.kind=virtual", "--set", "admission=deny,flowControl=true"];
    chart.run("install", &[&values[..], &["--create-namespace"]].concat())?;
    let outcome = run_and_upgrade(&chart, form, &values).await;
    chart.run("uninstall", &["--wait"])?;
    // The MachineClass and its Secret were created by the test; the controllers that would remove their finalizers no
    // longer run.
    for object in ["machineclass/small", "secret/cloud"] {
        let free = r#"{"metadata": {"finalizers": null}}"#;
        let _gone = kubectl(plane, &["patch", object, "--namespace", NAMESPACE, "--type=merge", "--patch", free]);
    }
    kubectl(plane, &["delete", "namespace", NAMESPACE, "--timeout=120s"])?;
    outcome?;
    let after = chart.objects()?;
    let left: Vec<&String> = after.difference(&before).collect();
    ensure!(left.is_empty(), "objects of the chart still exist: {left:?}");
    Ok(())
}

async fn run_and_upgrade(chart: &Chart<'_>, form: Form, values: &[&str]) -> anyhow::Result<()> {
    // Includes the admission policies, which must not block the controllers.
    pool::runs_with_current_manifests(chart.plane, form).await?;
    let changes = ["--set", "nodeSelector.disk=fast,admission=warn,flowControl=false"];
    chart.run("upgrade", &[values, &changes].concat())?;
    let selectors = "--output=jsonpath={range .items[*]}{.spec.template.spec.nodeSelector.disk}{\"\\n\"}{end}";
    let selectors = kubectl(chart.plane, &["get", "deployments", "--namespace", NAMESPACE, selectors])?;
    ensure!(selectors.lines().all(|disk| disk == "fast"), "the upgrade did not change every Deployment: {selectors:?}");
    ensure!(
        !chart.objects()?.iter().any(|name| name.starts_with("flowschema /millwright")),
        "the upgrade did not delete the FlowSchemas"
    );
    Ok(())
}

struct Chart<'a> {
    plane: &'a ControlPlane,
    helm: &'a Path,
}

impl Chart<'_> {
    fn run(&self, verb: &str, arguments: &[&str]) -> anyhow::Result<()> {
        let mut command = Command::new(self.helm);
        command.args([verb, RELEASE, "--namespace", NAMESPACE, "--kubeconfig"]).arg(self.plane.kubeconfig_path());
        if verb != "uninstall" {
            command.arg(root().join("charts/millwright"));
        }
        // helm's cache and configuration are limited to this run.
        let home = self.plane.layout().home.join("helm");
        command
            .args(arguments)
            .env("HELM_CACHE_HOME", &home)
            .env("HELM_CONFIG_HOME", &home)
            .env("HELM_DATA_HOME", &home);
        let ended = command.output().context("failed to start helm")?;
        ensure!(ended.status.success(), "helm {verb}: {}", String::from_utf8_lossy(&ended.stderr).trim());
        Ok(())
    }

    /// Returns all objects of the kinds in the chart. Objects that the API server creates in each namespace are
    /// excluded.
    fn objects(&self) -> anyhow::Result<BTreeSet<String>> {
        let kinds = "deployments,services,serviceaccounts,configmaps,secrets,roles,rolebindings,networkpolicies,poddisruptionbudgets,\
                     clusterroles,clusterrolebindings,validatingadmissionpolicies,validatingadmissionpolicybindings,flowschemas,\
                     prioritylevelconfigurations";
        let names = "--output=jsonpath={range .items[*]}{.kind} {.metadata.namespace}/{.metadata.name}{\"\\n\"}{end}";
        let all = kubectl(self.plane, &["get", kinds, "--all-namespaces", names])?;
        Ok(all.lines().map(str::to_lowercase).collect())
    }
}

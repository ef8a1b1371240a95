//! The Helm chart, installed: what it makes is taken by a real API server, its controllers live by it, and an upgrade and the end leave nothing behind.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};
use control_plane::ControlPlane;

use super::pool::{self, Form};
use super::{NAMESPACE, kubectl};
use crate::workspace::root;

const RELEASE: &str = "millwright";

/// Installed in this form, lived with, changed and taken away.
pub(super) async fn comes_and_goes(plane: &ControlPlane, helm: &Path, form: Form) -> anyhow::Result<()> {
    let chart = Chart { plane, helm };
    let before = chart.objects()?;
    let form_value = match form {
        Form::OneProcess => "form=one-process",
        Form::TwoProcesses => "form=two-processes",
    };
    let values = ["--set", form_value, "--set", "driver.kind=virtual", "--set", "admission=deny,flowControl=true"];
    chart.run("install", &[&values[..], &["--create-namespace"]].concat())?;
    let outcome = lived_with(&chart, form, &values).await;
    chart.run("uninstall", &["--wait"])?;
    // The class and its Secret are a person's; the controllers that would let go of them are gone.
    for object in ["machineclass/small", "secret/cloud"] {
        let free = r#"{"metadata": {"finalizers": null}}"#;
        let _gone = kubectl(plane, &["patch", object, "--namespace", NAMESPACE, "--type=merge", "--patch", free]);
    }
    kubectl(plane, &["delete", "namespace", NAMESPACE, "--timeout=120s"])?;
    outcome?;
    let after = chart.objects()?;
    let left: Vec<&String> = after.difference(&before).collect();
    ensure!(left.is_empty(), "the chart leaves {left:?} behind");
    Ok(())
}

async fn lived_with(chart: &Chart<'_>, form: Form, values: &[&str]) -> anyhow::Result<()> {
    // Policies included: the controllers must be able to live with them.
    pool::lives_and_tells(chart.plane, form).await?;
    let wishes = ["--set", "nodeSelector.disk=fast,admission=warn,flowControl=false"];
    chart.run("upgrade", &[values, &wishes].concat())?;
    let selectors = "--output=jsonpath={range .items[*]}{.spec.template.spec.nodeSelector.disk}{\"\\n\"}{end}";
    let selectors = kubectl(chart.plane, &["get", "deployments", "--namespace", NAMESPACE, selectors])?;
    ensure!(selectors.lines().all(|disk| disk == "fast"), "an upgrade does not reach every Deployment: {selectors:?}");
    ensure!(
        !chart.objects()?.iter().any(|name| name.starts_with("flowschema /millwright")),
        "an upgrade leaves flows behind"
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
        // What helm remembers of charts and plug-ins belongs to this run.
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

    /// Everything of the kinds that the chart makes, wherever it is; not what the API server makes by itself in each namespace.
    fn objects(&self) -> anyhow::Result<BTreeSet<String>> {
        let kinds = "deployments,services,serviceaccounts,configmaps,secrets,roles,rolebindings,networkpolicies,poddisruptionbudgets,\
                     clusterroles,clusterrolebindings,validatingadmissionpolicies,validatingadmissionpolicybindings,flowschemas,\
                     prioritylevelconfigurations";
        let names = "--output=jsonpath={range .items[*]}{.kind} {.metadata.namespace}/{.metadata.name}{\"\\n\"}{end}";
        let all = kubectl(self.plane, &["get", kinds, "--all-namespaces", names])?;
        Ok(all.lines().map(str::to_lowercase).collect())
    }
}

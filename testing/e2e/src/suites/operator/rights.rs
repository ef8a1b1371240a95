//! Checks the permissions that `millwright check` reports, with kube-apiserver.

use anyhow::{Context, ensure};
use serde_json::Value;

use super::Operator;
use crate::workspace::root;

const NAMESPACE: &str = "millwright-system";

/// With the shipped roles nothing is missing; a removed rule is reported.
pub(super) fn play(operator: &Operator<'_>) -> anyhow::Result<()> {
    let bed = operator.test_bed;
    bed.kubectl(&["create", "namespace", NAMESPACE])?;
    let roles = root().join("deploy/rbac/one-process");
    bed.kubectl(&["apply", "--server-side", "--kustomize", &roles.to_string_lossy()])?;
    let account = format!("--account={NAMESPACE}/millwright");
    let lacking = |arguments: &[&str]| -> anyhow::Result<Vec<String>> {
        let output = operator.run(&[&["check", "-n", NAMESPACE, "-o", "json"], arguments].concat())?;
        let report: Value = serde_json::from_slice(&output.stdout)
            .with_context(|| format!("no report: {}", String::from_utf8_lossy(&output.stderr)))?;
        let all = report.get("findings").and_then(Value::as_array).into_iter().flatten();
        let ours = all.filter(|finding| finding["object"].as_str().is_some_and(|object| !object.starts_with("lease")));
        Ok(ours.map(|finding| finding["field"].as_str().unwrap_or_default().to_owned()).collect())
    };
    let none = lacking(&[&account])?;
    ensure!(none.is_empty(), "with the shipped roles check reports {none:?}");
    let spoil = r#"[{"op": "remove", "path": "/rules/3"}]"#;
    bed.kubectl(&["patch", "role", "machine-controller", "-n", NAMESPACE, "--type=json", "--patch", spoil])?;
    let found = lacking(&[&account])?;
    let expected = ["get secrets", "list secrets", "patch secrets", "watch secrets"];
    ensure!(found == expected, "check reported {found:?}");
    let stranger = lacking(&["--account=default/stranger"])?;
    ensure!(stranger.len() > 60, "for an account without permissions check reported only {}", stranger.len());
    ensure!(lacking(&["--account=self"])?.is_empty(), "check reports missing permissions of an administrator");
    Ok(())
}

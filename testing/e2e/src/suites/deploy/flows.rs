//! Into which flows the API server puts what we ask. That the schemas exist says little: another one may match first.

use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::web::Proxy;
use super::{NAMESPACE, PATIENCE};

/// Who asks for what, and which flow that belongs to.
const REQUESTS: [(&str, &str, &str); 5] = [
    (
        "machine-controller",
        "/apis/coordination.k8s.io/v1/namespaces/millwright-system/leases/machine-controller",
        "millwright-leases",
    ),
    ("machine-controller", "/api/v1/namespaces/millwright-system/events", "millwright-events"),
    ("machine-controller", "/apis/machine.sapcloud.io/v1alpha1/namespaces/millwright-system/machines", "millwright"),
    ("machine-controller-manager", "/api/v1/nodes", "millwright"),
    ("millwright", "/apis/machine.sapcloud.io/v1alpha1/namespaces/millwright-system/machinesets", "millwright"),
];

/// Each request is put where it belongs.
pub(super) async fn assigned(proxy: &Proxy) -> anyhow::Result<()> {
    for (account, path, flow) in REQUESTS {
        let answer = proxy.get(&format!("/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas/{flow}")).await?;
        let schema: Value = serde_json::from_str(&answer.body).context("a flow schema is no JSON")?;
        let uid = schema.pointer("/metadata/uid").and_then(Value::as_str).context("there is no such flow")?;
        // The schemas reach the API server's own dispatcher through a watch.
        let deadline = Instant::now() + PATIENCE;
        loop {
            let answer = proxy.get_as(&format!("system:serviceaccount:{NAMESPACE}:{account}"), path).await?;
            let given = answer.header("X-Kubernetes-PF-FlowSchema-UID").unwrap_or_default();
            if given == uid {
                break;
            }
            ensure!(Instant::now() < deadline, "{account} asking for {path} is not in {flow} but in {given}");
            sleep(Duration::from_millis(200)).await;
        }
    }
    Ok(())
}

/// What the API server counted while our programs ran.
pub(super) async fn used(proxy: &Proxy) -> anyhow::Result<()> {
    let metrics = proxy.get("/metrics").await?.body;
    let flows =
        [("millwright-leases", "leader-election"), ("millwright-events", "workload-low"), ("millwright", "millwright")];
    for (flow, level) in flows {
        let series = format!(
            "apiserver_flowcontrol_dispatched_requests_total{{flow_schema=\"{flow}\",priority_level=\"{level}\"}}"
        );
        let count = metrics.lines().find_map(|line| line.strip_prefix(series.as_str())?.trim().parse().ok());
        let count: f64 = count.unwrap_or_default();
        ensure!(count > 3.0, "only {count} requests went through {flow}");
    }
    Ok(())
}

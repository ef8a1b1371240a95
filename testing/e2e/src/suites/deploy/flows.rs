//! Checks which FlowSchema the API server selects for the requests of the controllers. Another one may match first.

use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::web::Proxy;
use super::{NAMESPACE, TIMEOUT};

/// User, path and expected FlowSchema of a request.
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

/// Checks the FlowSchema of each request.
pub(super) async fn assigned(proxy: &Proxy) -> anyhow::Result<()> {
    for (account, path, flow) in REQUESTS {
        let answer = proxy.get(&format!("/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas/{flow}")).await?;
        let schema: Value = serde_json::from_str(&answer.body).context("a FlowSchema is not JSON")?;
        let uid = schema.pointer("/metadata/uid").and_then(Value::as_str).context("the FlowSchema does not exist")?;
        // The API server applies FlowSchemas after a delay.
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let answer = proxy.get_as(&format!("system:serviceaccount:{NAMESPACE}:{account}"), path).await?;
            let given = answer.header("X-Kubernetes-PF-FlowSchema-UID").unwrap_or_default();
            if given == uid {
                break;
            }
            ensure!(
                Instant::now() < deadline,
                "the request of {account} for {path} has FlowSchema {given} instead of {flow}"
            );
            sleep(Duration::from_millis(200)).await;
        }
    }
    Ok(())
}

/// Checks the request counts of the API server per FlowSchema.
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
        ensure!(count > 3.0, "only {count} requests used FlowSchema {flow}");
    }
    Ok(())
}

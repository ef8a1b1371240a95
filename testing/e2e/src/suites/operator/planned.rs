//! Compares the result of `millwright plan` with the rollout, and checks with the audit log that it only reads.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use anyhow::{Context, ensure};
use control_plane::User;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::super::report::Report;
use super::{Operator, deployment};
use crate::counts::Audit;

const POOL: &str = "planned";
const PLANNER: &str = "planner";
/// Boot time of a machine in seconds, long enough that delays of the control plane do not matter.
const BOOT: u32 = 6;
/// Deletion time of a machine in seconds.
const DELETE: u32 = 3;
/// Allowed deviation of the duration.
const TOLERANCE: f64 = 0.2;

/// Runs the cases.
pub(super) async fn play(operator: &Operator<'_>, audit: &Audit, report: &mut Report) -> anyhow::Result<()> {
    let said = report.case("plan predicts a rollout, and only reads", plan(operator, audit)).await;
    if let Some(said) = said {
        report.case("the rollout matches the prediction", happens(operator, &said)).await;
    }
    operator.test_bed.kubectl(&["delete", "machinedeployment", POOL]).map(drop)
}

fn objects(class: &str) -> Value {
    let class_of = |name: &str| {
        json!({
            "apiVersion": "machine.sapcloud.io/v1alpha1", "kind": "MachineClass", "metadata": { "name": name }, "provider": "virtual",
            "providerSpec": {
                "createLatency": "0s", "bootLatency": format!("{BOOT}s"), "deleteLatency": format!("{DELETE}s"), "join": { "after": "0s" },
            },
            "secretRef": { "name": "cloud", "namespace": "default" },
        })
    };
    json!({ "apiVersion": "v1", "kind": "List", "items": [class_of("slow"), class_of("slower"), deployment(POOL, class)] })
}

/// Returns the prediction as JSON.
async fn plan(operator: &Operator<'_>, audit: &Audit) -> anyhow::Result<Value> {
    // A rollout that cannot complete would extend the simulation to its end.
    operator.test_bed.kubectl(&["delete", "machinedeployment", "lost"])?;
    operator.test_bed.apply("planned", &objects("slow"))?;
    operator.until(&["status"], "4 machines: 4 healthy").await?;
    let changed = operator.test_bed.file("changed.json");
    fs::write(&changed, deployment(POOL, "slower").to_string()).context("failed to write the change")?;
    let kubeconfig = operator.test_bed.file("planner.kubeconfig");
    let planner = User::named(PLANNER).in_group("system:masters");
    fs::write(&kubeconfig, operator.test_bed.kubeconfig_for(&planner)?.text())?;
    let mark = audit.mark()?;
    let (changed, kubeconfig) = (changed.to_string_lossy(), kubeconfig.to_string_lossy());
    let times = [format!("--boot-time={BOOT}s"), format!("--delete-time={DELETE}s")];
    let said =
        operator.says(&["plan", "-f", &changed, "--kubeconfig", &kubeconfig, &times[0], &times[1], "-o", "json"])?;
    only_read(&audit.text_since(mark)?)?;
    serde_json::from_str(&said).context("the plan is not JSON")
}

/// Checks that the planner sent only reads to the API server.
fn only_read(log: &str) -> anyhow::Result<()> {
    let entries = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let text = |entry: &Value, at: &str| entry.pointer(at).and_then(Value::as_str).unwrap_or_default().to_owned();
    let verbs: Vec<String> =
        entries.filter(|entry| text(entry, "/user/username") == PLANNER).map(|entry| text(&entry, "/verb")).collect();
    ensure!(verbs.len() >= 5, "the audit log contains only {} requests of the plan", verbs.len());
    ensure!(
        verbs.iter().all(|verb| verb == "list" || verb == "get"),
        "the plan sent other requests than reads: {verbs:?}"
    );
    Ok(())
}

async fn happens(operator: &Operator<'_>, said: &Value) -> anyhow::Result<()> {
    let number = |field: &str| said.get(field).and_then(Value::as_u64).with_context(|| format!("no {field} in {said}"));
    let (at_once, seconds) = (number("machinesAtOnce")?, number("seconds")?);
    let (before, old) = (machines(operator, "")?, machines(operator, &format!("name={POOL}"))?);
    operator.test_bed.apply("planned", &objects("slower"))?;
    let (begin, mut most) = (Instant::now(), 0);
    loop {
        let now = machines(operator, "")?;
        most = most.max(now.len());
        if now.is_disjoint(&old) && now.len() == before.len() {
            break;
        }
        ensure!(begin.elapsed() < super::TIMEOUT, "the rollout has not completed; the Machines are {now:?}");
        sleep(Duration::from_millis(100)).await;
    }
    let took = begin.elapsed().as_secs_f64();
    ensure!(u64::try_from(most)? == at_once, "plan predicted at most {at_once} Machines, and there were {most}");
    let said = Duration::from_secs(seconds).as_secs_f64();
    ensure!((took - said).abs() <= said * TOLERANCE, "plan predicted {said} s, and the rollout took {took:.1} s");
    Ok(())
}

/// Returns the names of the Machines with these labels.
fn machines(operator: &Operator<'_>, labels: &str) -> anyhow::Result<BTreeSet<String>> {
    let names = operator.test_bed.kubectl(&["get", "machines", "--selector", labels, "--output=name"])?;
    Ok(names.lines().map(str::to_owned).collect())
}

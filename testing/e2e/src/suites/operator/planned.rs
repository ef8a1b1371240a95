//! What `millwright plan` said, beside what then happened; and by the audit log of the API server that it only read.

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
/// How many seconds a machine boots: so many that what the control plane needs beside it does not count.
const BOOT: u32 = 6;
/// The same of its deletion.
const DELETE: u32 = 3;
/// How far the duration may be off, as the issue of `plan` has it.
const OFF_BY: f64 = 0.2;

/// Plays it.
pub(super) async fn play(operator: &Operator<'_>, audit: &Audit, report: &mut Report) -> anyhow::Result<()> {
    let said = report.case("plan tells what a roll-out would do, and only reads", plan(operator, audit)).await;
    if let Some(said) = said {
        report.case("then it happens: as many machines at once, as long as was said", happens(operator, &said)).await;
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

/// What is going to happen, as JSON.
async fn plan(operator: &Operator<'_>, audit: &Audit) -> anyhow::Result<Value> {
    // What can never be done would be waited for to the end.
    operator.test_bed.kubectl(&["delete", "machinedeployment", "lost"])?;
    operator.test_bed.apply("planned", &objects("slow"))?;
    operator.until(&["status"], "4 machines: 4 fine").await?;
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
    serde_json::from_str(&said).context("the plan is no JSON")
}

/// All that the planner asked the API server for.
fn only_read(log: &str) -> anyhow::Result<()> {
    let entries = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let text = |entry: &Value, at: &str| entry.pointer(at).and_then(Value::as_str).unwrap_or_default().to_owned();
    let verbs: Vec<String> =
        entries.filter(|entry| text(entry, "/user/username") == PLANNER).map(|entry| text(&entry, "/verb")).collect();
    ensure!(verbs.len() >= 5, "the audit log knows {} requests of the plan", verbs.len());
    ensure!(verbs.iter().all(|verb| verb == "list" || verb == "get"), "the plan did more than to read: {verbs:?}");
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
        ensure!(begin.elapsed() < super::PATIENCE, "the roll-out has not ended; there are {now:?}");
        sleep(Duration::from_millis(100)).await;
    }
    let took = begin.elapsed().as_secs_f64();
    ensure!(u64::try_from(most)? == at_once, "{at_once} machines at once were said, and there were {most}");
    let said = Duration::from_secs(seconds).as_secs_f64();
    ensure!((took - said).abs() <= said * OFF_BY, "{said} s were said, and it took {took:.1} s");
    Ok(())
}

/// The machines with these labels.
fn machines(operator: &Operator<'_>, labels: &str) -> anyhow::Result<BTreeSet<String>> {
    let names = operator.test_bed.kubectl(&["get", "machines", "--selector", labels, "--output=name"])?;
    Ok(names.lines().map(str::to_owned).collect())
}

//! Runs the simulation and collects the result.

use std::sync::Arc;
use std::time::Duration;

use driver::Code;
use driver_virtual::CallEnd;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use serde_json::Value;

use crate::change::{self, Change};
use crate::cluster::Cluster;
use crate::copy;
use crate::delays::Delays;
use crate::record::{MACHINES, Record, Timeline};
use crate::snapshot::{Snapshot, name_of, text};
use crate::times::Times;

/// Options of a simulation.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Maximum number of VMs in the cloud.
    pub quota: Option<usize>,
    /// Maximum duration of the simulation, in virtual time.
    pub horizon: Duration,
    /// Start of the simulation: when the cluster was read.
    pub now: Timestamp,
}

/// Result of a simulation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Forecast {
    /// When the change is applied.
    pub at: Timestamp,
    /// Whether the change completed within the horizon.
    pub finished: bool,
    /// Seconds until the last Machine is running or deleted.
    pub seconds: i64,
    /// Number of Machines before the change.
    pub machines_before: usize,
    /// Number of Machines after the change.
    pub machines_after: usize,
    /// Peak number of Machines, including those being deleted.
    pub machines_at_once: usize,
    /// Peak number of VMs.
    pub vms_at_once: usize,
    /// Quota of VMs, if set.
    pub quota: Option<usize>,
    /// Number of create calls refused by the quota.
    pub quota_refusals: usize,
    /// Number of Machines created.
    #[serde(rename = "made")]
    pub created: usize,
    /// Number of Machines deleted.
    pub deleted: usize,
    /// Machines that are created or deleted.
    pub machines: Vec<Bar>,
    /// What drains waited for, longest wait first.
    #[serde(rename = "heldUpBy")]
    pub delayed_by: Vec<Delay>,
    /// Objects that were not finished at the horizon, each with the last reason.
    #[serde(rename = "notDone")]
    pub incomplete: Vec<String>,
    /// Assumptions, one sentence each.
    pub assumed: Vec<String>,
    /// Objects that could not be read, one sentence each.
    pub not_read: Vec<String>,
}

/// Timeline of one Machine, in seconds from the start. `None` if it happened before the start or not at all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Bar {
    /// Name. New Machines get other names in the real cluster.
    pub name: String,
    /// MachineClass.
    pub class: String,
    /// Created.
    #[serde(rename = "made")]
    pub created: Option<i64>,
    /// Running.
    pub ready: Option<i64>,
    /// Deletion requested.
    pub deleting: Option<i64>,
    /// Deleted.
    #[serde(rename = "gone")]
    pub deleted: Option<i64>,
}

/// An obstacle that drains waited for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Delay {
    /// Name of the obstacle.
    pub what: String,
    /// Total wait of all Machines, in seconds.
    pub seconds: i64,
    /// Number of Machines that waited.
    pub machines: usize,
}

/// Time to settle before the change, so that controllers and cloud know all operations in progress.
const SETTLE_TIME: Duration = Duration::from_secs(30);
/// Interval of the completion check, and number of consecutive checks that must succeed.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
const CHECKS: u32 = 5;

/// Runs the simulation. The tokio clock of the caller must be paused; otherwise it takes as long as the result says.
pub async fn forecast(
    snapshot: &Snapshot,
    changed: &[Value],
    times: &Times,
    options: Options,
) -> Result<Forecast, String> {
    let writes =
        changed.iter().map(|object| change::of(object, snapshot, times)).collect::<Result<Vec<Change>, _>>()?;
    let cluster = Cluster::new(&snapshot.namespace, options.now, times, options.quota)?;
    let record = Record::default();
    record.watch(&cluster.server, &cluster.cloud, &cluster.clock);
    fill(&cluster, snapshot, times)?;
    for object in changed.iter().filter(|object| text(object, "/kind") == "MachineClass") {
        provide_secrets(&cluster, object, snapshot);
    }
    let delays = Delays::new(cluster.clock.clone());
    cluster.start(Arc::new(delays.clone()))?;
    tokio::time::sleep(SETTLE_TIME).await;

    let started = cluster.clock.now();
    record.begin();
    let before = record.numbers().0;
    for write in &writes {
        write.apply(&cluster.client).await?;
    }
    let finished = until_done(&cluster, options.horizon).await;
    let ended = cluster.clock.now();
    Ok(result(&Simulation {
        snapshot,
        times,
        options,
        cluster: &cluster,
        record: &record,
        delays: &delays,
        started,
        ended,
        finished,
        before,
    }))
}

fn provide_secrets(cluster: &Cluster, class: &Value, snapshot: &Snapshot) {
    for secret in copy::secrets(class, &snapshot.namespace) {
        cluster.provide(&secret);
    }
}

/// Copies all objects and creates a VM for each Machine that has one.
fn fill(cluster: &Cluster, snapshot: &Snapshot, times: &Times) -> Result<(), String> {
    for namespace in copy::namespaces(snapshot) {
        cluster.provide(&namespace);
    }
    for class in snapshot.of("MachineClass") {
        provide_secrets(cluster, class, snapshot);
        cluster.copy(&copy::class(class, &copy::spec_of(snapshot, name_of(class), times)))?;
    }
    let nodes = copy::node_names(snapshot);
    let mut vms = std::collections::BTreeMap::new();
    for machine in snapshot.of("Machine").filter(|machine| !text(machine, "/spec/providerID").is_empty()) {
        let spec = match snapshot.node_of(machine) {
            Some(node) => copy::spec_of_node(node, times),
            None => copy::spec_of(snapshot, text(machine, "/spec/class/name"), times),
        };
        if let Some(id) = cluster.plant(spec, name_of(machine)) {
            vms.insert(name_of(machine).to_owned(), id);
        }
    }
    for object in snapshot.objects.iter().filter(|object| text(object, "/kind") != "MachineClass") {
        cluster.copy(&copy::object(object, &nodes, |machine| vms.get(machine).cloned()))?;
    }
    Ok(())
}

/// Waits until nothing is left to do. Returns false if the horizon is reached first.
async fn until_done(cluster: &Cluster, horizon: Duration) -> bool {
    let begin = tokio::time::Instant::now();
    let mut passed = 0;
    while begin.elapsed() < horizon {
        tokio::time::sleep(CHECK_INTERVAL).await;
        passed = if unfinished(cluster).is_empty() { passed + 1 } else { 0 };
        if passed == CHECKS {
            return true;
        }
    }
    false
}

/// Returns the names of MachineDeployments and Machines that have not reached their desired state.
fn unfinished(cluster: &Cluster) -> Vec<String> {
    let number = |object: &Value, path: &str| object.pointer(path).and_then(Value::as_i64).unwrap_or_default();
    let mut unfinished = Vec::new();
    for deployment in cluster.server.objects("machinedeployments.machine.sapcloud.io") {
        let wanted = number(&deployment, "/spec/replicas");
        let status = |field: &str| number(&deployment, &format!("/status/{field}"));
        let paused = deployment.pointer("/spec/paused") == Some(&Value::Bool(true));
        let rolled = paused || status("updatedReplicas") == wanted;
        let complete = status("replicas") == wanted && status("readyReplicas") == wanted;
        if !(rolled && complete && status("observedGeneration") >= number(&deployment, "/metadata/generation")) {
            unfinished.push(name_of(&deployment).to_owned());
        }
    }
    for machine in cluster.server.objects(MACHINES) {
        let runs = ["Running", "Available"].contains(&text(&machine, "/status/currentStatus/phase"));
        if !runs || machine.pointer("/metadata/deletionTimestamp").is_some() {
            unfinished.push(name_of(&machine).to_owned());
        }
    }
    unfinished
}

/// State of a finished simulation.
struct Simulation<'a> {
    snapshot: &'a Snapshot,
    times: &'a Times,
    options: Options,
    cluster: &'a Cluster,
    record: &'a Record,
    delays: &'a Delays,
    started: Timestamp,
    ended: Timestamp,
    finished: bool,
    before: usize,
}

fn result(simulation: &Simulation<'_>) -> Forecast {
    let &Simulation { snapshot, times, options, cluster, record, delays, started, ended, finished, before } =
        simulation;
    let (after, peak, peak_vms) = record.numbers();
    let at = |time: Option<Timestamp>| {
        time.filter(|time| *time >= started).map(|time| time.duration_since(started).as_secs())
    };
    let mut machines: Vec<Bar> = record
        .timelines()
        .into_iter()
        .filter(|(_, timeline)| timeline.deleted.is_none_or(|deleted| deleted >= started))
        .map(|(name, Timeline { class, created, ready, deleting, deleted })| Bar {
            name,
            class,
            created: at(created),
            ready: at(ready).filter(|_| created.is_some_and(|created| created >= started)),
            deleting: at(deleting),
            deleted: at(deleted),
        })
        .filter(|bar| bar.created.is_some() || bar.deleting.is_some() || bar.deleted.is_some())
        .collect();
    machines.sort_by_key(|bar| (bar.created.unwrap_or(-1), bar.deleting.unwrap_or(i64::MAX), bar.name.clone()));
    let last = machines.iter().flat_map(|bar| [bar.created, bar.ready, bar.deleting, bar.deleted]).flatten().max();
    let refused = |end: CallEnd| end == CallEnd::Answered(Code::ResourceExhausted);
    let incomplete = if finished { Vec::new() } else { unfinished(cluster) };
    let reason = |name: String| match delays.reason(&name) {
        Some(why) => format!("{name}: {why}"),
        None => name,
    };
    Forecast {
        at: options.now,
        finished,
        seconds: if finished { last.unwrap_or_default() } else { ended.duration_since(started).as_secs() },
        machines_before: before,
        machines_after: after,
        machines_at_once: peak,
        vms_at_once: peak_vms,
        quota: options.quota,
        quota_refusals: cluster.cloud.calls().iter().filter(|call| refused(call.end)).count(),
        created: machines.iter().filter(|bar| bar.created.is_some()).count(),
        deleted: machines.iter().filter(|bar| bar.deleted.is_some()).count(),
        machines,
        delayed_by: delays
            .waited()
            .into_iter()
            .filter(|delay| delay.1 >= SignedDuration::from_secs(1))
            .map(delay)
            .collect(),
        incomplete: incomplete.into_iter().map(reason).collect(),
        assumed: assumed(snapshot, times),
        not_read: snapshot.not_read.clone(),
    }
}

fn delay((what, time, machines): (String, SignedDuration, usize)) -> Delay {
    Delay { what, seconds: time.as_secs(), machines }
}

fn assumed(snapshot: &Snapshot, times: &Times) -> Vec<String> {
    let takes = |duration: Duration| inspect::words::duration(SignedDuration::try_from(duration).unwrap_or_default());
    let mut all: Vec<String> = times
        .boot
        .iter()
        .map(|(class, time)| {
            format!("Machines of class {class} join {} after creation ({})", takes(time.takes), time.source)
        })
        .collect();
    let others = &times.boot_of_others;
    all.push(format!("Machines of other classes join {} after creation ({})", takes(others.takes), others.source));
    all.push(format!("VMs are deleted {} after the request ({})", takes(times.delete.takes), times.delete.source));
    all.push(format!(
        "pods are ready {} after they are scheduled ({})",
        takes(times.pod_start.takes),
        times.pod_start.source
    ));
    let end = &times.pod_end;
    all.push(format!(
        "pods terminate {} after the eviction, or earlier if the grace period is shorter ({})",
        takes(end.takes),
        end.source
    ));
    all.push("controllers with default flags; no other user or controller scales or deletes".to_owned());
    if snapshot.of("Node").any(|node| !copy::node_names(snapshot).contains_key(name_of(node))) {
        all.push("pods are rescheduled only to Nodes of these Machines".to_owned());
    }
    all
}

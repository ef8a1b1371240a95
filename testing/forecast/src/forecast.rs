//! From a copy and a change to the answer.

use std::sync::Arc;
use std::time::Duration;

use driver::Code;
use driver_virtual::CallEnd;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use serde_json::Value;

use crate::change::{self, Change};
use crate::cluster::Cluster;
use crate::copied;
use crate::hold_ups::HoldUps;
use crate::record::{Life, MACHINES, Record};
use crate::seen::{Seen, name_of, text};
use crate::times::Times;

/// How it is played.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How many VMs the cloud has room for.
    pub quota: Option<usize>,
    /// After how long, in the time of the copy, it is given up.
    pub horizon: Duration,
    /// When it begins: the time of the read.
    pub now: Timestamp,
}

/// What would happen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Forecast {
    /// When it would be applied.
    pub at: Timestamp,
    /// Whether it came to its end in the time it was given.
    pub finished: bool,
    /// How many seconds it takes until the last machine runs or is gone.
    pub seconds: i64,
    /// How many machines there are before.
    pub machines_before: usize,
    /// How many there are after.
    pub machines_after: usize,
    /// The most machines at once, those that are being deleted included.
    pub machines_at_once: usize,
    /// The most VMs at once.
    pub vms_at_once: usize,
    /// How many VMs there is room for.
    pub quota: Option<usize>,
    /// How often the cloud had no room.
    pub quota_refusals: usize,
    /// How many machines are made.
    pub made: usize,
    /// How many are deleted.
    pub deleted: usize,
    /// The machines that come or go.
    pub machines: Vec<Bar>,
    /// What drains waited for, the longest first.
    pub held_up_by: Vec<HoldUp>,
    /// What had not come to its end, and why.
    pub not_done: Vec<String>,
    /// What was assumed, a sentence each.
    pub assumed: Vec<String>,
    /// What could not be read.
    pub not_read: Vec<String>,
}

/// One machine, in seconds from the beginning; `None` for what was before it or does not happen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Bar {
    /// Its name; that of a new machine will be another.
    pub name: String,
    /// Its class.
    pub class: String,
    /// When it is made.
    pub made: Option<i64>,
    /// When it runs.
    pub ready: Option<i64>,
    /// When its deletion begins.
    pub deleting: Option<i64>,
    /// When it is gone.
    pub gone: Option<i64>,
}

/// Something that drains waited for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HoldUp {
    /// What.
    pub what: String,
    /// How long, over all machines.
    pub seconds: i64,
    /// How many machines.
    pub machines: usize,
}

/// How long the copy is let run before the change, so that what was under way is known to everybody.
const LEAD: Duration = Duration::from_secs(30);
/// How often is looked whether it is done, and how often it must have been.
const LOOK: Duration = Duration::from_secs(1);
const LOOKS: u32 = 5;

/// Plays it. Call it on a runtime of tokio whose clock is paused, or it takes as long as it says.
pub async fn forecast(seen: &Seen, changed: &[Value], times: &Times, options: Options) -> Result<Forecast, String> {
    let writes = changed.iter().map(|object| change::of(object, seen, times)).collect::<Result<Vec<Change>, _>>()?;
    let cluster = Cluster::new(&seen.namespace, options.now, times, options.quota)?;
    let record = Record::default();
    record.watch(&cluster.server, &cluster.cloud, &cluster.clock);
    fill(&cluster, seen, times)?;
    for object in changed.iter().filter(|object| text(object, "/kind") == "MachineClass") {
        provide_secrets(&cluster, object, seen);
    }
    let hold_ups = HoldUps::new(cluster.clock.clone());
    cluster.start(Arc::new(hold_ups.clone()))?;
    tokio::time::sleep(LEAD).await;

    let begun = cluster.clock.now();
    record.begin();
    let before = record.numbers().0;
    for write in &writes {
        write.apply(&cluster.client).await?;
    }
    let finished = until_done(&cluster, options.horizon).await;
    let ended = cluster.clock.now();
    Ok(told(&Played {
        seen,
        times,
        options,
        cluster: &cluster,
        record: &record,
        hold_ups: &hold_ups,
        begun,
        ended,
        finished,
        before,
    }))
}

fn provide_secrets(cluster: &Cluster, class: &Value, seen: &Seen) {
    for secret in copied::secrets(class, &seen.namespace) {
        cluster.provide(&secret);
    }
}

/// Copies everything, with a VM for each machine that has one.
fn fill(cluster: &Cluster, seen: &Seen, times: &Times) -> Result<(), String> {
    for namespace in copied::namespaces(seen) {
        cluster.provide(&namespace);
    }
    for class in seen.of("MachineClass") {
        provide_secrets(cluster, class, seen);
        cluster.copy(&copied::class(class, &copied::spec_of(seen, name_of(class), times)))?;
    }
    let nodes = copied::node_names(seen);
    let mut vms = std::collections::BTreeMap::new();
    for machine in seen.of("Machine").filter(|machine| !text(machine, "/spec/providerID").is_empty()) {
        let spec = match seen.node_of(machine) {
            Some(node) => copied::spec_of_node(node, times),
            None => copied::spec_of(seen, text(machine, "/spec/class/name"), times),
        };
        if let Some(id) = cluster.plant(spec, name_of(machine)) {
            vms.insert(name_of(machine).to_owned(), id);
        }
    }
    for object in seen.objects.iter().filter(|object| text(object, "/kind") != "MachineClass") {
        cluster.copy(&copied::object(object, &nodes, |machine| vms.get(machine).cloned()))?;
    }
    Ok(())
}

/// Whether it came to its end.
async fn until_done(cluster: &Cluster, horizon: Duration) -> bool {
    let begin = tokio::time::Instant::now();
    let mut calm = 0;
    while begin.elapsed() < horizon {
        tokio::time::sleep(LOOK).await;
        calm = if open(cluster).is_empty() { calm + 1 } else { 0 };
        if calm == LOOKS {
            return true;
        }
    }
    false
}

/// What is not as it is meant to be, by name.
fn open(cluster: &Cluster) -> Vec<String> {
    let number = |object: &Value, path: &str| object.pointer(path).and_then(Value::as_i64).unwrap_or_default();
    let mut open = Vec::new();
    for deployment in cluster.server.objects("machinedeployments.machine.sapcloud.io") {
        let wanted = number(&deployment, "/spec/replicas");
        let status = |field: &str| number(&deployment, &format!("/status/{field}"));
        let paused = deployment.pointer("/spec/paused") == Some(&Value::Bool(true));
        let rolled = paused || status("updatedReplicas") == wanted;
        let whole = status("replicas") == wanted && status("readyReplicas") == wanted;
        if !(rolled && whole && status("observedGeneration") >= number(&deployment, "/metadata/generation")) {
            open.push(name_of(&deployment).to_owned());
        }
    }
    for machine in cluster.server.objects(MACHINES) {
        let runs = ["Running", "Available"].contains(&text(&machine, "/status/currentStatus/phase"));
        if !runs || machine.pointer("/metadata/deletionTimestamp").is_some() {
            open.push(name_of(&machine).to_owned());
        }
    }
    open
}

/// All that was seen.
struct Played<'a> {
    seen: &'a Seen,
    times: &'a Times,
    options: Options,
    cluster: &'a Cluster,
    record: &'a Record,
    hold_ups: &'a HoldUps,
    begun: Timestamp,
    ended: Timestamp,
    finished: bool,
    before: usize,
}

fn told(played: &Played<'_>) -> Forecast {
    let &Played { seen, times, options, cluster, record, hold_ups, begun, ended, finished, before } = played;
    let (after, most, most_vms) = record.numbers();
    let at =
        |time: Option<Timestamp>| time.filter(|time| *time >= begun).map(|time| time.duration_since(begun).as_secs());
    let mut machines: Vec<Bar> = record
        .lives()
        .into_iter()
        .filter(|(_, life)| life.gone.is_none_or(|gone| gone >= begun))
        .map(|(name, Life { class, made, ready, deleting, gone })| Bar {
            name,
            class,
            made: at(made),
            ready: at(ready).filter(|_| made.is_some_and(|made| made >= begun)),
            deleting: at(deleting),
            gone: at(gone),
        })
        .filter(|bar| bar.made.is_some() || bar.deleting.is_some() || bar.gone.is_some())
        .collect();
    machines.sort_by_key(|bar| (bar.made.unwrap_or(-1), bar.deleting.unwrap_or(i64::MAX), bar.name.clone()));
    let last = machines.iter().flat_map(|bar| [bar.made, bar.ready, bar.deleting, bar.gone]).flatten().max();
    let refused = |end: CallEnd| end == CallEnd::Answered(Code::ResourceExhausted);
    let not_done = if finished { Vec::new() } else { open(cluster) };
    let reason = |name: String| match hold_ups.reason(&name) {
        Some(why) => format!("{name}: {why}"),
        None => name,
    };
    Forecast {
        at: options.now,
        finished,
        seconds: if finished { last.unwrap_or_default() } else { ended.duration_since(begun).as_secs() },
        machines_before: before,
        machines_after: after,
        machines_at_once: most,
        vms_at_once: most_vms,
        quota: options.quota,
        quota_refusals: cluster.cloud.calls().iter().filter(|call| refused(call.end)).count(),
        made: machines.iter().filter(|bar| bar.made.is_some()).count(),
        deleted: machines.iter().filter(|bar| bar.gone.is_some()).count(),
        machines,
        held_up_by: hold_ups
            .waited()
            .into_iter()
            .filter(|held| held.1 >= SignedDuration::from_secs(1))
            .map(held)
            .collect(),
        not_done: not_done.into_iter().map(reason).collect(),
        assumed: assumed(seen, times),
        not_read: seen.not_read.clone(),
    }
}

fn held((what, time, machines): (String, SignedDuration, usize)) -> HoldUp {
    HoldUp { what, seconds: time.as_secs(), machines }
}

fn assumed(seen: &Seen, times: &Times) -> Vec<String> {
    let takes = |duration: Duration| inspect::words::duration(SignedDuration::try_from(duration).unwrap_or_default());
    let mut all: Vec<String> = times
        .boot
        .iter()
        .map(|(class, time)| {
            format!("a machine of class {class} joins {} after it was made ({})", takes(time.takes), time.source)
        })
        .collect();
    let others = &times.boot_of_others;
    all.push(format!(
        "a machine of any other class joins {} after it was made ({})",
        takes(others.takes),
        others.source
    ));
    all.push(format!("a VM is gone {} after it was asked to go ({})", takes(times.delete.takes), times.delete.source));
    all.push(format!(
        "a pod is ready {} after it was bound ({})",
        takes(times.pod_start.takes),
        times.pod_start.source
    ));
    let end = &times.pod_end;
    all.push(format!(
        "a pod ends {} after it was asked to, if its grace period allows so much ({})",
        takes(end.takes),
        end.source
    ));
    all.push("the controllers have their default flags, and nobody else scales or deletes".to_owned());
    if seen.of("Node").any(|node| !copied::node_names(seen).contains_key(name_of(node))) {
        all.push("pods move only to nodes of these machines".to_owned());
    }
    all
}

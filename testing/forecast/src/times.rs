//! Durations measured from the objects.
//!
//! A Machine and its Node have creation timestamps. A pod has the times at which it was scheduled and became ready. The
//! median is used, so that one slow Machine does not distort the result. Deletion times of VMs and pods are in no
//! object; they are assumed, and the result says so.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use crate::snapshot::{Snapshot, text};

/// A duration and its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Time {
    /// The duration.
    pub takes: Duration,
    /// Source of the duration, for the output.
    pub source: String,
}

/// All durations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Times {
    /// Time from the creation of a Machine until its Node joins, by MachineClass.
    pub boot: BTreeMap<String, Time>,
    /// The same for a MachineClass without Machines.
    pub boot_of_others: Time,
    /// Time from the delete call until the VM is deleted.
    pub delete: Time,
    /// Time from the scheduling of a pod until it is ready.
    pub pod_start: Time,
    /// Time from the eviction of a pod until it is deleted, at most its grace period.
    pub pod_end: Time,
}

/// Defaults if nothing was measured.
const BOOT: Duration = Duration::from_mins(2);
const DELETE: Duration = Duration::from_secs(30);
const POD_START: Duration = Duration::from_secs(10);
const POD_END: Duration = Duration::from_secs(5);

impl Times {
    /// Measures durations. Values of the caller take precedence.
    #[must_use]
    pub fn of(
        snapshot: &Snapshot,
        boot: Option<Duration>,
        delete: Option<Duration>,
        pod_end: Option<Duration>,
    ) -> Self {
        let mut boots: BTreeMap<String, Vec<Duration>> = BTreeMap::new();
        for machine in snapshot.of("Machine") {
            let joined = snapshot.node_of(machine).and_then(|node| time(node, "/metadata/creationTimestamp"));
            let took = since(time(machine, "/metadata/creationTimestamp"), joined);
            boots.entry(text(machine, "/spec/class/name").to_owned()).or_default().extend(took);
        }
        let all: Vec<Duration> = boots.values().flatten().copied().collect();
        let measured_boot = |took: &[Duration]| median(took).map(|takes| measured(takes, took.len(), "machine"));
        // Timestamps have a resolution of one second, so a pod with the same time twice measures nothing.
        let starts: Vec<Duration> = snapshot.of("Pod").filter_map(start).filter(|took| !took.is_zero()).collect();
        let set = |takes: Duration| Time { takes, source: "set by flag".to_owned() };
        let assumed = |takes: Duration| Time { takes, source: "assumed".to_owned() };
        Self {
            boot_of_others: boot.map(set).or_else(|| measured_boot(&all)).unwrap_or_else(|| assumed(BOOT)),
            boot: match boot {
                Some(_) => BTreeMap::new(),
                None => boots.iter().filter_map(|(class, took)| Some((class.clone(), measured_boot(took)?))).collect(),
            },
            delete: delete.map_or_else(|| assumed(DELETE), set),
            pod_start: median(&starts).map_or_else(|| assumed(POD_START), |takes| measured(takes, starts.len(), "pod")),
            pod_end: pod_end.map_or_else(|| assumed(POD_END), set),
        }
    }

    /// Returns the boot time of a MachineClass.
    pub(crate) fn boot_of(&self, class: &str) -> &Time {
        self.boot.get(class).unwrap_or(&self.boot_of_others)
    }
}

fn measured(takes: Duration, number: usize, thing: &str) -> Time {
    Time { takes, source: format!("median of {}", inspect::words::count(number, thing)) }
}

fn median(all: &[Duration]) -> Option<Duration> {
    let mut sorted = all.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied()
}

pub(crate) fn time(object: &Value, path: &str) -> Option<Timestamp> {
    text(object, path).parse().ok()
}

fn since(from: Option<Timestamp>, to: Option<Timestamp>) -> Option<Duration> {
    Duration::try_from(to?.duration_since(from?)).ok()
}

/// Returns how long a pod took to become ready, if it has been ready since then.
fn start(pod: &Value) -> Option<Duration> {
    let conditions = pod.pointer("/status/conditions")?.as_array()?;
    let at = |kind: &str| {
        let is = |condition: &&Value| text(condition, "/type") == kind && text(condition, "/status") == "True";
        conditions.iter().find(is).and_then(|condition| time(condition, "/lastTransitionTime"))
    };
    since(at("PodScheduled"), at("Ready"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn machine(name: &str, class: &str, at: &str, joined: &str) -> [Value; 2] {
        let machine = json!({
            "kind": "Machine", "metadata": { "name": name, "creationTimestamp": at, "labels": { "node": name } },
            "spec": { "class": { "name": class } },
        });
        [machine, json!({ "kind": "Node", "metadata": { "name": name, "creationTimestamp": joined } })]
    }

    /// Shows OPR-15.
    #[test]
    fn boot_time_is_the_median_of_the_class_or_of_all() {
        let objects = [
            machine("a", "x", "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"),
            machine("b", "x", "2026-01-01T00:00:00Z", "2026-01-01T00:01:30Z"),
            machine("c", "x", "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"),
            machine("d", "y", "2026-01-01T00:00:00Z", "2026-01-01T00:00:20Z"),
        ];
        let snapshot = Snapshot { objects: objects.concat(), ..Snapshot::default() };
        let times = Times::of(&snapshot, None, None, None);
        assert_eq!(times.boot_of("x").takes, Duration::from_secs(90));
        assert_eq!(times.boot_of("y").takes, Duration::from_secs(20));
        assert_eq!(times.boot_of("z").takes, Duration::from_secs(90));
        assert_eq!(times.boot_of("x").source, "median of 3 machines");
        let set = Times::of(&snapshot, Some(Duration::from_secs(7)), None, None);
        assert_eq!(set.boot_of("x").takes, Duration::from_secs(7));
    }

    /// Shows OPR-15.
    #[test]
    fn boot_time_is_assumed_when_no_machine_joined() {
        let times = Times::of(&Snapshot::default(), None, None, None);
        assert_eq!((times.boot_of("x").takes, times.boot_of("x").source.as_str()), (BOOT, "assumed"));
    }
}

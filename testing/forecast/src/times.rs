//! How long things have taken so far, as the objects tell it.
//!
//! A machine and its node say when they were made; a pod says when it was bound and when it became ready. The median is taken, because one
//! machine that took an hour says nothing about the next. How long deletions and the ends of pods take is in no object: it is assumed, and said.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use crate::seen::{Seen, text};

/// A duration, and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Time {
    /// How long.
    pub takes: Duration,
    /// From where that is known, for people.
    pub source: String,
}

/// How long things take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Times {
    /// From the creation of a machine until its node has joined, by class.
    pub boot: BTreeMap<String, Time>,
    /// The same for a class of which no machine was seen.
    pub boot_of_others: Time,
    /// From the order to delete a VM until it is gone.
    pub delete: Time,
    /// From the binding of a pod until it is ready.
    pub pod_start: Time,
    /// From the eviction of a pod until it is gone, if its grace period allows so much.
    pub pod_end: Time,
}

/// What is assumed where nothing was seen.
const BOOT: Duration = Duration::from_mins(2);
const DELETE: Duration = Duration::from_secs(30);
const POD_START: Duration = Duration::from_secs(10);
const POD_END: Duration = Duration::from_secs(5);

impl Times {
    /// As the objects tell it; what the caller says counts more.
    #[must_use]
    pub fn of(seen: &Seen, boot: Option<Duration>, delete: Option<Duration>, pod_end: Option<Duration>) -> Self {
        let mut boots: BTreeMap<String, Vec<Duration>> = BTreeMap::new();
        for machine in seen.of("Machine") {
            let joined = seen.node_of(machine).and_then(|node| time(node, "/metadata/creationTimestamp"));
            let took = since(time(machine, "/metadata/creationTimestamp"), joined);
            boots.entry(text(machine, "/spec/class/name").to_owned()).or_default().extend(took);
        }
        let all: Vec<Duration> = boots.values().flatten().copied().collect();
        let seen_boot = |took: &[Duration]| median(took).map(|takes| measured(takes, took.len(), "machine"));
        // Whoever says both in the same second says nothing.
        let starts: Vec<Duration> = seen.of("Pod").filter_map(start).filter(|took| !took.is_zero()).collect();
        let said = |takes: Duration| Time { takes, source: "as you said".to_owned() };
        let assumed = |takes: Duration| Time { takes, source: "assumed".to_owned() };
        Self {
            boot_of_others: boot.map(said).or_else(|| seen_boot(&all)).unwrap_or_else(|| assumed(BOOT)),
            boot: match boot {
                Some(_) => BTreeMap::new(),
                None => boots.iter().filter_map(|(class, took)| Some((class.clone(), seen_boot(took)?))).collect(),
            },
            delete: delete.map_or_else(|| assumed(DELETE), said),
            pod_start: median(&starts).map_or_else(|| assumed(POD_START), |takes| measured(takes, starts.len(), "pod")),
            pod_end: pod_end.map_or_else(|| assumed(POD_END), said),
        }
    }

    /// How long a machine of this class takes.
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

/// From when a pod was bound until it was ready, if it has been so ever since.
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
    fn a_class_takes_the_median_of_its_machines_and_others_that_of_all() {
        let objects = [
            machine("a", "x", "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"),
            machine("b", "x", "2026-01-01T00:00:00Z", "2026-01-01T00:01:30Z"),
            machine("c", "x", "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"),
            machine("d", "y", "2026-01-01T00:00:00Z", "2026-01-01T00:00:20Z"),
        ];
        let seen = Seen { objects: objects.concat(), ..Seen::default() };
        let times = Times::of(&seen, None, None, None);
        assert_eq!(times.boot_of("x").takes, Duration::from_secs(90));
        assert_eq!(times.boot_of("y").takes, Duration::from_secs(20));
        assert_eq!(times.boot_of("z").takes, Duration::from_secs(90));
        assert_eq!(times.boot_of("x").source, "median of 3 machines");
        let said = Times::of(&seen, Some(Duration::from_secs(7)), None, None);
        assert_eq!(said.boot_of("x").takes, Duration::from_secs(7));
    }

    /// Shows OPR-15.
    #[test]
    fn nothing_seen_is_assumed_and_said() {
        let times = Times::of(&Seen::default(), None, None, None);
        assert_eq!((times.boot_of("x").takes, times.boot_of("x").source.as_str()), (BOOT, "assumed"));
    }
}

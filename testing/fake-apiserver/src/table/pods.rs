//! Pods, as they are listed.
//!
//! The status of a pod is what went wrong last, in whatever container: the phase says *Pending* where the word people search
//! for is *ImagePullBackOff*. So it is gathered from all of them.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::age;
use super::look::{Look, NONE};

pub(super) const COLUMNS: &[&str] =
    &["Name", "Ready", "Status", "Restarts", "Age", "IP+", "Node+", "Nominated Node+", "Readiness Gates+"];

pub(super) fn cells(pod: Look<'_>) -> Vec<Value> {
    let seen = ContainerSummary::of(pod);
    let restarts = match seen.last_restart {
        Some(last) if seen.restarts > 0 => format!("{} ({} ago)", seen.restarts, age::shown(pod.elapsed(last))),
        _ => seen.restarts.to_string(),
    };
    let ip = pod.list("/status/podIPs").next().map_or(pod.text("/status/podIP"), |ip| ip.text("/ip"));
    vec![
        pod.name(),
        json!(format!("{}/{}", seen.ready, seen.total)),
        json!(seen.reason),
        json!(restarts),
        pod.age(),
        json!(if ip.is_empty() { NONE } else { ip }),
        json!(pod.text_or("/spec/nodeName", NONE)),
        json!(pod.text_or("/status/nominatedNodeName", NONE)),
        json!(gates(pod)),
    ]
}

/// What the row of a pod that has ended says to clients that grey it out.
pub(super) fn row_conditions(pod: &Value) -> Option<Value> {
    let (reason, message) = match pod.pointer("/status/phase").and_then(Value::as_str)? {
        "Succeeded" => ("Succeeded", "The pod has completed successfully."),
        "Failed" => ("Failed", "The pod failed."),
        _ => return None,
    };
    Some(json!([{ "type": "Completed", "status": "True", "reason": reason, "message": message }]))
}

/// What the containers of a pod say together.
struct ContainerSummary {
    reason: String,
    ready: usize,
    total: usize,
    restarts: i64,
    last_restart: Option<Timestamp>,
}

impl ContainerSummary {
    fn of(pod: Look<'_>) -> Self {
        let phase = pod.text("/status/phase");
        let gated = pod
            .list("/status/conditions")
            .any(|c| c.text("/type") == "PodScheduled" && c.text("/reason") == "SchedulingGated");
        let reason = if gated { "SchedulingGated" } else { pod.text_or("/status/reason", phase) };
        let side_cars = pod.list("/spec/initContainers").filter(|c| is_side_car(*c)).count();
        let mut seen = Self {
            reason: reason.to_owned(),
            ready: 0,
            total: pod.list("/spec/containers").len() + side_cars,
            restarts: 0,
            last_restart: None,
        };
        let initializing = seen.initial(pod);
        if initializing == Initializing::Over || has_condition(pod, "Initialized") {
            seen.running(pod);
        }
        let lost = pod.text("/status/reason") == "NodeLost";
        if pod.is_deleting() && lost {
            "Unknown".clone_into(&mut seen.reason);
        } else if pod.is_deleting() && !matches!(phase, "Succeeded" | "Failed") {
            "Terminating".clone_into(&mut seen.reason);
        }
        seen
    }

    /// Looks at the containers that run before the others.
    fn initial(&mut self, pod: Look<'_>) -> Initializing {
        let (mut side_car_restarts, mut side_car_last) = (0, None);
        let mut outcome = Initializing::Over;
        for (index, container) in pod.list("/status/initContainerStatuses").enumerate() {
            let name = container.text("/name");
            let side_car = pod.list("/spec/initContainers").any(|c| c.text("/name") == name && is_side_car(c));
            self.count(container);
            if side_car {
                side_car_restarts += container.number("/restartCount");
                side_car_last = side_car_last.max(container.time("/lastState/terminated/finishedAt"));
            }
            if let Some(reason) = self.initial_reason(pod, container, index, side_car) {
                self.reason = reason;
                outcome = Initializing::Still;
                break;
            }
        }
        if outcome == Initializing::Over || has_condition(pod, "Initialized") {
            // Once the others run, only what runs beside them counts.
            (self.restarts, self.last_restart) = (side_car_restarts, side_car_last);
        }
        outcome
    }

    /// Why an initial container holds up the pod, if it does.
    fn initial_reason(&mut self, pod: Look<'_>, container: Look<'_>, index: usize, side_car: bool) -> Option<String> {
        let waiting = container.text("/state/waiting/reason");
        if container.get("/state/terminated").is_some() {
            return match ending(container) {
                _ if container.number("/state/terminated/exitCode") == 0 => None,
                reason => Some(format!("Init:{reason}")),
            };
        }
        if side_car && container.is("/started") {
            self.ready += usize::from(container.is("/ready"));
            return None;
        }
        if !waiting.is_empty() && waiting != "PodInitializing" {
            return Some(format!("Init:{waiting}"));
        }
        Some(format!("Init:{index}/{}", pod.list("/spec/initContainers").len()))
    }

    /// Looks at the containers proper; the first one that has something to say is heard.
    fn running(&mut self, pod: Look<'_>) {
        let mut any_runs = false;
        for container in pod.list("/status/containerStatuses").rev() {
            self.count(container);
            let waiting = container.text("/state/waiting/reason");
            if !waiting.is_empty() {
                waiting.clone_into(&mut self.reason);
            } else if container.get("/state/terminated").is_some() {
                self.reason = ending(container);
            } else if container.is("/ready") && container.get("/state/running").is_some() {
                any_runs = true;
                self.ready += 1;
            }
        }
        if self.reason == "Completed" && any_runs {
            let reason = if has_condition(pod, "Ready") { "Running" } else { "NotReady" };
            reason.clone_into(&mut self.reason);
        }
    }

    fn count(&mut self, container: Look<'_>) {
        self.restarts += container.number("/restartCount");
        self.last_restart = self.last_restart.max(container.time("/lastState/terminated/finishedAt"));
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Initializing {
    Still,
    Over,
}

/// How a container ended.
fn ending(container: Look<'_>) -> String {
    let (reason, signal) = (container.text("/state/terminated/reason"), container.number("/state/terminated/signal"));
    match (reason, signal) {
        ("", 0) => format!("ExitCode:{}", container.number("/state/terminated/exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

fn is_side_car(container: Look<'_>) -> bool {
    container.text("/restartPolicy") == "Always"
}

fn has_condition(pod: Look<'_>, kind: &str) -> bool {
    pod.list("/status/conditions").any(|c| c.text("/type") == kind && c.text("/status") == "True")
}

fn gates(pod: Look<'_>) -> String {
    let gates = pod.list("/spec/readinessGates");
    let all = gates.len();
    let open = gates.filter(|gate| has_condition(pod, gate.text("/conditionType"))).count();
    if all == 0 { NONE.to_owned() } else { format!("{open}/{all}") }
}

//! Observes the demo continuously, so that short violations are noticed too.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::time::Duration;

use api::Object;
use serde_json::Value;

use super::environment::Environment;
use super::objects::WORKLOAD;

const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// What was observed since the start.
#[derive(Debug, Default)]
pub(super) struct Observer {
    /// The uids of all Machines that ever existed.
    machines: RefCell<BTreeSet<String>>,
    /// Maximum number of Machines at the same time, without those being deleted.
    most: Cell<usize>,
    /// Whether the PodDisruptionBudget must be respected now.
    guarding: Cell<bool>,
    /// Minimum number of ready pods while the PodDisruptionBudget had to be respected.
    fewest: Cell<Option<usize>>,
}

impl Observer {
    /// Observes until the future is dropped.
    pub(super) async fn watch(&self, environment: &Environment) -> Infallible {
        loop {
            self.look(environment);
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    fn look(&self, environment: &Environment) {
        let machines = environment.cluster.machines().list();
        self.most.set(self.most.get().max(machines.iter().filter(|machine| !machine.is_deleting()).count()));
        self.machines.borrow_mut().extend(machines.iter().map(|machine| machine.uid().to_string()));
        if self.guarding.get() {
            let ready = ready_pods(environment);
            self.fewest.set(Some(self.fewest.get().map_or(ready, |fewest| fewest.min(ready))));
        }
    }

    /// Sets whether the PodDisruptionBudget must be respected from now on.
    pub(super) fn guard(&self, guarding: bool) {
        self.guarding.set(guarding);
    }

    /// Returns the number of Machines that ever existed.
    pub(super) fn machines(&self) -> usize {
        self.machines.borrow().len()
    }

    /// Returns the maximum number of Machines at the same time, without those being deleted.
    pub(super) fn most(&self) -> usize {
        self.most.get()
    }

    /// Returns the minimum number of ready pods while the PodDisruptionBudget had to be respected.
    pub(super) fn fewest(&self) -> usize {
        self.fewest.get().unwrap_or_default()
    }
}

/// Returns the number of ready pods of the workload.
pub(super) fn ready_pods(environment: &Environment) -> usize {
    environment.server.objects("pods").iter().filter(|pod| is_ready(pod)).count()
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
    let ready = conditions.into_iter().flatten().any(|condition| {
        condition.get("type").and_then(Value::as_str) == Some("Ready")
            && condition.get("status").and_then(Value::as_str) == Some("True")
    });
    ready && pod.pointer("/metadata/labels/app").and_then(Value::as_str) == Some(WORKLOAD)
}

//! Somebody who looks all the time, so that a promise broken for a moment is not forgotten.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::time::Duration;

use api::Object;
use serde_json::Value;

use super::environment::Environment;
use super::objects::WORKLOAD;

const GLANCE: Duration = Duration::from_millis(10);

/// What has been seen since the beginning.
#[derive(Debug, Default)]
pub(super) struct Witness {
    /// Every machine there ever was, by uid.
    machines: RefCell<BTreeSet<String>>,
    /// The most machines at once that nobody was deleting.
    most: Cell<usize>,
    /// From here on the workload is guarded.
    guarding: Cell<bool>,
    /// The fewest pods of the workload that were ready at once while it was guarded.
    fewest: Cell<Option<usize>>,
}

impl Witness {
    /// Looks until it is dropped.
    pub(super) async fn watch(&self, environment: &Environment) -> Infallible {
        loop {
            self.look(environment);
            tokio::time::sleep(GLANCE).await;
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

    /// From now on, or no longer, the workload must not fall below its budget.
    pub(super) fn guard(&self, guarding: bool) {
        self.guarding.set(guarding);
    }

    /// How many machines there ever were.
    pub(super) fn machines(&self) -> usize {
        self.machines.borrow().len()
    }

    /// The most at once that nobody was deleting.
    pub(super) fn most(&self) -> usize {
        self.most.get()
    }

    /// The fewest ready pods while they were guarded.
    pub(super) fn fewest(&self) -> usize {
        self.fewest.get().unwrap_or_default()
    }
}

/// How many pods of the workload are ready.
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

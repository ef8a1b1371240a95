//! A MachineSet, its Machines, and a small API server. The cache may be behind, responses may be lost, and requests may
//! fail, as the test specifies.

use std::collections::{BTreeMap, BTreeSet};

use api::view::NodeView;
use api::{Machine, MachineSet, Object};
use jiff::Timestamp;
use json_patch::merge;
use serde_json::{Value, json};

use super::super::*;
use crate::{GuardedPatch, Presence};

pub(super) const NOW: &str = "2026-01-01T12:00:00Z";

/// The result of the next request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestResult {
    Done,
    /// It is executed, and the response is lost.
    ResponseLost,
    /// It is not executed, and the response is lost.
    RequestLost,
    Refused,
}

pub(super) struct SetFixture {
    /// The objects on the API server.
    pub(super) set: MachineSet,
    pub(super) set_is_gone: bool,
    pub(super) machines: BTreeMap<String, Machine>,
    /// The Machines in the cache.
    pub(super) cached: BTreeMap<String, Machine>,
    pub(super) undecodable: Vec<UndecodableMachine>,
    pub(super) nodes: BTreeMap<String, NodeView>,
    pub(super) outstanding: Outstanding,
    pub(super) refused: BTreeMap<Uid, Timestamp>,
    pub(super) early_failures: EarlyFailures,
    pub(super) clock: ClockTrust,
    pub(super) results: Vec<RequestResult>,
    pub(super) failures: Vec<Failure>,
    pub(super) policy: Policy,
    pub(super) name_seed: u64,
    pub(super) now: Timestamp,
    pub(super) events: Vec<String>,
    version: u64,
    born: u64,
}

impl SetFixture {
    /// Creates a MachineSet `pool` of this many replicas, with the finalizer and without Machines.
    pub(super) fn new(replicas: i32) -> Self {
        let set = json!({
            "metadata": {
                "name": "pool", "namespace": "ns", "uid": "s-1", "resourceVersion": "1", "generation": 1,
                "finalizers": ["machine.sapcloud.io/machine-controller-manager"],
            },
            "spec": {
                "replicas": replicas,
                "selector": { "matchLabels": { "pool": "a" } },
                "template": {
                    "metadata": { "labels": { "pool": "a", "more": "b" } },
                    "spec": { "class": { "kind": "MachineClass", "name": "c" } },
                },
            },
        });
        Self {
            set: read(set),
            set_is_gone: false,
            machines: BTreeMap::new(),
            cached: BTreeMap::new(),
            undecodable: Vec::new(),
            nodes: BTreeMap::new(),
            outstanding: Outstanding::default(),
            refused: BTreeMap::new(),
            early_failures: EarlyFailures::default(),
            clock: ClockTrust::Trusted,
            results: Vec::new(),
            failures: Vec::new(),
            policy: Policy::default(),
            name_seed: 1,
            now: NOW.parse().unwrap(),
            events: Vec::new(),
            version: 1,
            born: 0,
        }
    }

    /// Changes the MachineSet as a user would.
    pub(super) fn edit_set(&mut self, change: impl FnOnce(&mut Value)) {
        let mut value = serde_json::to_value(&self.set).unwrap();
        change(&mut value);
        self.version += 1;
        value["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.set = read(value);
    }

    /// Changes a Machine as a user or another controller would. The cache is updated.
    pub(super) fn edit(&mut self, name: &str, change: impl FnOnce(&mut Value)) {
        let mut value = serde_json::to_value(&self.machines[name]).unwrap();
        change(&mut value);
        self.put(value);
        self.catch_up();
    }

    /// Adds a Machine in this phase, created this many seconds after midnight.
    pub(super) fn add(&mut self, name: &str, phase: &str, second: u32) -> &mut Self {
        self.put(json!({
            "metadata": {
                "name": name, "namespace": "ns", "uid": format!("u-{name}"),
                "creationTimestamp": format!("2026-01-01T00:{:02}:{:02}Z", second / 60, second % 60),
                "labels": { "pool": "a", "more": "b" },
                "ownerReferences": [json!(claim::reference(&self.set))],
            },
            "spec": { "class": { "kind": "MachineClass", "name": "c" } },
            "status": { "currentStatus": { "phase": phase } },
        }));
        self.catch_up();
        self
    }

    fn put(&mut self, mut value: Value) {
        self.version += 1;
        value["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let machine: Machine = read(value);
        self.machines.insert(machine.name().to_owned(), machine);
    }

    /// Updates the cache.
    pub(super) fn catch_up(&mut self) {
        self.cached = self.machines.clone();
        for name in self.machines.keys() {
            self.outstanding.creates.remove(name.as_str());
        }
        let is_deleted = |uid: &Uid| !self.machines.values().any(|m| m.uid() == *uid && !m.is_deleting());
        self.outstanding.deletes.retain(|uid| !is_deleted(uid));
    }

    /// Advances the time to the wake of the plan. Returns false if only a change would wake it. Pending requests are
    /// considered lost afterwards.
    pub(super) fn sleep(&mut self) -> bool {
        let crate::Wake::By { at, .. } = self.plan().wake else { return false };
        self.now = self.now.max(at);
        if self.until().is_some_and(|until| until <= self.now) {
            self.outstanding = Outstanding::default();
        }
        true
    }

    /// The time until which pending requests are awaited.
    fn until(&self) -> Option<Timestamp> {
        let Outstanding { creates, deletes, until } = &self.outstanding;
        until.filter(|_| !creates.is_empty() || !deletes.is_empty())
    }

    /// Registers a request whose result is pending.
    fn expect(&mut self) {
        self.outstanding.until = self.now.checked_add(jiff::SignedDuration::from_mins(5)).ok();
    }

    /// Updates one object in the cache.
    pub(super) fn catch_up_one(&mut self, place: usize) {
        let names: BTreeSet<String> = self.machines.keys().chain(self.cached.keys()).cloned().collect();
        let Some(name) = names.iter().nth(place % names.len().max(1)) else { return };
        match self.machines.get(name) {
            Some(machine) => {
                self.show(machine.clone());
            }
            None => {
                if let Some(machine) = self.cached.remove(name) {
                    self.outstanding.deletes.remove(&machine.uid());
                }
            }
        }
    }

    fn show(&mut self, machine: Machine) {
        self.outstanding.creates.remove(machine.name());
        if machine.is_deleting() {
            self.outstanding.deletes.remove(&machine.uid());
        }
        self.cached.insert(machine.name().to_owned(), machine);
    }

    pub(super) fn with<R>(&self, input: impl FnOnce(&Observed<'_>) -> R) -> R {
        let node = |name: &str| self.nodes.get(name).map_or(Presence::Absent, Presence::Present);
        let member: Vec<Member<'_>> =
            self.cached.iter().map(|(name, machine)| Member { machine, node: node(name) }).collect();
        let outstanding = Outstanding { until: self.until(), ..self.outstanding.clone() };
        input(&Observed {
            set: &self.set,
            machines: &member,
            undecodable: &self.undecodable,
            outstanding: &outstanding,
            refused: &self.refused,
            clock: self.clock,
            early_failures: self.early_failures,
            name_seed: NameSeed(self.name_seed),
            policy: &self.policy,
            now: self.now,
        })
    }

    pub(super) fn plan(&self) -> Plan {
        self.with(plan)
    }

    /// Plans, executes the plan and writes the status. Returns false if there was nothing to do.
    pub(super) fn reconcile(&mut self) -> bool {
        if self.set_is_gone {
            return false;
        }
        let plan = self.plan();
        self.failures = plan.failure.clone().into_iter().collect();
        self.early_failures = plan.early_failures.unwrap_or(self.early_failures);
        for step in &plan.steps {
            self.carry_out(step);
        }
        let write = self.with(|seen| status(seen, &self.failures));
        let is_news = write.is_some();
        if let Some(write) = write {
            self.set.status = write.status().clone();
        }
        is_news || !plan.steps.is_empty()
    }

    /// Reconciles with an up-to-date cache until nothing is left to do.
    pub(super) fn settle(&mut self) {
        for _ in 0..200 {
            self.catch_up();
            if !self.reconcile() {
                return;
            }
        }
        panic!("it does not converge: {:#?}", self.plan());
    }

    fn carry_out(&mut self, step: &Step) {
        match step {
            Step::Finalizers(list) => {
                let gone = list.is_empty() && self.set.is_deleting();
                self.edit_set(|set| set["metadata"]["finalizers"] = json!(list));
                self.set_is_gone = gone;
            }
            Step::Confirm => {}
            Step::Claim(claims) => {
                for claim in claims {
                    if self.write(&claim.patch) != Answer::Yes {
                        self.refused.insert(claim.patch.uid.clone(), self.now);
                    }
                }
            }
            Step::Patch(patches) => {
                for patch in patches {
                    self.write(patch);
                }
            }
            Step::Create(batches) => {
                for batch in batches {
                    let answers: Vec<Answer> = batch.iter().map(|create| self.create(create)).collect();
                    if answers.iter().any(|answer| *answer != Answer::Yes) {
                        return;
                    }
                }
            }
            Step::Delete(deletes) => deletes.iter().for_each(|delete| self.delete(delete)),
            Step::EmitEvent(event) => self.events.push(event.message.clone()),
        }
    }

    fn result(&mut self) -> RequestResult {
        self.results.pop().unwrap_or(RequestResult::Done)
    }

    fn write(&mut self, GuardedPatch { name, resource_version, patch, .. }: &GuardedPatch) -> Answer {
        let result = self.result();
        let is_seen = |m: &&Machine| Some(m.resource_version()) == resource_version.as_deref();
        let Some(machine) = self.machines.get(name.as_str()).filter(is_seen) else {
            return Answer::No;
        };
        if let RequestResult::Refused | RequestResult::RequestLost = result {
            return Answer::No;
        }
        let mut value = serde_json::to_value(machine).unwrap();
        merge(&mut value, &patch.to_json());
        self.put(value);
        if result == RequestResult::Done {
            self.show(self.machines[name.as_str()].clone());
            return Answer::Yes;
        }
        Answer::No
    }

    fn create(&mut self, create: &MachineCreate) -> Answer {
        let (result, name) = (self.result(), create.name.as_str().to_owned());
        self.outstanding.creates.insert(create.name.clone());
        self.expect();
        if result == RequestResult::Refused {
            if create.attempt == Attempt::First {
                self.outstanding.creates.remove(create.name.as_str());
            }
            self.failures.push(Failure { operation: Operation::Create, message: "refused".into() });
            return Answer::No;
        }
        if result == RequestResult::RequestLost {
            return Answer::No;
        }
        if !self.machines.contains_key(&name) {
            self.born += 1;
            let mut value = serde_json::to_value(&create.machine).unwrap();
            value["metadata"]["uid"] = json!(format!("u-{name}-{}", self.born));
            value["metadata"]["creationTimestamp"] = json!(api::Time::from(self.now));
            self.put(value);
        }
        if result == RequestResult::ResponseLost {
            return Answer::No;
        }
        self.name_seed += 1;
        self.show(self.machines[&name].clone());
        Answer::Yes
    }

    fn delete(&mut self, delete: &MachineDelete) {
        let (result, name) = (self.result(), delete.name.as_str().to_owned());
        self.outstanding.deletes.insert(delete.uid.clone());
        self.expect();
        if result == RequestResult::Refused {
            if delete.attempt == Attempt::First {
                self.outstanding.deletes.remove(&delete.uid);
            }
            self.failures.push(Failure { operation: Operation::Delete, message: "refused".into() });
            return;
        }
        if result == RequestResult::RequestLost {
            return;
        }
        self.undecodable.retain(|machine| machine.name != delete.name);
        let found = self.machines.get(&name).filter(|machine| machine.uid() == delete.uid).cloned();
        let matches = found.as_ref().is_some_and(|m| m.resource_version() == delete.resource_version);
        if matches {
            let mut value = serde_json::to_value(found.as_ref().unwrap()).unwrap();
            if value["metadata"]["deletionTimestamp"].is_null() {
                value["metadata"]["deletionTimestamp"] = json!(api::Time::from(self.now));
            }
            self.put(value);
        }
        if result == RequestResult::ResponseLost {
            return;
        }
        // The result is known, from the response or from a read after a conflict.
        self.outstanding.deletes.remove(&delete.uid);
        match self.machines.get(&name) {
            Some(machine) => self.show(machine.clone()),
            None => drop(self.cached.remove(&name)),
        }
    }

    /// Completes the deletion of a Machine.
    pub(super) fn finish(&mut self, name: &str) {
        self.machines.remove(name);
    }

    /// Completes all deletions.
    pub(super) fn finish_all(&mut self) {
        self.machines.retain(|_, machine| !machine.is_deleting());
        self.catch_up();
    }

    /// The Machines that are not being deleted.
    pub(super) fn living(&self) -> Vec<&str> {
        self.machines.values().filter(|machine| !machine.is_deleting()).map(Object::name).collect()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Yes,
    No,
}

pub(super) fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("a readable object")
}

/// The names of the Machines that a plan deletes, in order.
pub(super) fn deleted(plan: &Plan) -> Vec<&str> {
    let mut names = Vec::new();
    for step in &plan.steps {
        if let Step::Delete(deletes) = step {
            names.extend(deletes.iter().map(|delete| delete.name.as_str()));
        }
    }
    names
}

/// The number of Machines that a plan creates, by batch.
pub(super) fn created(plan: &Plan) -> Vec<usize> {
    let mut sizes = Vec::new();
    for step in &plan.steps {
        if let Step::Create(batches) = step {
            sizes.extend(batches.iter().map(Vec::len));
        }
    }
    sizes
}

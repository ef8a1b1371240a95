//! A simulated environment for the planner: one Machine, one provider, one Node, and a clock that the test advances.

use std::sync::Arc;
use std::time::Duration;

use api::view::{NodeView, PodView};
use api::{Code, Machine, MachineClass, Object};
use jiff::Timestamp;
use json_patch::merge;
use serde_json::{Value, json};

use super::super::*;
use crate::drain::{self, Answer, Note, Verb, Watched};
use crate::limiter::Refusal;
use crate::node::NodeWrite;

pub(super) const BEGIN: &str = "2026-01-01T00:00:00Z";

/// One Machine and its environment.
pub(super) struct MachineFixture {
    pub(super) machine: Option<Machine>,
    pub(super) class: Presence<MachineClass>,
    pub(super) driver: DriverState,
    pub(super) class_looked_for: LookedFor,
    pub(super) secret: SecretState,
    pub(super) node: Option<NodeView>,
    pub(super) drain_view: DrainView,
    /// The pods that exist on the Node.
    pub(super) pods_there: Vec<Arc<PodView>>,
    /// The results of evictions and deletions.
    pub(super) decision: Answer,
    /// The error of writes to the Node, if they fail.
    pub(super) barred: Option<&'static str>,
    /// The admission webhook for writes to the Node.
    pub(super) webhook: Webhook,
    /// The error of the removal of the Node, if it fails.
    pub(super) keeps_node: Option<&'static str>,
    /// The addresses that each driver call returns.
    pub(super) reached: std::collections::BTreeMap<Call, &'static str>,
    pub(super) node_is_unreadable: bool,
    /// Whether the Node exists and is not in the cache.
    pub(super) node_is_unseen: bool,
    /// The last lookup of the Node.
    pub(super) node_lookup: NodeLookup,
    /// The error of lookups.
    pub(super) mute: Option<drain::Persistence>,
    pub(super) joins: bool,
    /// A Node with the name that the VM will get.
    pub(super) namesake: Option<NodeView>,
    pub(super) rivals: Vec<std::sync::Arc<Machine>>,
    /// The other Machines that name its VM.
    pub(super) vm_rivals: Vec<std::sync::Arc<Machine>>,
    pub(super) rollout: Rollout,
    pub(super) siblings: crate::replacement_limit::Siblings,
    pub(super) connectivity: Connectivity,
    /// The state of the VM in the memory of the process.
    pub(super) vm: VmState,
    pub(super) call_under_way: Option<CallUnderWay>,
    /// Number of VMs that exist.
    pub(super) vms: usize,
    pub(super) created: usize,
    /// The last known state that the driver returns for create and delete calls.
    pub(super) note: Option<String>,
    /// The errors of the next driver calls, which have no effect.
    pub(super) failures: Vec<Code>,
    /// The failure that delays the Machines of the MachineClass.
    pub(super) refusal: Option<Refusal>,
    pub(super) token: TokenRecord,
    /// Number of further failures of the deletion of the token.
    pub(super) refused_removals: usize,
    pub(super) outages: Outages,
    pub(super) policy: Policy,
    pub(super) now: Timestamp,
    pub(super) history: Vec<String>,
    pub(super) emitted: Vec<&'static str>,
    /// The messages of these Events.
    pub(super) messages: Vec<String>,
}

/// An admission webhook for Nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Webhook {
    /// No webhook.
    Absent,
    /// It reverts all barriers and lets the write succeed.
    RevertsSpec,
}

impl MachineFixture {
    pub(super) fn new() -> Self {
        let machine = json!({
            "metadata": { "name": "m-1", "namespace": "ns", "uid": "u-1", "resourceVersion": "1", "creationTimestamp": BEGIN },
            "spec": { "class": { "kind": "MachineClass", "name": "c" } },
        });
        Self {
            machine: Some(read(machine)),
            class: Presence::Present(read(json!({
                "metadata": { "name": "c", "namespace": "ns", "finalizers": [api::names::finalizers::MACHINE] },
                "providerSpec": {},
            }))),
            driver: DriverState::Served,
            class_looked_for: LookedFor::Yes,
            secret: SecretState::Ready,
            node: None,
            drain_view: DrainView::default(),
            pods_there: Vec::new(),
            node_is_unreadable: false,
            node_is_unseen: false,
            node_lookup: NodeLookup::NotRequested,
            mute: None,
            decision: Answer::Accepted,
            barred: None,
            webhook: Webhook::Absent,
            keeps_node: None,
            reached: std::collections::BTreeMap::new(),
            joins: true,
            namesake: None,
            siblings: crate::replacement_limit::Siblings::default(),
            rivals: Vec::new(),
            vm_rivals: Vec::new(),
            rollout: Rollout::Unknown,
            connectivity: Connectivity::Connected,
            vm: VmState::Unknown,
            call_under_way: None,
            vms: 0,
            created: 0,
            note: None,
            failures: Vec::new(),
            refusal: None,
            token: TokenRecord::Gone,
            refused_removals: 0,
            outages: Outages::NONE,
            policy: Policy::default(),
            now: BEGIN.parse().unwrap(),
            history: Vec::new(),
            emitted: Vec::new(),
            messages: Vec::new(),
        }
    }

    pub(super) fn machine(&self) -> &Machine {
        self.machine.as_ref().expect("the Machine exists")
    }

    pub(super) fn plan(&self) -> Plan {
        plan(&self.seen())
    }

    pub(super) fn stage(&self) -> Stage {
        stage(&self.seen())
    }

    fn seen(&self) -> Observed<'_> {
        let target = if self.joins {
            Target::Cluster { node: self.visible(), node_lookup: &self.node_lookup, drain_view: &self.drain_view }
        } else {
            Target::None
        };
        Observed {
            machine: self.machine(),
            class: self.class.as_ref(),
            driver: &self.driver,
            class_looked_for: self.class_looked_for,
            secret: &self.secret,
            target,
            vm: &self.vm,
            call_under_way: self.call_under_way,
            namesake: self.namesake.as_ref().map_or(Presence::Absent, Presence::Present),
            siblings: self.siblings,
            rivals: &self.rivals,
            vm_rivals: &self.vm_rivals,
            rollout: self.rollout,
            capacity: match &self.refusal {
                None => Capacity::Open,
                Some(refusal) => Capacity::Exhausted {
                    refusal,
                    until: super::super::facts::later(self.now, Duration::from_mins(10)),
                },
            },
            token: self.token,
            connectivity: self.connectivity,
            outages: &self.outages,
            policy: &self.policy,
            now: self.now,
        }
    }

    fn visible(&self) -> Presence<&NodeView> {
        match self.visible_node() {
            None => Presence::Absent,
            Some(_) if self.node_is_unreadable => Presence::Undecodable(()),
            Some(node) => Presence::Present(node),
        }
    }

    /// Returns the Node as the controller selects it: by the Machine's label, else by the Node's own.
    fn visible_node(&self) -> Option<&NodeView> {
        let linked = self.machine().node_name().is_some_and(|name| name == "node-1");
        let heard_of = self.node.as_ref().filter(|_| !self.node_is_unseen);
        heard_of.filter(|node| linked || node.label(api::names::labels::MACHINE_NAME) == Some("m-1"))
    }

    /// Changes the Machine as a user or another controller would.
    pub(super) fn edit(&mut self, change: impl FnOnce(&mut Value)) {
        let mut value = serde_json::to_value(self.machine()).unwrap();
        change(&mut value);
        self.machine = Some(read(value));
    }

    pub(super) fn delete(&mut self) {
        self.edit(|m| m["metadata"]["deletionTimestamp"] = json!("2026-01-01T01:00:00Z"));
    }

    pub(super) fn with_status(mut self, phase: &str, description: &str) -> Self {
        self.edit(|m| {
            m["status"] =
                json!({ "currentStatus": { "phase": phase }, "lastOperation": { "description": description } });
        });
        self
    }

    /// Adds a pod that must be drained.
    pub(super) fn add_pod(&mut self, name: &str) {
        let pod = json!({
            "metadata": { "name": name, "namespace": "shop", "uid": format!("uid-{name}"), "labels": { "app": "web" } },
            "status": { "phase": "Running" },
        });
        self.pods_there.push(Arc::new(serde_json::from_value(pod).unwrap()));
    }

    /// Registers the Node.
    pub(super) fn register(&mut self, ready: &str) {
        self.node = Some(read(json!({
            "metadata": { "name": "node-1", "uid": "n-1", "resourceVersion": "1", "finalizers": ["someone/else"] },
            "status": { "conditions": [{ "type": "Ready", "status": ready }] },
        })));
    }

    /// Sets conditions of the Node, as pairs of type and status.
    pub(super) fn report(&mut self, conditions: &[(&str, &str)]) {
        let list: Vec<Value> =
            conditions.iter().map(|(kind, status)| json!({ "type": kind, "status": status })).collect();
        self.edit_node(|node| node["status"]["conditions"] = json!(list));
    }

    /// Sets the Ready condition of the Node and keeps the others.
    pub(super) fn report_ready(&mut self, ready: &str) {
        self.edit_node(|node| {
            let list = node["status"]["conditions"].as_array_mut().unwrap();
            list.iter_mut().filter(|c| c["type"] == "Ready").for_each(|c| c["status"] = json!(ready));
        });
    }

    /// Changes the Node as its kubelet or a user would.
    pub(super) fn edit_node(&mut self, change: impl FnOnce(&mut Value)) {
        let mut value = serde_json::to_value(self.node.as_ref().expect("the Node exists")).unwrap();
        change(&mut value);
        self.node = Some(read(value));
    }

    /// Returns a Machine whose Node has joined, with an empty history.
    pub(super) fn running() -> Self {
        let mut fixture = Self::new();
        fixture.settle();
        fixture.register("True");
        fixture.settle();
        fixture.forget();
        fixture
    }

    /// Clears the history.
    pub(super) fn forget(&mut self) {
        self.history.clear();
        self.emitted.clear();
        self.messages.clear();
    }

    pub(super) fn phase(&self) -> &api::MachinePhase {
        self.machine().phase()
    }

    /// Returns the description of the last operation.
    pub(super) fn text(&self) -> &str {
        &self.machine().status.last_operation.description
    }

    pub(super) fn wait(&mut self, by: Duration) {
        self.now = super::super::facts::later(self.now, by);
    }

    /// Plans and executes; returns false if there was nothing to do.
    pub(super) fn reconcile(&mut self) -> bool {
        if self.machine.is_none() {
            return false;
        }
        let plan = self.plan();
        for step in &plan.steps {
            self.history.push(step.to_string());
            let removes = match step {
                Step::PatchNode(write) => write.finalizers.is_some() && self.machine().is_deleting(),
                Step::DeleteNode { .. } => true,
                _ => false,
            };
            let Some(why) = self.keeps_node.filter(|_| removes) else {
                self.carry_out(step);
                continue;
            };
            self.node_lookup = self.node_lookup.removal_failed(why.to_owned(), self.now);
            for step in removal_failed(self.machine(), step, why, &self.policy, self.now) {
                self.carry_out(&step);
            }
            break;
        }
        if plan.drain == DrainNeed::NotNeeded {
            self.drain_view = DrainView::default(); // the drain state is dropped
        }
        !plan.steps.is_empty()
    }

    /// Reconciles until nothing is left to do.
    pub(super) fn settle(&mut self) -> &[String] {
        for _ in 0..50 {
            if !self.reconcile() {
                return &self.history;
            }
        }
        panic!("the planner does not converge: {:#?}", self.history);
    }

    fn carry_out(&mut self, step: &Step) {
        match step {
            Step::Patch(patch) => {
                let gone = patch.finalizers.as_ref().is_some_and(Vec::is_empty) && self.machine().is_deleting();
                self.edit(|m| merge(m, &patch.to_json()));
                if gone {
                    let left = self.vms == 0 || !self.vm_rivals.is_empty();
                    assert!(left, "a machine goes only after its VM: {:#?}", self.history);
                    self.machine = None;
                }
            }
            Step::Status(write) => {
                let patch = write.to_patch();
                self.edit(|m| merge(&mut m["status"], &patch["status"]));
            }
            Step::PatchNode(patch) => self.write_node(patch),
            Step::Cordon { barrier: part, write } => match self.barred {
                Some(why) => self.obstruct(*part, why),
                None => self.write_node(write),
            },
            Step::DeleteMachine => self.delete(),
            Step::DeleteNode { .. } => {
                assert_eq!(self.vms, 0, "a node goes only after its VM: {:#?}", self.history);
                (self.node, self.node_lookup) = (None, NodeLookup::Absent);
            }
            Step::LookUpNode { name } => self.node_lookup = self.look_for(name),
            Step::Watch { what: Watching::Pods(_), .. } => self.look_at_pods(),
            Step::Watch { what: Watching::BudgetsAndAttachments, .. } => {
                (self.drain_view.budgets, self.drain_view.attachments) = (Watched::Seen(vec![]), Watched::Seen(vec![]));
            }
            Step::Drain { notes, requests } => {
                self.drain_view.memory.take(notes.clone());
                for request in requests {
                    self.ask_to_leave(request);
                }
                self.look_at_pods();
            }
            Step::Detach { notes, .. } => self.drain_view.memory.take(notes.clone()),
            Step::RecordDrained => {}
            Step::EmitNodeEvent { event, .. } => self.emitted.push(event.reason),
            Step::RemoveToken if self.refused_removals > 0 => {
                self.refused_removals -= 1;
                self.token = self.token.not_removed(self.now);
            }
            Step::RemoveToken => self.token = TokenRecord::Gone,
            Step::Driver(call) => self.vm = self.answer(*call),
            Step::EmitEvent(event) => {
                self.emitted.push(event.reason);
                self.messages.push(event.message.clone());
            }
        }
    }

    fn obstruct(&mut self, part: Barrier, why: &str) {
        let before = self.drain_view.barrier_failure.as_ref();
        self.drain_view.barrier_failure = Some(BarrierFailure::after(before, part, why.to_owned(), self.now));
    }

    fn write_node(&mut self, write: &NodeWrite) {
        let mut node = serde_json::to_value(self.node.as_ref().unwrap()).unwrap();
        if let Some(mut object) = write.object_patch() {
            if self.webhook == Webhook::RevertsSpec {
                object.as_object_mut().unwrap().remove("spec");
            }
            merge(&mut node, &object);
        }
        if let Some(status) = write.status_patch() {
            merge_status(&mut node["status"], &status["status"]);
        }
        self.node = Some(read(node));
        for part in not_kept(write, &self.node.clone().unwrap()) {
            self.obstruct(part, NOT_KEPT);
        }
    }

    fn look_for(&mut self, name: &str) -> NodeLookup {
        assert_eq!(name, "node-1");
        match self.mute {
            Some(persistence) => self.node_lookup.failed("boom".into(), persistence, self.now),
            None if self.node.is_none() => NodeLookup::Absent,
            None => {
                self.node_is_unseen = false;
                NodeLookup::NotRequested
            }
        }
    }

    fn look_at_pods(&mut self) {
        self.drain_view.pods = Watched::Seen(self.pods_there.clone());
    }

    fn ask_to_leave(&mut self, request: &drain::Step) {
        let (pod, verb) = match request {
            drain::Step::Evict(pod) => (pod, Verb::Evict),
            drain::Step::Delete(pod) => (pod, Verb::Delete),
            _ => return,
        };
        if self.decision == Answer::Accepted {
            self.pods_there.retain(|there| there.uid() != pod.uid);
        }
        let note = Note::Answered { pod: pod.uid.clone(), verb, answer: self.decision.clone(), at: self.now };
        self.drain_view.memory.take([note]);
    }

    fn addresses(&self, call: Call) -> Vec<api::NodeAddress> {
        let address = self.reached.get(&call).map(|address| (*address).to_owned());
        address.map(|address| api::NodeAddress { kind: "InternalIP".into(), address }).into_iter().collect()
    }

    fn answer(&mut self, call: Call) -> VmState {
        let addresses = self.addresses(call);
        let known = |initialized| {
            VmState::Known(Vm {
                provider_id: "vm:///m-1".into(),
                node_name: "node-1".into(),
                addresses: addresses.clone(),
                initialized,
                unusable: None,
                origin: match call {
                    Call::Create => Origin::Created { last_known_state: self.note.clone() },
                    _ => Origin::Found,
                },
                at: self.now,
            })
        };
        let failure = |code: Code| Failure {
            call,
            code,
            text: api::CodedText { code, message: "no luck" }.to_string(),
            last_known_state: None,
            at: self.now,
        };
        if let Some(code) = self.failures.pop() {
            return VmState::after_failure(failure(code), None, None);
        }
        match call {
            Call::Status if self.vms == 0 => VmState::after_failure(failure(Code::NotFound), None, None),
            Call::Status => known(Initialized::Yes),
            Call::Initialize => match &self.vm {
                VmState::Known(vm) => VmState::Known(vm.clone().initialized_with(&addresses)),
                _ => VmState::Unknown,
            },
            Call::Create => {
                self.vms += 1;
                self.created += 1;
                known(Initialized::NotYet)
            }
            Call::Delete => {
                let in_use = self.machine().node_name().is_some() && !self.pods_there.is_empty();
                assert!(!in_use, "a VM goes only after its pods: {:#?}", self.history);
                (self.vms, self.node_lookup) = (0, NodeLookup::NotRequested);
                VmState::Deleted { last_known_state: self.note.clone() }
            }
        }
    }
}

pub(super) fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("a valid object")
}

/// Applies a strategic merge patch of a Node's status, as far as the controller uses it: conditions are merged by type.
fn merge_status(into: &mut Value, patch: &Value) {
    let mut patch = patch.clone();
    if let Some(Value::Array(ours)) = patch.as_object_mut().unwrap().remove("conditions") {
        let mut list = into["conditions"].as_array().cloned().unwrap_or_default();
        for condition in ours {
            match list.iter_mut().find(|there| there["type"] == condition["type"]) {
                Some(there) => merge(there, &condition),
                None => list.push(condition),
            }
        }
        into["conditions"] = json!(list);
    }
    merge(into, &patch);
}

//! Converts the state of the model to the input of the planner.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use api::{Machine as ApiMachine, MachineName, MachinePhase, MachineSet, Uid};
use jiff::Timestamp;
use planner::machineset::{Member, NameSeed, Observed, Outstanding, Plan, Step, plan};
use planner::{Policy, Presence};
use serde_json::json;

use super::state::{Controller, Machine, Name, Phase};

/// Maximum number of names of one seed.
const NAMES: i32 = 12;

/// Objects that are the same in every state.
pub(super) struct Objects {
    now: Timestamp,
    /// MachineSets, indexed by replicas.
    sets: Vec<MachineSet>,
    /// Template of a Machine.
    model: ApiMachine,
    /// The names of each seed, in order.
    names: RefCell<BTreeMap<u8, Vec<MachineName>>>,
}

fn set(replicas: i32) -> MachineSet {
    let set = json!({
        "metadata": {
            "name": "pool", "namespace": "ns", "uid": "s", "resourceVersion": "1", "generation": 1,
            "finalizers": ["machine.sapcloud.io/machine-controller-manager"],
        },
        "spec": {
            "replicas": replicas,
            "selector": { "matchLabels": { "pool": "a" } },
            "template": {
                "metadata": { "labels": { "pool": "a" } },
                "spec": { "class": { "kind": "MachineClass", "name": "c" } },
            },
        },
    });
    serde_json::from_value(set).unwrap_or_default()
}

impl Objects {
    pub(super) fn new(replicas: u8) -> Self {
        let now = Timestamp::from_second(1_800_000_000).unwrap_or_default();
        let sets: Vec<MachineSet> = (0..=replicas).map(|replicas| set(replicas.into())).collect();
        let mut objects = Self { now, sets, model: ApiMachine::default(), names: RefCell::default() };
        objects.model = objects.creates(&set(1), 0).into_iter().next().map(|(_, machine)| machine).unwrap_or_default();
        objects
    }

    /// Returns the names and Machines that the planner creates with this seed for an empty MachineSet.
    fn creates(&self, set: &MachineSet, seed: u8) -> Vec<(MachineName, ApiMachine)> {
        let steps = self.observed(set, &[], &Outstanding::default(), seed, &Policy::default(), plan).steps;
        let creates = steps.into_iter().filter_map(|step| match step {
            Step::Create(batches) => Some(batches.into_iter().flatten()),
            _ => None,
        });
        creates.flatten().map(|create| (create.name, create.machine)).collect()
    }

    fn names(&self, seed: u8) -> Vec<MachineName> {
        let known = self.names.borrow().get(&seed).cloned();
        known.unwrap_or_else(|| {
            let names: Vec<_> = self.creates(&set(NAMES), seed).into_iter().map(|(name, _)| name).collect();
            self.names.borrow_mut().insert(seed, names.clone());
            names
        })
    }

    fn text(&self, name: Name) -> MachineName {
        self.names(name.seed).get(usize::from(name.index)).cloned().unwrap_or_default()
    }

    /// Returns the model name for a name that the planner chose.
    pub(super) fn name(&self, controller: &Controller, text: &MachineName) -> Option<Name> {
        let known = controller.creates.iter().copied().find(|name| self.text(*name) == *text);
        known.or_else(|| {
            let index = self.names(controller.seed).iter().position(|name| name == text)?;
            Some(Name { seed: controller.seed, index: u8::try_from(index).ok()? })
        })
    }

    /// Returns the plan for the state that a process knows.
    pub(super) fn plan(&self, controller: &Controller, policy: &Policy) -> Plan {
        let machines: Vec<ApiMachine> = controller.machines.iter().map(|machine| self.machine(machine)).collect();
        let outstanding = Outstanding {
            creates: controller.creates.iter().map(|name| self.text(*name)).collect(),
            deletes: controller.deletes.iter().map(|uid| Uid::from(uid.to_string())).collect::<BTreeSet<_>>(),
            until: controller.expects_something().then_some(self.now),
        };
        let empty = MachineSet::default();
        let set = self.sets.get(usize::from(controller.replicas)).unwrap_or(&empty);
        self.observed(set, &machines, &outstanding, controller.seed, policy, plan)
    }

    fn observed<R>(
        &self,
        set: &MachineSet,
        machines: &[ApiMachine],
        outstanding: &Outstanding,
        seed: u8,
        policy: &Policy,
        run: impl FnOnce(&Observed<'_>) -> R,
    ) -> R {
        let members: Vec<Member<'_>> =
            machines.iter().map(|machine| Member { machine, node: Presence::Absent }).collect();
        run(&Observed {
            set,
            machines: &members,
            undecodable: &[],
            outstanding,
            refused: &BTreeMap::new(),
            clock: planner::machineset::ClockTrust::Trusted,
            early_failures: planner::machineset::EarlyFailures::default(),
            name_seed: NameSeed(seed.into()),
            policy,
            now: self.now,
        })
    }

    fn machine(&self, machine: &Machine) -> ApiMachine {
        let mut object = self.model.clone();
        let metadata = &mut object.metadata;
        metadata.name = self.text(machine.name).to_string();
        metadata.uid = machine.uid.to_string().into();
        metadata.resource_version = machine.version.to_string();
        metadata.creation_timestamp = Timestamp::from_second(machine.uid.into()).ok().map(api::Time::from);
        metadata.deletion_timestamp = machine.deleting.then_some(self.now.into());
        object.status.current_status.phase = match machine.phase {
            Phase::Pending => MachinePhase::Pending,
            Phase::Running => MachinePhase::Running,
            Phase::Failed => MachinePhase::Failed,
        };
        object
    }
}

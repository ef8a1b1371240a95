//! The VMs of the cloud and their limits.
//!
//! Pure data: every query has the instant at which it is made. Readers may see the past (`lag`), writers always see the
//! present. A lagging cloud is therefore dangerous for callers that create before they check.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::{MachineName, NodeName, ProviderId};
use jiff::Timestamp;
use tokio::time::Instant;

use crate::spec::{NodeNaming, Spec};
use crate::vm::{Initialized, Leaving, Power, State, UserData, Vm, VmId};

/// Response of the cloud if a machine with a VM requests another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Doubles {
    /// The existing VM is returned, as the driver contract requires.
    #[default]
    Prevented,
    /// Another VM is created, which reveals callers that create twice.
    Allowed,
}

/// Limits of the number of VMs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quotas {
    /// In the whole cloud.
    pub total: Option<usize>,
    /// Per class, by `namespace/name`, in addition to the quota in its `providerSpec`.
    pub per_class: BTreeMap<String, usize>,
}

/// A request for a VM.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    pub(crate) machine: Option<MachineName>,
    pub(crate) class: String,
    pub(crate) spec: Arc<Spec>,
    pub(crate) user_data: UserData,
    pub(crate) initialized: Initialized,
}

/// Why a request for a VM failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    QuotaOfCloud(usize),
    QuotaOfClass(usize),
    StillDeleting(VmId),
    MadeDifferently(VmId),
}

#[derive(Debug, Default)]
pub(crate) struct Ledger {
    vms: BTreeMap<VmId, Vm>,
    /// Index of the VMs by machine.
    of_machine: BTreeSet<(MachineName, VmId)>,
    made: u32,
    pub(crate) quotas: Quotas,
}

impl Ledger {
    /// Creates an empty ledger with these limits.
    pub(crate) fn with(quotas: Quotas) -> Self {
        Self { quotas, ..Self::default() }
    }

    /// Creates a VM at this instant or returns the existing one of the machine.
    pub(crate) fn fill(
        &mut self,
        order: Order,
        doubles: Doubles,
        dice: &mut fastrand::Rng,
        (now, at): (Instant, Timestamp),
    ) -> Result<&Vm, Refusal> {
        let held = match (&order.machine, doubles) {
            (Some(machine), Doubles::Prevented) => self.held(&order.spec.cluster, machine.as_str(), now),
            _ => None,
        };
        let id = match held {
            Some(vm) if vm.leaving.is_some() => return Err(Refusal::StillDeleting(vm.id.clone())),
            Some(vm) if !alike(&vm.spec, &order.spec) => return Err(Refusal::MadeDifferently(vm.id.clone())),
            Some(vm) => vm.id.clone(),
            None => {
                self.check_quotas(&order, now)?;
                self.unused_id(dice)
            }
        };
        if let Some(machine) = &order.machine {
            self.of_machine.insert((machine.clone(), id.clone()));
        }
        Ok(self.vms.entry(id.clone()).or_insert_with(|| {
            self.made += 1;
            order.make(id, self.made, now, at)
        }))
    }

    /// Restores a running VM under its name. Returns `None` if the name is taken.
    pub(crate) fn put_back(&mut self, order: Order, id: VmId, made_at: Timestamp, now: Instant) -> Option<&Vm> {
        if self.vms.contains_key(&id) {
            return None;
        }
        if let Some(machine) = &order.machine {
            self.of_machine.insert((machine.clone(), id.clone()));
        }
        self.made += 1;
        let vm = Vm { up: now, ..order.make(id.clone(), self.made, now, made_at) };
        Some(self.vms.entry(id).or_insert(vm))
    }

    fn held(&self, cluster: &str, machine: &str, now: Instant) -> Option<&Vm> {
        let wanted = Wanted::Machine(machine);
        let mut candidates = self.candidates(&wanted).filter_map(|id| self.vms.get(id));
        candidates.find(|vm| wanted.is(vm, cluster) && vm.state(now) != State::Gone)
    }

    /// Returns the VMs that may match, without scanning all.
    fn candidates<'a>(&'a self, wanted: &Wanted<'a>) -> Box<dyn Iterator<Item = &'a VmId> + 'a> {
        match *wanted {
            Wanted::Id(id) => {
                let name = id.rsplit('/').next().unwrap_or_default();
                Box::new(self.vms.get_key_value(name).map(|(id, _)| id).into_iter())
            }
            Wanted::Machine(machine) => {
                let first = (MachineName::from(machine), VmId("".into()));
                let of_it = self.of_machine.range(first..).take_while(move |(name, _)| name.as_str() == machine);
                Box::new(of_it.map(|(_, id)| id))
            }
            Wanted::All => Box::new(self.vms.keys()),
        }
    }

    fn check_quotas(&self, order: &Order, now: Instant) -> Result<(), Refusal> {
        if let Some(limit) = self.quotas.total.filter(|limit| self.present(now).count() >= *limit) {
            return Err(Refusal::QuotaOfCloud(limit));
        }
        let of_class = || self.present(now).filter(|vm| vm.class == order.class).count();
        let limits = [order.spec.quota, self.quotas.per_class.get(&order.class).copied()];
        match limits.into_iter().flatten().min() {
            Some(limit) if of_class() >= limit => Err(Refusal::QuotaOfClass(limit)),
            _ => Ok(()),
        }
    }

    fn unused_id(&self, dice: &mut fastrand::Rng) -> VmId {
        loop {
            let id = VmId(format!("vm-{:08x}", dice.u32(..)).into());
            if !self.vms.contains_key(&id) {
                return id;
            }
        }
    }

    /// Starts the deletion of every matching VM and returns when each is gone.
    pub(crate) fn delete(
        &mut self,
        cluster: &str,
        wanted: &Wanted<'_>,
        (now, at): (Instant, Timestamp),
    ) -> Vec<(VmId, Instant)> {
        let candidates: Vec<VmId> = self.candidates(wanted).cloned().collect();
        let leave = |id: VmId| {
            let vm = self.vms.get_mut(&id).filter(|vm| vm.state(now) != State::Gone && wanted.is(vm, cluster))?;
            let leaving = vm.leaving.get_or_insert(Leaving { since: now, gone: now + vm.spec.delete_latency });
            vm.deleted_at.get_or_insert(at);
            Some((id, leaving.gone))
        };
        candidates.into_iter().filter_map(leave).collect()
    }

    /// Returns the matching VMs as a reader with this `lag` sees them.
    pub(crate) fn seen<'a>(
        &'a self,
        cluster: &'a str,
        wanted: &'a Wanted<'a>,
        now: Instant,
        lag: Duration,
    ) -> impl Iterator<Item = &'a Vm> {
        let candidates = self.candidates(wanted).filter_map(|id| self.vms.get(id));
        candidates.filter(move |vm| wanted.is(vm, cluster) && vm.is_seen(now, lag))
    }

    /// Returns every existing VM.
    pub(crate) fn present(&self, now: Instant) -> impl Iterator<Item = &Vm> {
        self.vms.values().filter(move |vm| vm.state(now) != State::Gone)
    }

    /// Returns the VM with this name, even if only lagging readers still see it.
    pub(crate) fn get(&self, id: &VmId) -> Option<&Vm> {
        self.vms.get(id)
    }

    pub(crate) fn get_mut(&mut self, id: &VmId) -> Option<&mut Vm> {
        self.vms.get_mut(id)
    }

    /// Drops the VMs that no reader with this lag can see.
    pub(crate) fn forget_gone(&mut self, now: Instant, lag: Duration) {
        let of_machine = &mut self.of_machine;
        self.vms.retain(|id, vm| {
            let stays = vm.leaving.is_none_or(|leaving| leaving.gone.max(leaving.since + lag) > now);
            if let (false, Some(machine)) = (stays, &vm.machine) {
                of_machine.remove(&(machine.clone(), id.clone()));
            }
            stays
        });
    }
}

/// The VMs of a cluster that a query selects.
#[derive(Clone, Debug)]
pub(crate) enum Wanted<'a> {
    /// The one with this provider id.
    Id(&'a str),
    /// Those of this machine.
    Machine(&'a str),
    /// Those of any machine.
    All,
}

impl Wanted<'_> {
    fn is(&self, vm: &Vm, cluster: &str) -> bool {
        vm.spec.cluster == cluster
            && match self {
                Self::Id(id) => vm.provider_id.as_str() == *id,
                Self::Machine(machine) => vm.belongs_to(cluster, machine),
                Self::All => vm.machine.is_some(),
            }
    }
}

impl Order {
    fn make(self, id: VmId, number: u32, now: Instant, at: Timestamp) -> Vm {
        let [_, a, b, c] = number.to_be_bytes();
        let node_name = match (self.spec.node_name, &self.machine) {
            (NodeNaming::Machine, Some(machine)) => machine.as_str(),
            _ => id.as_str(),
        };
        Vm {
            provider_id: ProviderId::from(format!("virtual:///{}/{id}", self.spec.cluster)),
            node_name: NodeName::from(node_name.to_owned()),
            address: format!("10.{a}.{b}.{c}"),
            machine: self.machine,
            class: self.class,
            created_at: at,
            deleted_at: None,
            boots: 1,
            power: Power::On,
            initialized: self.initialized,
            user_data: self.user_data,
            born: now,
            up: now + self.spec.boot_latency,
            leaving: None,
            spec: self.spec,
            id,
        }
    }
}

/// Whether a VM made from one spec will do for the other: the properties that cannot be changed on a running VM.
fn alike(one: &Spec, other: &Spec) -> bool {
    (&one.region, &one.zone, &one.instance_type) == (&other.region, &other.zone, &other.instance_type)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: Duration = Duration::from_secs(1);
    const LAG: Duration = Duration::from_secs(5);

    fn order(machine: &str) -> Order {
        let spec = Spec { delete_latency: 2 * SECOND, ..Spec::default() };
        Order {
            machine: Some(machine.into()),
            class: "ns/class".into(),
            spec: Arc::new(spec),
            user_data: UserData::default(),
            initialized: Initialized::Yes,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn vm_is_kept_until_the_slowest_reader_has_seen_its_end() {
        let (start, mut dice) = (Instant::now(), fastrand::Rng::with_seed(1));
        let mut ledger = Ledger::default();
        let at = Timestamp::UNIX_EPOCH;
        let id = ledger.fill(order("m"), Doubles::Prevented, &mut dice, (start, at)).unwrap().id.clone();
        ledger.delete("default", &Wanted::Machine("m"), (start, at));
        ledger.forget_gone(start + 4 * SECOND, LAG);
        assert!(ledger.get(&id).is_some());
        ledger.forget_gone(start + 5 * SECOND, LAG);
        assert!(ledger.get(&id).is_none());
    }

    #[derive(Clone, Debug)]
    enum Act {
        Create(u8),
        Delete(u8),
        Wait(u8),
    }

    fn acts() -> impl Strategy<Value = Vec<Act>> {
        let act =
            prop_oneof![(0u8..4).prop_map(Act::Create), (0u8..4).prop_map(Act::Delete), (0u8..4).prop_map(Act::Wait)];
        prop::collection::vec(act, 0..60)
    }

    proptest! {
        /// Shows VIR-3.
        #[test]
        fn machine_has_one_vm_and_the_quota_holds(acts in acts(), quota in 1usize..4) {
            let (mut now, mut dice) = (Instant::now(), fastrand::Rng::with_seed(1));
            let mut ledger = Ledger::with(Quotas { total: Some(quota), ..Quotas::default() });
            let at = Timestamp::UNIX_EPOCH;
            for act in acts {
                match act {
                    Act::Create(machine) => drop(
                        ledger.fill(order(&machine.to_string()), Doubles::Prevented, &mut dice, (now, at)).cloned(),
                    ),
                    Act::Delete(machine) => drop(ledger.delete("default", &Wanted::Machine(&machine.to_string()), (now, at))),
                    Act::Wait(seconds) => now += u32::from(seconds) * SECOND,
                }
                ledger.forget_gone(now, LAG);
                let machines: Vec<_> = ledger.present(now).map(|vm| vm.machine.clone()).collect();
                let distinct: std::collections::BTreeSet<_> = machines.iter().collect();
                prop_assert_eq!(machines.len(), distinct.len());
                prop_assert!(machines.len() <= quota);
                prop_assert_eq!(ledger.of_machine.len(), ledger.vms.len(), "every VM is indexed by its machine");
                // A reader without lag sees exactly the VMs that are not being deleted.
                let staying = ledger.present(now).filter(|vm| vm.leaving.is_none()).count();
                prop_assert_eq!(ledger.seen("default", &Wanted::All, now, Duration::ZERO).count(), staying);
            }
        }
    }
}

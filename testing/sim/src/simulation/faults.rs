//! Starts and ends faults.

use std::time::Duration;

use driver_virtual::{Fault as CloudFault, Quotas, Script, State, VmId};
use fake_apiserver::Server;
use fake_apiserver::faults::{After, Rule, RuleId, Verb, Verbs};
use tokio::sync::watch;

use super::connection::ConnectionState;
use super::environment::Environment;
use super::history::{CallFault, Fault, Pick, RequestFault, RequestKind, Side, VmFault};
use super::process::AGENT_PREFIX;
use crate::oracle::{DEPLOYMENTS, MACHINES, SETS};

/// Time for which a broken connection stays broken.
const BREAK: Duration = Duration::from_secs(2);

/// Maximum time in seconds by which other clients reach a restored API server before the controllers.
const HEAD_START: u64 = 30;

/// Kinds that are reported to the oracle after a restore.
const KINDS: [&str; 8] = [
    DEPLOYMENTS,
    SETS,
    MACHINES,
    "nodes",
    "pods",
    "poddisruptionbudgets.policy",
    "persistentvolumeclaims",
    "leases.coordination.k8s.io",
];

/// How a fault ends.
#[derive(Debug)]
pub(super) enum FaultEnd {
    /// Requests succeed again.
    Rules,
    /// Driver calls succeed again.
    Scripts,
    /// The connections work again.
    Connection(Side),
    /// Lists of VMs are complete again.
    Omissions,
    /// A create makes one VM again.
    Doubles,
    /// The cloud has capacity again.
    Quota,
    /// These VMs boot.
    Revive(Vec<VmId>),
    /// A process starts.
    Start,
    /// The connection of this process works again.
    LeaderConnection(u64),
    /// The API server is down for this long. Then it is restored to this revision.
    TakeDown(u64, Duration),
    /// The API server is restored to this revision, and other clients can reach it.
    Restore(u64),
    /// The controllers can reach it too.
    Reconnect,
}

/// Repairs a broken connection.
fn open(line: &watch::Sender<ConnectionState>) {
    line.send_if_modified(|state| {
        let is_cut = *state == ConnectionState::Cut;
        if is_cut {
            *state = ConnectionState::Open;
        }
        is_cut
    });
}

impl Environment {
    /// Starts fault number `number`. Returns how it ends.
    pub(super) fn begin_fault(&mut self, number: usize, fault: &Fault) -> Option<FaultEnd> {
        match fault {
            Fault::Requests { side, requests, how, percent, .. } => {
                let rule = self.request_rule(*side, *requests, *how, *percent);
                self.rules.push((number, rule));
                Some(FaultEnd::Rules)
            }
            Fault::Watches { side, .. } => {
                // Open watches break too, and are opened again under the rule.
                let rule = self.rule(*side, Verb::Watch).with_probability(0.8);
                let rule = rule.drop_watch(After::Time(Duration::from_secs(7)));
                self.rules.push((number, rule));
                self.break_connections(*side, None);
                Some(FaultEnd::Rules)
            }
            Fault::Compaction { side } => {
                self.break_connections(*side, Some(self.server.clone()));
                None
            }
            Fault::Lag { side, .. } => {
                self.set_connections(*side, ConnectionState::Lagging);
                Some(FaultEnd::Connection(*side))
            }
            Fault::Partition { side, .. } => {
                self.set_connections(*side, ConnectionState::Cut);
                Some(FaultEnd::Connection(*side))
            }
            Fault::Forbidden { side, .. } => {
                let rule = self.rule(*side, Verb::ALL).forbid();
                self.rules.push((number, rule));
                Some(FaultEnd::Rules)
            }
            Fault::Calls { how, method, percent, .. } => {
                let fault = match how {
                    CallFault::Fails(code) => CloudFault::Fail(*code),
                    CallFault::FailsAfterEffect(code) => CloudFault::LoseAnswer(*code),
                    CallFault::Slow(time) => CloudFault::Delay(*time),
                    CallFault::Hangs => CloudFault::Hang,
                    CallFault::HangsAfterEffect => CloudFault::HangAfterEffect,
                };
                let script = Script::always(fault).with_chance(f64::from(*percent) / 100.0);
                let script = match method {
                    Some(method) => script.on(*method),
                    None => script,
                };
                self.scripts.push((number, script));
                self.apply_scripts();
                Some(FaultEnd::Scripts)
            }
            Fault::Vm { how, pick } => {
                self.apply_vm_fault_to(*how, *pick);
                None
            }
            Fault::MachineDies { pick } => {
                let machine = self.machine(*pick)?;
                let vms = self.cloud.vms();
                let vm = vms.iter().find(|vm| vm.machine.as_ref().is_some_and(|name| name.as_str() == machine))?;
                self.apply_vm_fault(VmFault::Dies, &vm.id);
                None
            }
            Fault::Zone { how, revived } => {
                let affected: Vec<VmId> = self.cloud.vms().into_iter().step_by(2).map(|vm| vm.id).collect();
                for vm in &affected {
                    self.apply_vm_fault(*how, vm);
                }
                revived.map(|_| FaultEnd::Revive(affected))
            }
            Fault::Omissions { .. } => {
                *self.omissions.lock() += 1;
                Some(FaultEnd::Omissions)
            }
            Fault::Doubles { .. } => {
                *self.doubles.lock() += 1;
                Some(FaultEnd::Doubles)
            }
            Fault::Quota { .. } => {
                let total = Some(self.cloud.vms().len());
                self.cloud.set_quotas(Quotas { total, ..Quotas::default() });
                Some(FaultEnd::Quota)
            }
            Fault::Crash { .. } => {
                let leader = self.leader()?;
                self.processes.remove(leader).kill();
                Some(FaultEnd::Start)
            }
            Fault::Restore { down, .. } => Some(FaultEnd::TakeDown(self.server.revision(), *down)),
            Fault::OtherVersion { version, .. } => {
                let leader = self.leader()?;
                self.processes.remove(leader).kill();
                self.write_as(*version);
                Some(FaultEnd::Start)
            }
            Fault::LeaderPartition { .. } => {
                let leader = self.leader()?;
                let process = self.processes.get(leader)?;
                process.connection(Side::Control).send_replace(ConnectionState::Cut);
                Some(FaultEnd::LeaderConnection(process.number))
            }
        }
    }

    /// Ends fault number `number`, or its first phase. Returns the next phase and its delay.
    pub(super) fn end_fault(&mut self, number: usize, end: FaultEnd) -> Result<Option<(Duration, FaultEnd)>, String> {
        match end {
            FaultEnd::Rules => {
                for (_, rule) in self.rules.extract_if(.., |(owner, _)| *owner == number) {
                    self.server.faults().withdraw(rule);
                }
            }
            FaultEnd::Scripts => {
                self.scripts.retain(|(owner, _)| *owner != number);
                self.apply_scripts();
            }
            FaultEnd::Connection(side) => self.set_connections(side, ConnectionState::Open),
            FaultEnd::Omissions => *self.omissions.lock() -= 1,
            FaultEnd::Doubles => *self.doubles.lock() -= 1,
            FaultEnd::Quota => self.cloud.set_quotas(Quotas::default()),
            FaultEnd::Revive(vms) => vms.iter().for_each(|vm| self.cloud.revive(vm)),
            // A process cannot start without an API server.
            FaultEnd::Start if self.is_down => return Ok(Some((BREAK, FaultEnd::Start))),
            FaultEnd::Start => self.start()?,
            FaultEnd::TakeDown(revision, down) => {
                self.is_down = true;
                self.stop_cluster();
                self.set_connections(Side::Control, ConnectionState::Cut);
                self.set_connections(Side::Target, ConnectionState::Cut);
                return Ok(Some((down, FaultEnd::Restore(revision))));
            }
            FaultEnd::Restore(revision) => {
                self.restore(revision);
                return Ok(Some((Duration::from_secs(self.random.below(HEAD_START)), FaultEnd::Reconnect)));
            }
            FaultEnd::Reconnect => {
                for process in &self.processes {
                    open(process.connection(Side::Control));
                    open(process.connection(Side::Target));
                }
            }
            FaultEnd::LeaderConnection(number) => {
                for process in self.processes.iter().filter(|process| process.number == number) {
                    open(process.connection(Side::Control));
                }
            }
        }
        Ok(None)
    }

    /// Restores the API server if it still has the revision. New writes of other clients may reach revisions beyond
    /// those that the controllers have observed.
    fn restore(&mut self, revision: u64) {
        self.is_down = false;
        if self.server.restore(revision).is_ok() {
            self.report_restore(revision);
        }
        self.restart_cluster();
    }

    fn report_restore(&self, revision: u64) {
        let kept = KINDS.map(|kind| (kind, self.server.objects(kind)));
        let objects = kept.iter().flat_map(|(kind, objects)| objects.iter().map(move |object| (*kind, &**object)));
        let now = self.clock.now();
        self.observer.update(|oracle| oracle.restored(now, revision, objects));
    }

    fn request_rule(&self, side: Side, requests: RequestKind, how: RequestFault, percent: u8) -> RuleId {
        let verbs: Verbs = match (requests, how) {
            (RequestKind::Creates, _) => Verb::Create.into(),
            (RequestKind::Deletes, _) => Verb::Delete.into(),
            (RequestKind::All, RequestFault::Rejected) => Verb::WRITES.into(),
            (RequestKind::All, _) => Verb::ALL.into(),
        };
        let rule = self.rule(side, verbs).with_probability(f64::from(percent) / 100.0);
        match how {
            RequestFault::Failed => rule.fail(),
            RequestFault::Conflict => rule.conflict(),
            RequestFault::Throttled => rule.throttle(Some(1)),
            RequestFault::RequestLost => rule.disconnect(),
            RequestFault::ResponseLost => rule.lose_answer(),
            RequestFault::Rejected => rule.forbid(),
            RequestFault::Reverted => rule.revert(),
            RequestFault::Slow => rule.delay_between(Duration::ZERO, Duration::from_secs(5)),
        }
    }

    fn rule(&self, side: Side, verbs: impl Into<Verbs>) -> Rule {
        let agent = match side {
            Side::Control => "control",
            Side::Target => "target",
        };
        self.server.faults().on(verbs).by_agent(format!("{AGENT_PREFIX}{agent}"))
    }

    fn set_connections(&self, side: Side, state: ConnectionState) {
        for process in &self.processes {
            process.connection(side).send_replace(state);
        }
    }

    /// Breaks all requests and watches of a connection. The break lasts a moment, because a break of no duration would
    /// not be observed. If `compacted` is given, events in between cannot be delivered later.
    fn break_connections(&self, side: Side, compacted: Option<Server>) {
        let connections: Vec<_> = self.processes.iter().map(|process| process.connection(side).clone()).collect();
        for line in &connections {
            line.send_replace(ConnectionState::Cut);
        }
        self.background.spawn("broken connections", async move {
            tokio::time::sleep(BREAK).await;
            if let Some(server) = compacted {
                server.compact(server.revision());
            }
            connections.iter().for_each(open);
        });
    }

    fn apply_scripts(&self) {
        self.cloud.clear_faults();
        self.scripts.iter().for_each(|(_, script)| self.cloud.inject(script.clone()));
    }

    fn apply_vm_fault_to(&self, how: VmFault, pick: Pick) {
        let vms = self.cloud.vms();
        let number = usize::from(pick).checked_rem(vms.len());
        if let Some(vm) = number.and_then(|number| vms.get(number)) {
            self.apply_vm_fault(how, &vm.id);
        }
    }

    fn apply_vm_fault(&self, how: VmFault, vm: &VmId) {
        match how {
            VmFault::Dies => self.cloud.kill(vm),
            VmFault::Hangs => self.cloud.hang(vm),
            VmFault::Reboots => {
                self.cloud.kill(vm);
                self.cloud.revive(vm);
            }
            VmFault::Vanishes => {
                let going = |vm: driver_virtual::Vm| vm.state(self.clock.instant()) == State::Deleting;
                if !self.cloud.vm(vm).is_none_or(going) {
                    self.cloud.reclaim(vm);
                }
            }
        }
    }
}

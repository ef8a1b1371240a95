//! What goes wrong, carried out and ended.

use std::time::Duration;

use driver_virtual::{Fault as CloudFault, Quotas, Script, State, VmId};
use fake_apiserver::Server;
use fake_apiserver::faults::{After, Rule, RuleId, Verb, Verbs};
use tokio::sync::watch;

use super::environment::Environment;
use super::history::{CallFault, Fault, Pick, RequestFault, Side, VmFault, Which};
use super::line::LineState;
use super::process::OURS;
use crate::oracle::{DEPLOYMENTS, MACHINES, SETS};

/// How long a line that breaks is cut.
const BREAK: Duration = Duration::from_secs(2);

/// How much sooner than we, at the most, others reach an API server that was put back.
const HEAD_START: u64 = 30;

/// What the oracle is told of an API server that was put back.
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

/// What ends a fault.
#[derive(Debug)]
pub(super) enum End {
    /// Requests are as they should be.
    Rules,
    /// Driver calls are.
    Scripts,
    /// The line is open.
    Line(Side),
    /// Lists of VMs are whole.
    Omissions,
    /// Creates give a Machine one VM.
    Doubles,
    /// There is room for VMs.
    Quota,
    /// These boot.
    Revive(Vec<VmId>),
    /// A process begins.
    Start,
    /// The line of the process with this number is open.
    Lone(u64),
    /// Nobody can reach the API server for this long; then it is what it was at this revision.
    Away(u64, Duration),
    /// The API server is what it was at this revision, and others can reach it.
    PutBack(u64),
    /// And so can we.
    Back,
}

/// Opens a line that is cut.
fn open(line: &watch::Sender<LineState>) {
    line.send_if_modified(|state| {
        let is_cut = *state == LineState::Cut;
        if is_cut {
            *state = LineState::Open;
        }
        is_cut
    });
}

impl Environment {
    /// Lets fault number `number` begin; how it ends.
    pub(super) fn begin(&mut self, number: usize, fault: &Fault) -> Option<End> {
        match fault {
            Fault::Requests { side, which, how, percent, .. } => {
                let rule = self.request_rule(*side, *which, *how, *percent);
                self.rules.push((number, rule));
                Some(End::Rules)
            }
            Fault::Watches { side, .. } => {
                // Those that are open break as well, and are opened again under the rule.
                let rule = self.rule(*side, Verb::Watch).with_probability(0.8);
                let rule = rule.drop_watch(After::Time(Duration::from_secs(7)));
                self.rules.push((number, rule));
                self.break_line(*side, None);
                Some(End::Rules)
            }
            Fault::Compaction { side } => {
                self.break_line(*side, Some(self.server.clone()));
                None
            }
            Fault::Lag { side, .. } => {
                self.set_line(*side, LineState::Late);
                Some(End::Line(*side))
            }
            Fault::Partition { side, .. } => {
                self.set_line(*side, LineState::Cut);
                Some(End::Line(*side))
            }
            Fault::Forbidden { side, .. } => {
                let rule = self.rule(*side, Verb::ALL).forbid();
                self.rules.push((number, rule));
                Some(End::Rules)
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
                self.play_scripts();
                Some(End::Scripts)
            }
            Fault::Vm { how, pick } => {
                self.strike_one(*how, *pick);
                None
            }
            Fault::MachineDies { pick } => {
                let machine = self.machine(*pick)?;
                let vms = self.cloud.vms();
                let vm = vms.iter().find(|vm| vm.machine.as_ref().is_some_and(|name| name.as_str() == machine))?;
                self.strike(VmFault::Dies, &vm.id);
                None
            }
            Fault::Zone { how, revived } => {
                let struck: Vec<VmId> = self.cloud.vms().into_iter().step_by(2).map(|vm| vm.id).collect();
                for vm in &struck {
                    self.strike(*how, vm);
                }
                revived.map(|_| End::Revive(struck))
            }
            Fault::Omissions { .. } => {
                *self.omissions.lock() += 1;
                Some(End::Omissions)
            }
            Fault::Doubles { .. } => {
                *self.doubles.lock() += 1;
                Some(End::Doubles)
            }
            Fault::Quota { .. } => {
                let total = Some(self.cloud.vms().len());
                self.cloud.set_quotas(Quotas { total, ..Quotas::default() });
                Some(End::Quota)
            }
            Fault::Crash { .. } => {
                let leader = self.leader()?;
                self.processes.remove(leader).die();
                Some(End::Start)
            }
            Fault::PutBack { down, .. } => Some(End::Away(self.server.revision(), *down)),
            Fault::OtherVersion { version, .. } => {
                let leader = self.leader()?;
                self.processes.remove(leader).die();
                self.left_by(*version);
                Some(End::Start)
            }
            Fault::Deposed { .. } => {
                let leader = self.leader()?;
                let process = self.processes.get(leader)?;
                process.line(Side::Control).send_replace(LineState::Cut);
                Some(End::Lone(process.number))
            }
        }
    }

    /// Ends fault number `number`, or the first part of it; what ends then, and after how long.
    pub(super) fn finish(&mut self, number: usize, end: End) -> Result<Option<(Duration, End)>, String> {
        match end {
            End::Rules => {
                for (_, rule) in self.rules.extract_if(.., |(whose, _)| *whose == number) {
                    self.server.faults().withdraw(rule);
                }
            }
            End::Scripts => {
                self.scripts.retain(|(whose, _)| *whose != number);
                self.play_scripts();
            }
            End::Line(side) => self.set_line(side, LineState::Open),
            End::Omissions => *self.omissions.lock() -= 1,
            End::Doubles => *self.doubles.lock() -= 1,
            End::Quota => self.cloud.set_quotas(Quotas::default()),
            End::Revive(vms) => vms.iter().for_each(|vm| self.cloud.revive(vm)),
            // Nobody begins without an API server.
            End::Start if self.is_away => return Ok(Some((BREAK, End::Start))),
            End::Start => self.start()?,
            End::Away(revision, down) => {
                self.is_away = true;
                self.stop_cluster();
                self.set_line(Side::Control, LineState::Cut);
                self.set_line(Side::Target, LineState::Cut);
                return Ok(Some((down, End::PutBack(revision))));
            }
            End::PutBack(revision) => {
                self.put_back(revision);
                return Ok(Some((Duration::from_secs(self.random.below(HEAD_START)), End::Back)));
            }
            End::Back => {
                for process in &self.processes {
                    open(process.line(Side::Control));
                    open(process.line(Side::Target));
                }
            }
            End::Lone(number) => {
                for process in self.processes.iter().filter(|process| process.number == number) {
                    open(process.line(Side::Control));
                }
            }
        }
        Ok(None)
    }

    /// Puts the API server back, if it remembers what it was. What others write then may come further than what we had seen.
    fn put_back(&mut self, revision: u64) {
        self.is_away = false;
        if self.server.restore(revision).is_ok() {
            self.tell_of_copy(revision);
        }
        self.restart_cluster();
    }

    fn tell_of_copy(&self, revision: u64) {
        let kept = KINDS.map(|kind| (kind, self.server.objects(kind)));
        let objects = kept.iter().flat_map(|(kind, objects)| objects.iter().map(move |object| (*kind, &**object)));
        let now = self.clock.now();
        self.judged.tell(|oracle| oracle.put_back(now, revision, objects));
    }

    fn request_rule(&self, side: Side, which: Which, how: RequestFault, percent: u8) -> RuleId {
        let verbs: Verbs = match (which, how) {
            (Which::Creates, _) => Verb::Create.into(),
            (Which::Deletes, _) => Verb::Delete.into(),
            (Which::All, RequestFault::Refused) => Verb::WRITES.into(),
            (Which::All, _) => Verb::ALL.into(),
        };
        let rule = self.rule(side, verbs).with_probability(f64::from(percent) / 100.0);
        match how {
            RequestFault::Failed => rule.fail(),
            RequestFault::Conflict => rule.conflict(),
            RequestFault::Throttled => rule.throttle(Some(1)),
            RequestFault::LostBefore => rule.disconnect(),
            RequestFault::LostAfter => rule.lose_answer(),
            RequestFault::Refused => rule.forbid(),
            RequestFault::Reverted => rule.revert(),
            RequestFault::Slow => rule.delay_between(Duration::ZERO, Duration::from_secs(5)),
        }
    }

    fn rule(&self, side: Side, verbs: impl Into<Verbs>) -> Rule {
        let agent = match side {
            Side::Control => "control",
            Side::Target => "target",
        };
        self.server.faults().on(verbs).by_agent(format!("{OURS}{agent}"))
    }

    fn set_line(&self, side: Side, state: LineState) {
        for process in &self.processes {
            process.line(side).send_replace(state);
        }
    }

    /// Ends everything that is under way on a line. A line that was cut and opened at once would not have been cut for anybody. What
    /// happened meanwhile is forgotten by `forgetful`.
    fn break_line(&self, side: Side, forgetful: Option<Server>) {
        let lines: Vec<_> = self.processes.iter().map(|process| process.line(side).clone()).collect();
        for line in &lines {
            line.send_replace(LineState::Cut);
        }
        self.outside.spawn("a line that breaks", async move {
            tokio::time::sleep(BREAK).await;
            if let Some(server) = forgetful {
                server.compact(server.revision());
            }
            lines.iter().for_each(open);
        });
    }

    fn play_scripts(&self) {
        self.cloud.clear_faults();
        self.scripts.iter().for_each(|(_, script)| self.cloud.inject(script.clone()));
    }

    fn strike_one(&self, how: VmFault, pick: Pick) {
        let vms = self.cloud.vms();
        let number = usize::from(pick).checked_rem(vms.len());
        if let Some(vm) = number.and_then(|number| vms.get(number)) {
            self.strike(how, &vm.id);
        }
    }

    fn strike(&self, how: VmFault, vm: &VmId) {
        match how {
            VmFault::Dies => self.cloud.kill(vm),
            VmFault::Hangs => self.cloud.hang(vm),
            VmFault::Reboots => {
                self.cloud.kill(vm);
                self.cloud.revive(vm);
            }
            VmFault::IsTaken => {
                let going = |vm: driver_virtual::Vm| vm.state(self.clock.instant()) == State::Deleting;
                if !self.cloud.vm(vm).is_none_or(going) {
                    self.cloud.reclaim(vm);
                }
            }
        }
    }
}
